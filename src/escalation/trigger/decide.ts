// Decisions about triggers, on loaded rows. Pure. Several triggers of one incident become one escalation.

import type { Answer } from "../../agent/calls.ts";
import type { Policy } from "../../domain/policy.ts";
import { normalizeWhitespace } from "../../domain/turn.ts";
import { type ChannelRuntime, type ChannelRuntimes, canSend } from "../../pipeline/channel-runtime.ts";
import type { EscalationTrigger, Unsent } from "../../pipeline/escalation.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import { callLost, type DraftRow } from "../../store/tables/drafts.ts";
import type { EscalationRow, NewEscalation, NewTrigger } from "../../store/tables/escalations.ts";
import type { NotificationRow } from "../../store/tables/responders.ts";
import type { TurnRow } from "../../store/tables/turns.ts";
import { clipped, customerText } from "../notify/text.ts";

export const aboutConversation = (id: string): string => `conversation:${id}`;
/** `which`: a conversation of the agent outside this daemon. */
export const aboutAgent = (name: string, which: string): string => `agent:${name}:${which}`;

export const aboutOf = ({
  about,
  conversation,
  channel,
  cause,
}: Pick<EscalationTrigger, "about" | "conversation" | "channel" | "cause">): string =>
  about ?? (conversation === null ? `channel:${channel}:${cause}` : aboutConversation(conversation));

/** What the store knows of the subject of a trigger. */
export interface Subject {
  /** The unclosed escalation, or else the newest one; locked. */
  readonly row: EscalationRow | null;
  /** True when the trigger was recorded before. */
  readonly triggered: boolean;
  /** Sequence number of the customer's newest question; null without one. */
  readonly asked: number | null;
}

/** A text for notification targets of an escalation: all, or the one that acknowledged it if there is one. */
export interface Update {
  readonly row: EscalationRow;
  readonly subject: string;
  readonly text: string;
}

export interface TriggerPlan {
  /** Escalations to open, at most one for each subject, each with its first trigger. */
  readonly opened: readonly NewEscalation[];
  /** The triggers to record. `escalation` is null for an escalation that is opened. */
  readonly recorded: readonly (Omit<NewTrigger, "escalation"> & {
    readonly about: string;
    readonly escalation: string | null;
  })[];
  readonly updates: readonly Update[];
}

/** Plans the effects of triggers. `subjects` belong to the triggers, in the same order. A trigger that was recorded
 *  before has none. */
export function planTriggers(
  triggers: readonly EscalationTrigger[],
  subjects: readonly Subject[],
  newId: () => string,
): TriggerPlan {
  const opened = new Map<string, NewEscalation>();
  const recorded: TriggerPlan["recorded"][number][] = [];
  const updates: Update[] = [];
  for (const [at, trigger] of triggers.entries()) {
    const subject = subjects[at];
    if (!subject || subject.triggered) continue;
    const { key, source, reason: detail } = trigger;
    const about = aboutOf(trigger);
    const known = knownEscalation(trigger, subject);
    recorded.push({ key, about, source, detail, escalation: known?.id ?? null });
    if (known === null && !opened.has(about)) {
      const { channel, agent, conversation, cause, topic, reason } = trigger;
      opened.set(about, { id: newId(), key, about, channel, agent, conversation, cause, topic, reason });
    }
    const isUpdate = trigger.news || (trigger.said !== undefined && known?.state === "acknowledged");
    if (known !== null && isUpdate) updates.push({ row: known, subject: key, text: updateText(known, trigger) });
  }
  return { opened: [...opened.values()], recorded, updates };
}

/** Returns the escalation that the trigger belongs to; null for a new one. The platform reports one event in several
 *  ways, and one report may arrive after the close. It belongs to the closed escalation as long as the customer has not
 *  written since. Triggers of the daemon itself are always new. */
function knownEscalation(
  { source, conversation, cause }: EscalationTrigger,
  { row, asked }: Subject,
): EscalationRow | null {
  if (row === null || row.state !== "closed") return row;
  if (source === "ours" || conversation === null || row.cause !== cause) return null;
  return asked !== null && asked >= row.from_seq ? null : row;
}

/** True when an escalation about the subject is open once the trigger has been handled. False for a late report about a
 *  closed one. */
export const isOpenAfter = (trigger: EscalationTrigger, subject: Subject): boolean =>
  !subject.triggered && knownEscalation(trigger, subject)?.state !== "closed";

const updateText = ({ number }: EscalationRow, { reason, said }: EscalationTrigger): string =>
  clipped(`${number}: ${reason}${said === undefined ? "" : `\nThe customer wrote: ${said}`}`, number);

/** Returns the trigger of the answer to a turn: it has no text, or is a configured escalation response. Else null. */
export function answerTrigger(
  line: Pick<ChannelRuntime, "channel" | "agent" | "settings">,
  turn: Pick<TurnRow, "id" | "conversation">,
  answer: Pick<Answer, "text" | "replyId">,
): EscalationTrigger | null {
  const about = { channel: line.channel, agent: line.agent, conversation: turn.conversation };
  const text = answer.text ?? "";
  if (text.trim() === "") {
    const reason = "the customer wrote, and no agent answers (manual mode)";
    return { ...about, topic: null, key: `silent:${turn.id}`, source: "ours", cause: "silent", reason };
  }
  const found = escalatingTopic(line.settings()?.escalations ?? [], text);
  if (found === null) return null;
  const reason = "the agent gave the answer it has for this escalation";
  return {
    ...about,
    ...found,
    key: `response:${answer.replyId ?? turn.id}`,
    source: "response",
    cause: "topic",
    reason,
  };
}

/** What a trigger causes: an escalation, or a line of the log when the customer waits for a human and no responder is
 *  configured. Null: nothing. */
export type TriggerEffect = "open" | "log" | null;

export function effectOf(
  { cause, source }: Pick<EscalationTrigger, "cause" | "source">,
  policy: Pick<Policy, "causes"> | null,
): TriggerEffect {
  if (policy === null) return source === "ours" ? null : "log";
  return policy.causes.includes(cause) ? "open" : null;
}

/** What follows from the answer to a turn. */
export interface AnswerPlan {
  /** The customer's text for the responder who has acknowledged the escalation. */
  readonly update: Update | null;
  readonly effect: TriggerEffect;
  /** The call is transferred after the answer. */
  readonly transfers: boolean;
}

/** Plans the effects of an answer that is a trigger. `row`: the escalation about the conversation. */
export function planAnswer(
  trigger: EscalationTrigger,
  row: EscalationRow | null,
  { conversation, turn }: { readonly conversation: ConversationRow; readonly turn: TurnRow },
  policy: Pick<Policy, "causes"> | null,
): AnswerPlan {
  const isSilent = trigger.cause === "silent";
  const update = isSilent ? passOn(row, conversation, turn) : null;
  return {
    update,
    effect: update === null ? effectOf(trigger, policy) : null,
    transfers: !isSilent && turn.session !== null,
  };
}

/** Returns the text of a turn without an answer for the responder who has acknowledged the escalation; null when the turn
 *  is a trigger. The responder's reply goes to the customer even when another sender wrote in the thread. */
export function passOn(
  row: EscalationRow | null,
  { person, person_name: name }: Pick<ConversationRow, "person" | "person_name">,
  turn: Pick<TurnRow, "id" | "person" | "question">,
): Update | null {
  if (row?.state !== "acknowledged") return null;
  const customer = name ?? person;
  const who = turn.person === person ? customer : `${turn.person} (in the thread of ${customer})`;
  return { row, subject: turn.id, text: customerText(row, who, turn.question) };
}

/** A reply that cannot be delivered. */
export interface Undelivered {
  /** True when a human wrote it to the customer. */
  readonly isHumans: boolean;
  /** Attempts to send the draft; 0 for a reply that has none. */
  readonly attempts: number;
  /** The notifications that it carries, with their escalations; empty when it is no notification. */
  readonly notifications: readonly (NotificationRow & { readonly escalation: string })[];
  readonly failed: FailedFacts;
}

/** What the store knows of notifications that cannot be delivered. */
export interface FailedFacts {
  /** Their escalations, locked. */
  readonly rows: ReadonlyMap<string, EscalationRow>;
  /** What each customer's message has on the channels, by notification. */
  readonly on: ReadonlyMap<string, readonly PassedOnChannel[]>;
}

/** Returns the trigger of a reply that cannot be delivered; null for a reply that was dropped on purpose. A human who wrote
 *  the reply assumes that the customer has received it: responders are notified of that with every policy. */
export function undeliverableTrigger(
  { channel, agent }: Pick<ChannelRuntime, "channel" | "agent">,
  { id, conversation }: Pick<DraftRow, "id" | "conversation">,
  { state, code = null, reason }: Unsent,
  { isHumans, attempts }: Pick<Undelivered, "isHumans" | "attempts">,
  hasPolicy: boolean,
): EscalationTrigger | null {
  const isNews = isHumans && hasPolicy;
  const isCutOff = code === callLost;
  if (state === "dropped" && !isNews && !isCutOff) return null;
  const about = { channel, agent, conversation, topic: null, source: "ours" } as const;
  // A resent reply that fails again is a new trigger. Two reports about one attempt are the same.
  const key = `draft:${id}:${state}:${attempts}`;
  const cause = isCutOff ? "call" : state === "held" ? "held" : "turn-failed";
  if (!isNews)
    return { ...about, key, cause, reason: isCutOff ? `the caller has not heard the answer: ${reason}` : reason };
  return { ...about, key, cause, reason: `the answer did not reach the customer (${state}): ${reason}`, news: true };
}

/** Returns the topic when the text is a configured escalation response; null otherwise. The topic is unknown
 *  (`topic: null`) when several topics share the response. */
export function escalatingTopic(
  configured: readonly { readonly topic: string; readonly response: string }[],
  text: string,
): { readonly topic: string | null } | null {
  const [first, ...others] = configured.filter(({ response }) => isSameText(response, text));
  return first === undefined ? null : { topic: others.length === 0 ? first.topic : null };
}

/** Compares without case. An empty configured response never matches. */
function isSameText(configured: string, text: string): boolean {
  const wanted = normalizeWhitespace(configured).toLowerCase();
  return wanted !== "" && wanted === normalizeWhitespace(text).toLowerCase();
}

/** Notifications of one customer message on one channel: the targets of the escalation, those that have one, and those
 *  among them that were sent or still may be. */
export interface PassedOnChannel {
  readonly channel: string;
  readonly targets: number;
  readonly written: number;
  readonly alive: number;
}

/** True when a responder has received the customer's message or still may receive it. Targets without a notification of it
 *  get one. A target on a removed channel counts as none: its responder cannot answer. */
export const isPassedOn = (on: readonly PassedOnChannel[], lines: ChannelRuntimes): boolean =>
  on.some(({ channel, targets, written, alive }) => canSend(lines, channel) && (written < targets || alive > 0));

/** Plans what follows from notifications that cannot be delivered. The next steps of the policy become due at once
 *  (`hastened`: ids of escalations). A customer's message goes to all targets of the escalation instead; `isLost`: no
 *  responder receives it. */
export function planFailed(
  failed: Undelivered["notifications"],
  { rows, on }: FailedFacts,
  lines: ChannelRuntimes,
): {
  readonly hastened: readonly string[];
  readonly passed: readonly (Omit<Update, "text"> & Pick<NotificationRow, "text"> & { readonly isLost: boolean })[];
} {
  const hastened = failed.filter(({ kind }) => kind !== "customer").map(({ escalation }) => escalation);
  const passed = failed.flatMap(({ id, kind, escalation, subject, text }) => {
    const row = kind === "customer" ? rows.get(escalation) : undefined;
    return row ? [{ row, subject, text, isLost: !isPassedOn(on.get(id) ?? [], lines) }] : [];
  });
  return { hastened, passed };
}
