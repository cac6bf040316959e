// Debounce: several short messages in a row from one customer become one question. Part of stage route. The
// whole state is in the rows, so a crash loses nothing.

import type { MessageEvent } from "bridgehead/contract";
import { answerTo } from "../../domain/address.ts";
import { joinedContext, questionContext, questionText } from "../../domain/question.ts";
import type { Query } from "../../store/driver.ts";
import { lockLane } from "../../store/lanes.ts";
import { attachmentsOf, type EventRow } from "../../store/tables/events.ts";
import { extendTurn, joinableTurn } from "./debounce-rows.ts";

/** A turn waits at most this many times `join` after its first message, however many messages follow. */
const patience = 4;
/** Maximum length of a joined question, in characters. */
const longestQuestion = 20_000;

/** Returns the time at which a turn that begins with this message is due. `join` is in milliseconds. */
export function dueAt(q: Query, row: EventRow, join: number): number {
  // Sets a timer, so that the turn does not wait for the next sweep.
  if (join > 0) q.waits.add(join);
  return row.received_at + join;
}

/** Adds the message to a waiting turn and returns the turn's id; null when no turn waits for it. The
 *  answer goes to this message's reply address, and the delay counts from this message. */
export async function joinTurn(
  q: Query,
  row: EventRow,
  event: MessageEvent,
  conversation: string,
  join: number,
): Promise<string | null> {
  await lockLane(q, conversation, "in");
  const turn = await joinableTurn(q, conversation, event.from.address.toLowerCase());
  if (!turn) return null;
  const words = questionText(event, false, await attachmentsOf(q, row.id));
  const question = `${turn.question}\n${words}`;
  if (question.length > longestQuestion) return null;
  await extendTurn(q, conversation, turn.id, {
    question,
    context: joinedContext(turn.context, questionContext(event)),
    address: JSON.stringify(answerTo(event)),
    receivedAt: row.received_at,
    dueAt: Math.min(dueAt(q, row, join), turn.first_at + patience * join),
  });
  return turn.id;
}
