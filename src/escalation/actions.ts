// Acknowledges, closes and resumes escalations, and relays texts to the customer. Input: a locked escalation and the actor,
// from a reply, a link, a command or a poll. Effect: none outside the store; an acknowledgement ends the policy's steps. Output:
// the escalation in its new state, notifications of the other targets, a turn and a reply with the text. Failure: fails with the
// transaction of the caller. Crash: likewise.

import type { Clock, Traits } from "bridgehead/contract";
import type { Policy } from "../domain/policy.ts";
import { type Address, firstTo } from "../domain/turn.ts";
import type { Scheduler } from "../engine/scheduler.ts";
import { newId } from "../ops/clock.ts";
import type { ChannelRuntimes } from "../pipeline/channel-runtime.ts";
import type { ChannelHealth } from "../pipeline/escalation.ts";
import { type Core, logOnDisk, type Query } from "../store/driver.ts";
import type { RateReserve } from "../store/rates.ts";
import { insertReply } from "../store/tables/drafts.ts";
import { closeEscalation, type EscalationRow } from "../store/tables/escalations.ts";
import { insertFiles, type ReadyFile } from "../store/tables/files.ts";
import { clearLanes } from "../store/tables/takeover.ts";
import { appendTurn, enqueueTurn } from "../store/tables/turns.ts";
import { acknowledgedText } from "./notify/text.ts";
import { namesOf } from "./reply/files.ts";
import { acknowledgeEscalation, type Customer, notifyOthers } from "./reply/rows.ts";

/** What the parts of escalation handling use; each takes the members that it needs. */
export interface EscalationParts extends Core {
  /** Null when the current configuration has no policy. */
  readonly policy: () => Policy | null;
  readonly lines: () => ChannelRuntimes;
  readonly scheduler: Pick<Scheduler, "commit">;
  readonly rate: RateReserve;
  /** Returns the public URL of a link token for responders' browsers; null without a public URL. */
  readonly link: (token: string) => string | null;
  readonly isAgent: (name: string) => boolean;
  /** The channels that run here. */
  readonly pulses: () => readonly ChannelHealth[];
  /** True when the channel is known to be down. */
  readonly isDown: (channel: string) => boolean;
  /** False while no responder was ever notified and none is configured: then no message can be a
   *  responder's reply, and the look-up is skipped. Default: true. */
  readonly hasResponders?: () => boolean;
  /** Returns the kind of the channel; null when it cannot send. */
  readonly kindOf: (channel: string) => Traits["platform"] | null;
}
/** What all stages use. */
export type EscalationCore = Pick<EscalationParts, "policy" | "lines" | "clock" | "log" | "timing">;
type ActorDeps = Pick<EscalationParts, "clock" | "log">;

/** The actor. `target` is the target through which the responder was notified; null for an operator's command. */
export interface Actor {
  readonly name: string;
  readonly target: string | null;
}

/** Acknowledges the escalation and notifies the other responders who were notified of it. Changes nothing when the same
 *  actor has acknowledged it already, or when it is closed. */
export async function acknowledge(q: Query, row: EscalationRow, by: Actor, { clock, log }: ActorDeps): Promise<void> {
  if (!(await acknowledgeEscalation(q, row.id, by))) return;
  logOnDisk(q, log).info({ escalation: row.number }, "escalation acknowledged");
  // When the same responder acknowledges through another target, the others were notified before.
  if (row.state === "open" || row.acknowledged_by !== by.name)
    await notifyOthers(q, row.id, by, { id: newId(clock.now()), text: acknowledgedText(row, by.name) });
}

/** Closes the escalation and ends its notifications. Changes nothing when it was closed before. */
export async function close(q: Query, row: EscalationRow, by: string, deps: ActorDeps): Promise<void> {
  if (await closeEscalation(q, row.id, by))
    logOnDisk(q, deps.log).info({ escalation: row.number }, "escalation closed");
}

/** Returns the conversation to the agent: enqueues the mode change for the platform, after all queued turns of the
 *  conversation, and closes the escalation. `customer`: null when it is about a channel. */
export async function resume(
  q: Query,
  row: EscalationRow,
  customer: Pick<Customer, "id" | "channel" | "person"> | null,
  by: string,
  deps: ActorDeps,
): Promise<void> {
  if (customer !== null)
    await appendTurn(q, { ...turnOf(customer, deps.clock), kind: "mode", question: "ai", address: "{}" });
  await close(q, row, by, deps);
}

const turnOf = ({ id: conversation, channel, person }: Pick<Customer, "id" | "channel" | "person">, clock: Clock) => ({
  id: newId(clock.now()),
  conversation,
  channel,
  person,
  event: null,
  context: null,
  receivedAt: clock.now(),
});

export type RelayDeps = ActorDeps & Pick<EscalationParts, "kindOf">;

/** Enqueues the text for the customer, and for the platform except in a call. Files without a text are sent with their
 *  names as the text; they are set only where the channel supports attachments. Call only when `whyNotRelayed` returns
 *  null. */
export async function enqueueRelay(
  q: Query,
  customer: Customer,
  content: { readonly text: string; readonly files?: readonly ReadyFile[]; readonly inCall: boolean },
  { clock, log }: ActorDeps,
): Promise<void> {
  const { id: conversation, channel } = customer;
  const files = content.files ?? [];
  const names = namesOf(files);
  const { inCall } = content;
  const address = inCall ? addressInCall(customer) : addressOf(customer);
  const turn = turnOf(customer, clock);
  if (!inCall) {
    const unchanged = await clearLanes(q, conversation);
    await (unchanged ? appendTurn : enqueueTurn)(q, {
      ...turn,
      kind: "relayed",
      // The platform receives only the names of the files.
      question: [content.text, names].filter((part) => part !== "").join("\n\n"),
      address: JSON.stringify(address),
    });
  }
  const reply = newId(clock.now());
  await insertReply(q, {
    id: reply,
    conversation,
    channel,
    turn: inCall ? null : turn.id,
    kind: "human",
    address: JSON.stringify(address),
    text: content.text || names,
    platformId: null,
  });
  await insertFiles(q, reply, files);
  logOnDisk(q, log).info({ channel, conversation }, "escalation reply relayed to the customer");
}

/** Returns the address of the customer's newest message. Later writers in the thread are not included. */
export function addressOf({ address, person, subject }: Customer): Address {
  return address === null ? firstTo({ address: person }, subject) : (JSON.parse(address) as Address);
}

/** Returns the address of a human's words in the call. They answer no message, so a newer one does not supersede them. */
export const addressInCall = ({ person, session }: Customer): Address => ({
  ...firstTo({ address: person }, null),
  session: session as Address["session"],
});
