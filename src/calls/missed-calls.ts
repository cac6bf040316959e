// Missed and abandoned calls: opens escalations for them. Part of stage route, in the transaction of the
// event.

import type { MessageEvent, SessionEvent } from "bridgehead/contract";
import { barred } from "../domain/guards.ts";
import type { ChannelRuntime } from "../pipeline/channel-runtime.ts";
import type { Query } from "../store/driver.ts";
import type { EventRow } from "../store/tables/events.ts";

/** The reason text by state and reason of a session event (bridgehead/contract, SessionEvent). */
const unserved: Readonly<Record<string, string>> = {
  "handing-over no-answer": "the agent did not answer in a call, which is being handed over",
  "handing-over lost": "the agent cannot be reached in a call, which is being handed over",
  "closed no-answer": "a call has ended, and nobody has answered the caller",
  "closed failed": "a call has ended because the agent could not be reached",
};

const longestReason = 500;

/** Opens an escalation when the event shows that the caller was not served. Barred callers open none. */
export async function raiseUnserved(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: SessionEvent,
  conversation: string,
): Promise<void> {
  const reason = unserved[`${event.state} ${event.reason}`];
  if (reason === undefined || barred(event.from.address.toLowerCase(), line.rules) !== null) return;
  await line.escalation()?.raise(q, { ...about(line, row, conversation), cause: "call", reason });
}

/** Opens an escalation for a message to humans: a missed call, or any message without a notification
 *  target. Responders who were notified of the abandoned call receive this message as an update. */
export async function raiseForHumans(
  q: Query,
  line: ChannelRuntime,
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

const about = ({ channel, agent }: ChannelRuntime, { id }: EventRow, conversation: string) => ({
  key: `event:${id}`,
  source: "ours" as const,
  channel,
  agent,
  conversation,
  topic: null,
});
