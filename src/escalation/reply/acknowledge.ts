// Acknowledges, closes and resumes escalations. An acknowledgement ends the policy's steps and notifies the
// other contacts.

import type { Clock, Log } from "bridgehead/contract";
import { newId } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import { addNotice, contactsOf, toldOf } from "../../store/tables/contacts.ts";
import { readConversation } from "../../store/tables/conversations.ts";
import { closeEscalation, type EscalationRow, takeEscalation } from "../../store/tables/escalations.ts";
import { enqueueTurn } from "../../store/tables/turns.ts";
import { takenText } from "../notify/templates.ts";

export interface TakeDeps {
  readonly clock: Clock;
  readonly log: Log;
}

/** The actor. `contact` is the contact through which the responder was notified; null for an operator's
 *  command. */
export interface Actor {
  readonly name: string;
  readonly contact: string | null;
}

/** Acknowledges the escalation. Returns false when the same actor has acknowledged it already, or when
 *  it is closed. */
export async function take(q: Query, row: EscalationRow, by: Actor, deps: TakeDeps): Promise<boolean> {
  if (!(await takeEscalation(q, row.id, by))) return false;
  deps.log.info({ escalation: row.number }, "an escalation was taken");
  // The same responder acknowledged through another contact. The other contacts were notified before.
  if (row.state === "taken" && row.taken_by === by.name) return true;
  const told = new Set(
    (await toldOf(q, row.id)).filter(({ state }) => state !== null).map(({ contact }) => contact),
  );
  const contacts = await contactsOf(q, row.id);
  const person = contacts.find(({ id }) => id === by.contact)?.person;
  for (const other of contacts) {
    if (other.id === by.contact || other.person === person || !told.has(other.id)) continue;
    const id = newId(deps.clock.now());
    const text = takenText(row, by.name);
    const notice = { id, contact: other.id, kind: "taken", subject: by.name, text } as const;
    // The contact got the same notification before, and another responder had the escalation in between.
    if (!(await addNotice(q, notice, 0))) await addNotice(q, { ...notice, subject: `${by.name} ${id}` }, 0);
  }
  return true;
}

/** Closes the escalation and ends its notifications. Returns false when it was closed before. */
export async function close(q: Query, row: EscalationRow, by: string, deps: TakeDeps): Promise<boolean> {
  const closed = await closeEscalation(q, row.id, by);
  if (closed) deps.log.info({ escalation: row.number }, "an escalation was closed");
  return closed;
}

/** Returns the conversation to the agent: enqueues the mode change for the platform and closes the
 *  escalation. */
export async function resume(q: Query, row: EscalationRow, by: string, deps: TakeDeps): Promise<void> {
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
