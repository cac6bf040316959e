// Acknowledges, closes and resumes escalations. An acknowledgement ends the policy's steps and notifies the
// other contacts.

import type { Clock, Log } from "bridgehead/contract";
import { newId } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import { readConversation } from "../../store/tables/conversations.ts";
import { closeEscalation, type EscalationRow } from "../../store/tables/escalations.ts";
import { enqueueTurn } from "../../store/tables/turns.ts";
import { takenText } from "../notify/text.ts";
import { acknowledgeEscalation, notifyOthers } from "./rows.ts";

export interface ActorDeps {
  readonly clock: Clock;
  readonly log: Log;
}

/** The actor. `contact` is the contact through which the responder was notified; null for an operator's
 *  command. */
export interface Actor {
  readonly name: string;
  readonly contact: string | null;
}

/** Acknowledges the escalation and notifies the other responders who were notified of it. Returns false
 *  when the same actor has acknowledged it already, or when it is closed. */
export async function acknowledge(
  q: Query,
  row: EscalationRow,
  by: Actor,
  { clock, log }: ActorDeps,
): Promise<boolean> {
  if (!(await acknowledgeEscalation(q, row.id, by))) return false;
  log.info({ escalation: row.number }, "escalation acknowledged");
  // When the same responder acknowledges through another target, the others were notified before.
  if (row.state === "open" || row.taken_by !== by.name)
    await notifyOthers(q, row.id, by, { id: newId(clock.now()), text: takenText(row, by.name) });
  return true;
}

/** Closes the escalation and ends its notifications. Returns false when it was closed before. */
export async function close(q: Query, row: EscalationRow, by: string, deps: ActorDeps): Promise<boolean> {
  const closed = await closeEscalation(q, row.id, by);
  if (closed) deps.log.info({ escalation: row.number }, "escalation closed");
  return closed;
}

/** Returns the conversation to the agent: enqueues the mode change for the platform and closes the
 *  escalation. */
export async function resume(q: Query, row: EscalationRow, by: string, deps: ActorDeps): Promise<void> {
  if (row.conversation !== null) await giveBack(q, row.conversation, deps.clock);
  await close(q, row, by, deps);
}

/** Enqueues a turn that sets the platform's mode to `ai`. It runs after all queued turns of the
 *  conversation. */
async function giveBack(q: Query, conversation: string, clock: Clock): Promise<void> {
  const { channel, person } = await readConversation(q, conversation);
  await enqueueTurn(q, {
    id: newId(clock.now()),
    conversation,
    channel,
    person,
    kind: "mode",
    event: null,
    question: "ai",
    context: null,
    address: "{}",
    receivedAt: clock.now(),
  });
}
