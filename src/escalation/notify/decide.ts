// Decisions of stage notify, on loaded rows. Pure.

import { type Contact, current, type Policy, type Step, step, webhookChannel } from "../../domain/policy.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../../pipeline/channel-runtime.ts";
import type { ContactRow, NoticeRow, Way } from "../../store/tables/contacts.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";
import { agentRecipients } from "./recipients.ts";

/** A notification target of an escalation. `told`: the first notification exists. `due`: a notification
 *  is not written yet. `waiting`: the draft of one is unsent on the target's channel. `reached`: one was
 *  sent. */
export interface TargetState {
  readonly contact: ContactRow;
  readonly told: boolean;
  readonly due: boolean;
  readonly waiting: boolean;
  readonly reached: boolean;
}

/** A contact of the policy, with the channel that carries its notifications. Null: nothing carries it. */
export interface Recipient {
  readonly to: Contact;
  readonly channel: string | null;
  /** In the canonical form of the channel. */
  readonly address: string | null;
}

export interface StepPlan {
  readonly recipients: readonly Recipient[];
  /** The next step, due even when no recipient is reachable. */
  readonly next: Step;
  /** Time of the first notification when the step has none. */
  readonly toldAt: number | null;
}

/** Plans one step of the policy for one escalation. When no step is due, the recipients are those of the
 *  current step that were not notified: the policy has changed, a responder came on duty, or a notification
 *  channel was removed. */
export function planStep(
  policy: Policy,
  row: EscalationRow,
  targets: readonly TargetState[],
  lines: ChannelRuntimes,
  now: number,
): StepPlan {
  const about = { topic: row.topic, agent: row.agent, channel: row.channel, cause: row.cause as never };
  const progress = { tier: row.tier, enteredAt: row.entered_at, toldAt: row.told_at };
  const next = step(policy, about, progress, now);
  const first = row.told_at === null && row.tier === 0;
  const recipientOf = (to: Contact) => recipient(policy, to, lines);
  const due =
    next.tell.length > 0
      ? next.tell.map(recipientOf)
      : current(policy, about, next.progress, now)
          .map(recipientOf)
          .filter((one) => isMissing(one, targets, lines));
  const fromAgent = first && policy.agentRecipients ? agentRecipients(row, lines).map(recipientOf) : [];
  const toldAt = next.progress.toldAt ?? (first ? now : null);
  return { recipients: [...due, ...fromAgent], next, toldAt };
}

const carrierOf = (policy: Policy, way: Way): string | null =>
  way === "webhook" ? webhookChannel : policy.via[way];

function recipient(policy: Policy, to: Contact, lines: ChannelRuntimes): Recipient {
  const channel = carrierOf(policy, to.way);
  return { to, channel, address: channel === null ? null : addressOn(lines.get(channel), to) };
}

/** Returns the address in the form of the contact rows; null when the channel cannot reach it. */
function addressOn(line: ChannelRuntime | undefined, { way, address }: Contact): string | null {
  if (!line?.outbound) return null;
  return way === "webhook" ? address : (line.address(address)?.toLowerCase() ?? null);
}

/** Returns the known target with the way and address of the recipient. */
export const targetFor = (
  { to, address }: Recipient,
  targets: readonly TargetState[],
): TargetState | undefined =>
  targets.find(({ contact }) => contact.way === to.way && contact.address === address);

function isMissing(one: Recipient, targets: readonly TargetState[], lines: ChannelRuntimes): boolean {
  const known = targetFor(one, targets);
  return known === undefined || (!lines.get(known.contact.channel)?.outbound && !known.reached);
}

/** Returns the milliseconds until an address may get the next message, so that notifications are grouped.
 *  `ago`: milliseconds since its last one, null for none. */
export const groupWait = ({ group }: Pick<Policy, "group">, ago: number | null): number =>
  // A negative age is a time in the future, after a backward clock step.
  ago === null || ago < 0 ? 0 : Math.max(0, group - ago);

/** Returns the key under which notifications become one message: same address, or acknowledged by the
 *  same responder. */
export function groupOf(
  { id, kind, subject }: Pick<NoticeRow, "id" | "kind" | "subject">,
  { way, channel, address }: Pick<ContactRow, "way" | "channel" | "address">,
): string {
  if (way === "webhook" || kind === "customer" || kind === "said") return id;
  return kind === "taken" ? `${channel} ${address} ${subject}` : `${channel} ${address}`;
}
