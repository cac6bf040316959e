// Opens escalations. Several triggers of one incident become one escalation. Runs inside the transaction
// that detected the trigger, so that it is neither lost nor opened twice.

import type { Clock, Log } from "bridgehead/contract";
import type { Cause } from "../../domain/policy.ts";
import { newId } from "../../ops/clock.ts";
import type { Raised } from "../../pipeline/escalation.ts";
import type { Query } from "../../store/driver.ts";
import {
  addTrigger,
  type EscalationRow,
  insertEscalation,
  isTriggered,
  liveEscalation,
  newestEscalation,
} from "../../store/tables/escalations.ts";
import { addNotification, targetsOf } from "../../store/tables/responders.ts";
import { hasWrittenSince } from "../../store/tables/transcript.ts";

export interface RaiseDeps {
  readonly clock: Clock;
  readonly log: Log;
}

export const aboutConversation = (id: string): string => `conversation:${id}`;
/** `which`: a conversation of the agent outside this daemon. */
export const aboutAgent = (name: string, which: string): string => `agent:${name}:${which}`;
export const aboutChannel = (id: string, cause: Cause): string => `channel:${id}:${cause}`;

/** Returns the escalation of the trigger. Returns null when the trigger was recorded before, or belongs
 *  to a closed escalation. `about`: the subject, where it is neither the conversation nor the channel. */
export async function raise(
  q: Query,
  raised: Raised,
  deps: RaiseDeps,
  about: string = aboutOf(raised),
): Promise<EscalationRow | null> {
  const { key, source, reason } = raised;
  if (await isTriggered(q, key)) return null;
  const known = (await liveEscalation(q, about)) ?? (await lateFor(q, raised, about));
  const row = known ?? (await open(q, raised, about, deps));
  if (row === null) return null;
  await addTrigger(q, { key, escalation: row.id, source, detail: reason });
  if (known && (raised.news || (raised.said !== undefined && row.state === "taken")))
    await tellMore(q, row, raised, deps);
  return row.state === "closed" ? null : row;
}

const aboutOf = ({ conversation, channel, cause }: Raised): string =>
  conversation === null ? aboutChannel(channel, cause) : aboutConversation(conversation);

/** Returns null when another transaction has recorded the trigger meanwhile. */
async function open(q: Query, raised: Raised, about: string, deps: RaiseDeps): Promise<EscalationRow | null> {
  const { key, channel, agent, conversation, cause, topic, reason } = raised;
  const id = newId(deps.clock.now());
  const row =
    (await insertEscalation(q, { id, about, channel, agent, conversation, cause, topic, reason }, key)) ??
    (await liveEscalation(q, about));
  if (!row && (await isTriggered(q, key))) return null;
  if (!row) throw new Error(`opening an escalation about ${about}: it was closed meanwhile`);
  deps.log.warn({ channel, escalation: row.number, cause, conversation }, "a human is needed");
  return row;
}

/** Notifies the contact that acknowledged the escalation, or all contacts when there is no such contact. */
async function tellMore(
  q: Query,
  row: EscalationRow,
  { key, reason, said }: Raised,
  deps: RaiseDeps,
): Promise<void> {
  const text = `${row.number}: ${reason}${said === undefined ? "" : `\nThe customer wrote: ${said}`}`;
  for (const { id: contact } of await targetsOf(q, row.id)) {
    if (row.taken_contact !== null && row.taken_contact !== contact) continue;
    const notice = { id: newId(deps.clock.now()), contact, kind: "said", subject: key, text } as const;
    await addNotification(q, notice, 0);
  }
}

/** Logs an escalation of the platform for which no responder is configured. Called once per answer or mode change. */
export function logUnnotified(
  log: Log,
  {
    channel,
    agent,
    conversation,
    topic,
    cause,
  }: Pick<Raised, "channel" | "agent" | "conversation" | "topic" | "cause">,
): void {
  log.warn({ channel, agent, conversation, topic, cause }, "escalation detected, no responder is configured");
}

/** Finds the closed escalation of a late trigger. The platform reports one event in several ways, and
 *  one report may arrive after the close. It is a duplicate as long as the customer has not written
 *  since. Triggers of our own are always new. */
async function lateFor(q: Query, raised: Raised, about: string): Promise<EscalationRow | null> {
  if (raised.source === "ours" || raised.conversation === null) return null;
  const newest = await newestEscalation(q, about);
  if (!newest || newest.cause !== raised.cause) return null;
  return (await hasWrittenSince(q, raised.conversation, newest.from_seq)) ? null : newest;
}
