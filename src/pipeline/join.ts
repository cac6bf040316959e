// Joining: a person who writes three short messages in a row asks once. Part of stage route: pure; all of it is in the
// rows, so that a process that dies meanwhile changes nothing.

import type { MessageEvent } from "bridgehead/contract";
import { answerTo } from "../domain/address.ts";
import { joinedContext, questionContext, questionText } from "../domain/question.ts";
import type { Query } from "../store/driver.ts";
import { attachmentsOf, type EventRow } from "../store/events.ts";
import { extendTurn, joinableTurn } from "../store/joining.ts";
import { lockLane } from "../store/lanes.ts";

/** A turn waits no longer than this many times `join` after its first message, however often the person goes on. */
const patience = 4;
/** Characters of a question that takes more. */
const longestQuestion = 20_000;

/** When a turn that begins with this message is due. `join`: milliseconds. */
export function dueAt(q: Query, row: EventRow, join: number): number {
  // Found when it is due, not only by the next sweep.
  if (join > 0) q.waits.add(join);
  return row.received_at + join;
}

/** The turn that took the message along; null when none waits for it. The answer goes where this message says, and the
 *  delay counts from it. */
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
