// A call that was given up, or that nobody took: a human must know of it. Part of stage route, in the transaction that
// learns of it.

import type { MessageEvent, SessionEvent } from "bridgehead/contract";
import { barred } from "../domain/guards.ts";
import type { Query } from "../store/driver.ts";
import type { EventRow } from "../store/events.ts";
import type { Line } from "./line.ts";

/** By state and reason of a session's event (bridgehead/contract, SessionEvent). */
const unserved: Readonly<Record<string, string>> = {
  "handing-over no-answer": "the agent did not answer in a call, which is being handed over",
  "handing-over lost": "the agent cannot be reached in a call, which is being handed over",
  "closed no-answer": "a call has ended, and nobody has answered the caller",
  "closed failed": "a call has ended because the agent could not be reached",
};

const longestReason = 500;

/** Raises when the event says that nobody served the caller. Whoever is not to be answered anyway is no reason. */
export async function raiseUnserved(
  q: Query,
  line: Line,
  row: EventRow,
  event: SessionEvent,
  conversation: string,
): Promise<void> {
  const reason = unserved[`${event.state} ${event.reason}`];
  if (reason === undefined || barred(event.from.address.toLowerCase(), line.rules) !== null) return;
  await line.escalation()?.raise(q, { ...about(line, row, conversation), cause: "call", reason });
}

/** Raises for a message that is meant for people: a call that was missed, or anything that nobody is told of otherwise.
 *  Those who know that the call was given up hear what came of it. */
export async function raiseForHumans(
  q: Query,
  line: Line,
  row: EventRow,
  event: MessageEvent & Required<Pick<MessageEvent, "forHumans">>,
  conversation: string,
): Promise<void> {
  const call = line.traits.platform === "voice";
  if (!call && line.rules.humans !== undefined) return;
  const said = `${event.forHumans.subject}: ${event.text.replace(/\s+/g, " ").trim()}`;
  const reason = said.slice(0, longestReason).toWellFormed();
  const cause = call ? "call" : "held";
  await line.escalation()?.raise(q, { ...about(line, row, conversation), cause, reason, news: true });
}

const about = ({ channel, agent }: Line, { id }: EventRow, conversation: string) => ({
  key: `event:${id}`,
  source: "ours" as const,
  channel,
  agent,
  conversation,
  topic: null,
});
