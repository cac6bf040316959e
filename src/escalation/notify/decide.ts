// Decisions of stage notify, on loaded rows. Pure: ids and tokens come from the caller.

import { externalId } from "bridgehead/contract";
import { type Contact, current, type Policy, type Step, step, type Way, webhookChannel } from "../../domain/policy.ts";
import { furtherTo } from "../../domain/turn.ts";
import { type ChannelRuntime, type ChannelRuntimes, canSend } from "../../pipeline/channel-runtime.ts";
import type { NewConversation } from "../../store/tables/conversations.ts";
import type { Notice } from "../../store/tables/drafts.ts";
import type { DueEscalation, EscalationRow } from "../../store/tables/escalations.ts";
import type { DueNotification, NewNotification, NotificationRow, TargetRow } from "../../store/tables/responders.ts";
import { hashOf } from "../link/page.ts";
import { agentRecipients } from "../webhook/recipients.ts";
import { type Details, mostHeadlines, notificationText } from "./text.ts";

export type NotificationAddress = Pick<TargetRow, "channel" | "address">;
export const addressKey = ({ channel, address }: NotificationAddress): string => `${channel} ${address}`;

/** A notification target of an escalation. `notified`: the first notification exists. `due`: a notification is not
 *  written yet. `waiting`: the draft of one is unsent on the target's channel. `reached`: one was sent. */
export interface TargetState {
  readonly target: TargetRow;
  readonly notified: boolean;
  readonly due: boolean;
  readonly waiting: boolean;
  readonly reached: boolean;
}

/** A target of the policy, with the channel that carries its notifications. Null: nothing carries it. */
export interface NotificationRecipient {
  readonly to: Contact;
  readonly channel: string | null;
  /** In the canonical form of the channel. */
  readonly address: string | null;
}

/** One due step of the policy, for one escalation. */
export interface StepPlan {
  readonly row: DueEscalation;
  readonly states: readonly TargetState[];
  readonly recipients: readonly NotificationRecipient[];
  /** The next step, due even when no recipient is reachable. */
  readonly next: Step;
}

/** Returns the step of the policy that one escalation is at, with all that it may notify: the contacts of the policy, and
 *  the recipients of the agent, which belong to the first notification. */
function stepOf(policy: Policy, row: DueEscalation, lines: ChannelRuntimes) {
  const { topic, agent, channel, now } = row;
  const about = { topic, agent, channel, cause: row.cause as never };
  const next = step(policy, about, { tier: row.tier, enteredAt: row.entered_at, notifiedAt: row.notified_at }, now);
  const isFirst = row.notified_at === null && row.tier === 0;
  const recipientOf = (to: Contact) => recipient(policy, to, lines);
  const contacts = next.notify.length > 0 ? next.notify : current(policy, about, next.progress, now);
  const fromAgent = isFirst && policy.agentRecipients ? agentRecipients(row, lines) : [];
  return { next, contacts: contacts.map(recipientOf), fromAgent: fromAgent.map(recipientOf) };
}

/** Plans one step of the policy for one escalation. When no step is due, the recipients are those of the current step
 *  that were not notified: the policy has changed, a responder came on duty, or a notification channel was removed. */
export function planStep(
  policy: Policy,
  row: DueEscalation,
  states: readonly TargetState[],
  lines: ChannelRuntimes,
): StepPlan {
  const { next, contacts, fromAgent } = stepOf(policy, row, lines);
  const due = next.notify.length > 0 ? contacts : contacts.filter((one) => isMissing(one, states, lines));
  return { row, states, recipients: [...due, ...fromAgent], next };
}

export function recipient(policy: Policy, to: Contact, lines: ChannelRuntimes): NotificationRecipient {
  const channel = to.way === "webhook" ? webhookChannel : policy.via[to.way];
  return { to, channel, address: channel === null ? null : addressOn(lines.get(channel), to) };
}

/** Returns the address in the form of the target rows; null when the channel cannot reach it. */
function addressOn(line: ChannelRuntime | undefined, { way, address }: Contact): string | null {
  if (!line?.outbound) return null;
  return way === "webhook" ? address : (line.address(address)?.toLowerCase() ?? null);
}

/** Returns the known target with the way and address of the recipient. */
const targetFor = ({ to, address }: NotificationRecipient, states: readonly TargetState[]): TargetState | undefined =>
  states.find(({ target }) => target.way === to.way && target.address === address);

function isMissing(one: NotificationRecipient, states: readonly TargetState[], lines: ChannelRuntimes): boolean {
  const known = targetFor(one, states);
  return known === undefined || (!canSend(lines, known.target.channel) && !known.reached);
}

/** Returns the addresses whose latest notifications may delay those of the steps: of all that the steps may notify. Those of
 *  the known targets, which may be on other channels, delay them too. */
export const groupedAddresses = (
  policy: Policy,
  rows: readonly DueEscalation[],
  lines: ChannelRuntimes,
): readonly NotificationAddress[] =>
  rows
    .map((row) => stepOf(policy, row, lines))
    .flatMap(({ contacts, fromAgent }) => [...contacts, ...fromAgent])
    .flatMap(({ to, channel, address }) =>
      channel === null || address === null || to.way === "webhook" ? [] : [{ channel, address }],
    );

export interface StepWrites {
  readonly targets: readonly TargetRow[];
  readonly moved: readonly Pick<TargetRow, "id" | "channel">[];
  /** Conversations whose unsent notifications are tried again at once: they follow the retry schedule of
   *  ordinary mail, so their next attempt may be hours away. */
  readonly retried: readonly string[];
  readonly notifications: readonly NewNotification[];
  readonly step: Pick<EscalationRow, "id" | "tier" | "entered_at" | "notified_at" | "due_at">;
  /** The ways in which a responder was not reachable. */
  readonly unreachable: readonly Way[];
}

/** Returns the notifications of the step. A repetition is enqueued only when the last one is not waiting to
 *  be sent. `ago`: milliseconds since an address was last notified, by `addressKey`. */
export function notifyRecipients(
  policy: Pick<Policy, "group">,
  plan: StepPlan,
  ago: ReadonlyMap<string, number>,
  lines: ChannelRuntimes,
  newId: () => string,
  repeatFailedMs: number,
): StepWrites {
  const { row, recipients, next } = plan;
  const states = [...plan.states];
  const targets: TargetRow[] = [];
  const moved: TargetRow[] = [];
  const retried: string[] = [];
  const notifications: NewNotification[] = [];
  const unreachable: Way[] = [];
  for (const one of recipients) {
    const { person, name, way } = one.to;
    const { channel, address } = one;
    if (channel === null || address === null) {
      unreachable.push(way);
      continue;
    }
    const known = targetFor(one, states);
    // The configuration has changed, and the target's channel can no longer send.
    const isMoved = known !== undefined && known.target.channel !== channel && !canSend(lines, known.target.channel);
    if (isMoved) moved.push({ ...known.target, channel, conversation: null });
    if (known?.notified && (known.due || (known.waiting && !isMoved))) {
      if (!isMoved && known.target.conversation !== null) retried.push(known.target.conversation);
      continue;
    }
    let target = isMoved ? moved.at(-1) : known?.target;
    if (target === undefined) {
      const unused = { conversation: null, link_until: null };
      target = { id: newId(), escalation: row.id, person, name, way, address, channel, ...unused };
      targets.push(target);
      states.push({ target, notified: true, due: true, waiting: false, reached: false });
    }
    const kind = known?.notified
      ? ({ kind: "reminder", subject: String(row.now) } as const)
      : ({ kind: "opened", subject: "" } as const);
    const inMs = way === "webhook" ? 0 : groupWait(policy, ago.get(addressKey(target)) ?? null);
    notifications.push({ id: newId(), target: target.id, ...kind, text: null, inMs });
  }
  // No responder of this step is reachable on any channel, so the next step is due at once.
  const failed = next.notify.length > 0 && unreachable.length === recipients.length;
  const { tier, enteredAt, notifiedAt } = next.progress;
  const planned = { tier, entered_at: enteredAt, notified_at: notifiedAt, due_at: next.dueAt };
  const to = failed ? hastened(planned, row.now, repeatFailedMs) : planned;
  return { targets, moved, retried, notifications, step: { id: row.id, ...to }, unreachable };
}

type Moves = Omit<StepWrites["step"], "id">;

/** Ends the tier. If no step follows, the last one is repeated after a delay, because it has just failed. */
const hastened = (to: Moves, now: number, repeatFailedMs: number): Moves => ({
  tier: to.tier,
  entered_at: 0,
  notified_at: to.due_at === null ? null : to.notified_at,
  due_at: to.due_at === null ? now + repeatFailedMs : now,
});

/** Returns the milliseconds until an address may get the next message, so that notifications are grouped.
 *  `ago`: milliseconds since its last one, null for none. */
const groupWait = ({ group }: Pick<Policy, "group">, ago: number | null): number =>
  // A negative age is a time in the future, after a backward clock step.
  ago === null || ago < 0 ? 0 : Math.max(0, group - ago);

/** A due notification with its target and its locked escalation. */
export interface Due {
  readonly notification: NotificationRow;
  readonly target: TargetRow;
  readonly row: EscalationRow;
}
/** The notifications of one message, in the order of their escalations; not empty. */
export type Group = readonly [Due, ...Due[]];

export interface Grouped {
  readonly groups: readonly Group[];
  /** Ids of notifications that are no longer needed. */
  readonly cancelled: readonly string[];
}

/** Returns the due notifications with a locked escalation, and those among them on a channel that does not run. */
export function splitGone(
  notifications: readonly DueNotification[],
  targets: ReadonlyMap<string, TargetRow>,
  rows: ReadonlyMap<string, EscalationRow>,
  lines: ChannelRuntimes,
): { readonly carried: readonly DueNotification[]; readonly gone: ReadonlyMap<string, readonly DueNotification[]> } {
  const isGoneNow = ({ target, escalation }: DueNotification) => {
    const channel = targets.get(target)?.channel;
    return channel !== undefined && rows.has(escalation) && !canSend(lines, channel);
  };
  const gone = notifications.filter(isGoneNow);
  return {
    carried: gone.length === 0 ? notifications : notifications.filter((one) => !gone.includes(one)),
    gone: Map.groupBy(gone, ({ escalation }) => escalation),
  };
}

/** Groups due notifications into messages: those of several escalations for one address become one. When a
 *  responder has acknowledged an escalation, further notifications of it are cancelled. Leaves out those
 *  whose escalation is not in `rows`. */
export function groupDue(
  notifications: readonly DueNotification[],
  targets: ReadonlyMap<string, TargetRow>,
  rows: ReadonlyMap<string, EscalationRow>,
): Grouped {
  const groups = new Map<string, Due[]>();
  const cancelled: string[] = [];
  for (const notification of notifications) {
    const [target, row] = [targets.get(notification.target), rows.get(notification.escalation)];
    if (!target || !row) continue;
    if ((notification.kind === "opened" || notification.kind === "reminder") && row.state !== "open") {
      cancelled.push(notification.id);
      continue;
    }
    const key = groupOf(notification, target);
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    group.push({ notification, target, row });
  }
  const sorted = [...groups.values()].map((group) => group.toSorted((a, b) => a.row.number - b.row.number));
  return { groups: sorted as unknown as readonly Group[], cancelled };
}

/** Returns the key under which notifications become one message: same address, or acknowledged by the
 *  same responder. */
function groupOf({ id, kind, subject }: NotificationRow, target: TargetRow): string {
  if (target.way === "webhook" || kind === "customer" || kind === "message") return id;
  return kind === "acknowledged" ? `${addressKey(target)} ${subject}` : addressKey(target);
}

/** Returns the escalations whose details the messages contain, and those of which they contain a headline
 *  alone: transcripts are not loaded for messages about several escalations. */
export function detailsFor(groups: readonly Group[]): {
  readonly whole: readonly EscalationRow[];
  readonly headlines: readonly EscalationRow[];
} {
  const isWhole = ([{ notification, target }, ...others]: Group) =>
    others.length === 0 && (notification.text === null || target.way === "webhook");
  const whole = new Map(groups.filter(isWhole).map(([{ row }]) => [row.id, row]));
  const headlines = groups.filter((group) => !isWhole(group)).flatMap((group) => group.slice(0, mostHeadlines));
  return {
    whole: [...whole.values()],
    headlines: headlines.map(({ row }) => row).filter(({ id }) => !whole.has(id)),
  };
}

/** The conversations on channels with one conversation per person. */
export interface ConversationsByAddress {
  /** By `addressKey`. */
  readonly known: ReadonlyMap<string, string>;
  /** The channels that are locked, so that no other node opens a conversation there. */
  readonly channels: ReadonlySet<string>;
}

const hasOneConversation = ({ channel }: TargetRow, lines: ChannelRuntimes): boolean =>
  lines.get(channel)?.traits.conversations === "person";

/** Returns the recipients on channels with one conversation per person. */
export const recipientsWithOneConversation = (groups: readonly Group[], lines: ChannelRuntimes): readonly TargetRow[] =>
  groups.map(([{ target }]) => target).filter((target) => hasOneConversation(target, lines));

/** Leaves out the messages to an address to which another node may be writing for the first time. */
export const readyGroups = (
  groups: readonly Group[],
  { known, channels }: ConversationsByAddress,
  lines: ChannelRuntimes,
): readonly Group[] =>
  groups.filter(
    ([{ target }]) =>
      target.conversation !== null ||
      !hasOneConversation(target, lines) ||
      known.has(addressKey(target)) ||
      channels.has(target.channel),
  );

/** True when the message continues the conversation of its first target. */
export const continues = (group: Group): boolean => group.length === 1 || group[0].notification.kind === "acknowledged";

/** Rows that the messages depend on. */
export interface NotificationFacts {
  readonly details: ReadonlyMap<string, Details>;
  /** Conversations by `addressKey`, on channels with one conversation per person. */
  readonly conversations: ReadonlyMap<string, string>;
  /** External ids of our sent messages, by conversation. */
  readonly sent: ReadonlyMap<string, readonly string[]>;
}

export interface Make {
  id(): string;
  token(length?: number): string;
  /** Returns the public URL of a link token for responders' browsers; null without a public URL. */
  link(token: string): string | null;
}

export interface NotificationMessage {
  readonly reply: Notice & { readonly id: string };
  readonly group: Group;
  /** The conversation to open first; null when there is one. */
  readonly opened: NewConversation | null;
  readonly link: { readonly target: string; readonly link: string } | null;
  /** The error of rendering, when a fixed text replaces the message. */
  readonly error: unknown;
}

/** Renders the messages and finds their conversations. Channels with threads use one thread per escalation,
 *  or one for a group; other channels use one conversation per person. Throws when a channel is gone. */
export function planMessages(
  groups: readonly Group[],
  { details, conversations, sent }: NotificationFacts,
  lines: ChannelRuntimes,
  make: Make,
): readonly NotificationMessage[] {
  const opened = new Map(conversations);
  const bound = new Map<string, string>();
  return groups.map((group) => {
    const [{ notification, target }] = group;
    const { channel, address } = target;
    const line = lines.get(channel);
    if (!line) throw new Error(`writing a notification: there is no channel ${channel}`);
    const threads = line.traits.conversations === "thread";
    const single = group.length === 1 || target.way === "webhook";
    const token = single && notification.text === null && notification.kind !== "acknowledged" ? make.token(26) : null;
    const url = token === null ? null : make.link(token);
    const shown = group.slice(0, mostHeadlines).flatMap((one) => details.get(one.row.id) ?? []);
    const { text, subject, error } = rendered(group, shown, url, threads);
    const own = continues(group) ? (target.conversation ?? bound.get(target.id)) : undefined;
    const known = own ?? (threads ? undefined : opened.get(addressKey(target))) ?? null;
    const conversation = known ?? make.id();
    opened.set(addressKey(target), conversation);
    for (const one of group) bound.set(one.target.id, bound.get(one.target.id) ?? conversation);
    const person = { channel, agent: line.agent, person: address.toLowerCase(), person_name: null };
    const party = { address, name: target.name };
    // Later messages continue the thread of the first notification, where the channel has threads.
    const said = subject === null ? [] : (sent.get(conversation) ?? []);
    return {
      group,
      opened: known === null ? { id: conversation, ...person, subject, token: make.token() } : null,
      link: token === null || url === null ? null : { target: target.id, link: hashOf(token) },
      error,
      reply: {
        id: make.id(),
        channel,
        conversation,
        address: furtherTo(party, subject, said.map(externalId)),
        text,
        forced: false,
        internal: true,
      },
    };
  });
}

/** Returns a fixed text when the message cannot be rendered. */
function rendered(
  group: Group,
  details: readonly Details[],
  link: string | null,
  threads: boolean,
): { readonly text: string; readonly subject: string | null; readonly error: unknown } {
  try {
    return { ...notificationText(group, details, link, threads), error: null };
  } catch (error) {
    const { number, state } = group[0].row;
    const text = `Escalation ${number} is ${state}. The command escalation show ${number} prints it.`;
    const subject = threads ? `[Escalation ${number}]` : null;
    return { text: link === null ? text : `${text}\n${link}`, subject, error };
  }
}
