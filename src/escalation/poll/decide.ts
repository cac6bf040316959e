// Decisions about a poll of the platform's conversation, on loaded rows. Pure.

import type { CallResult, PlatformMessage, PlatformMessages } from "../../agent/calls.ts";
import type { Policy } from "../../domain/policy.ts";
import { delayAfter } from "../../domain/retry.ts";
import { normalizeWhitespace } from "../../domain/turn.ts";
import type { Timing } from "../../ops/timing.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { EscalationTrigger } from "../../pipeline/escalation.ts";
import { allKnown } from "../../store/tables/conversations.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";
import { addressInCall, addressOf } from "../actions.ts";
import type { Customer } from "../reply/rows.ts";
import { effectOf, escalatingTopic, isOpenAfter, type Subject, type TriggerEffect } from "../trigger/decide.ts";
import type { PollRow } from "./rows.ts";

/** A turn that explains messages on the platform: a dropped question, or a turn with an uncertain attempt. */
export interface KnownTurn {
  readonly kind: string;
  readonly state: string;
  readonly text: string;
  readonly questionId: string | null;
}

export interface PollRead {
  readonly messages: readonly PlatformMessage[];
  /** Position of the first message; above 0 when the read does not start with the conversation. */
  readonly start: number;
}

export interface ExternalMessages {
  /** Messages for the customer, oldest first. */
  readonly deliver: readonly PlatformMessage[];
  /** Messages that the customer has, or must not get: those that were delivered before a restore, and a human's whose copy or
   *  question a turn explains. They are recorded as known, because each later poll would treat a human's messages as new
   *  otherwise, also when the retention has erased the turn. */
  readonly record: readonly PlatformMessage[];
}

/** Finds external messages: those that appeared on the platform without a request by this daemon, such as
 *  a human's answer in the platform's interface or a scheduled message. `known`: platform ids of our own
 *  questions and answers. */
export function externalMessages(
  poll: Pick<PollRow, "mark" | "position">,
  { messages, start }: PollRead,
  known: ReadonlySet<string>,
  turns: readonly KnownTurn[],
): ExternalMessages {
  // At the first poll, and when the mark is gone, agent messages count as known, and before our first message always: the
  // daemon has no id for an introduction. Those that name our question are answers to it: the first poll delivers them. A
  // human's messages count as new after our first message, because the platform may have continued an old conversation; where
  // we have only opened it, after the mark. A partial read that lacks one of our messages comes after it.
  const begun = messages.findIndex(({ id }) => known.has(id));
  const read = new Set(messages.map(({ id }) => id));
  const isLate = start > 0 && [...known].some((id) => !read.has(id));
  const isOurs = (at: number) => isLate || (begun >= 0 && at > begun);
  if (poll.position === allKnown) {
    const record = messages.filter(({ id, role }, at) => role !== "person" && isOurs(at) && !known.has(id));
    return { deliver: [], record };
  }
  const marked = poll.mark === null ? -1 : messages.findIndex(({ id }) => id === poll.mark);
  const isMarked = poll.mark === noMessage || marked >= 0;
  const isAnswer = ({ answers }: PlatformMessage) => poll.mark === null && answers !== null && known.has(answers);
  const isNew = (message: PlatformMessage, at: number) => {
    if (message.role === "human") return isOurs(at) || (isMarked && at > marked);
    return message.role === "agent" && (isMarked ? at > marked && isOurs(at) : isAnswer(message));
  };
  // Texts that were posted again, or given up, because the platform did not list them. The first copy may
  // appear later, and the customer already has the text.
  const posted = textsOf(turns, ({ kind }) => kind === "relayed");
  const unwanted = unwantedQuestions(messages, known, turns);
  const found = messages.filter(
    (message, at) => !known.has(message.id) && isNew(message, at) && (hasText(message) || filesOf(message).length > 0),
  );
  const isExplained = ({ role, text, answers }: PlatformMessage) =>
    (answers !== null && unwanted.has(answers)) || (role === "human" && posted.has(normalizeWhitespace(text)));
  return {
    deliver: found.filter((message) => !isExplained(message)),
    record: found.filter((message) => message.role === "human" && isExplained(message)),
  };
}

const hasText = ({ text }: PlatformMessage): boolean => text.trim() !== "";
/** The names of a human's files. They are on the platform only: the customer gets the text. */
const filesOf = ({ role, files = [] }: PlatformMessage): readonly string[] => (role === "human" ? files : []);

/** Returns the platform ids of questions whose answers the customer must not get: those that a call has
 *  cancelled, also before the response with the id, and copies of answered questions that were asked again. */
function unwantedQuestions(
  messages: readonly PlatformMessage[],
  known: ReadonlySet<string>,
  turns: readonly KnownTurn[],
): ReadonlySet<string> {
  const asked = textsOf(
    turns,
    ({ kind, state, questionId }) =>
      kind === "question" && (state === "answered" || (state === "dropped" && questionId === null)),
  );
  const copies = messages.filter(
    ({ id, role, text }) => role === "person" && !known.has(id) && asked.has(normalizeWhitespace(text)),
  );
  const cancelled = turns.flatMap(({ state, questionId }) =>
    state === "dropped" && questionId !== null ? [questionId] : [],
  );
  return new Set([...cancelled, ...copies.map(({ id }) => id)]);
}

const textsOf = (turns: readonly KnownTurn[], which: (turn: KnownTurn) => boolean): ReadonlySet<string> =>
  new Set(turns.filter(which).map(({ text }) => normalizeWhitespace(text)));

/** A conversation of this store. */
export interface PolledThread {
  readonly id: string;
  readonly channel: string;
}

/** What the store knows of a polled conversation. */
export interface PollFacts {
  /** Platform ids of our own questions and answers. */
  readonly known: ReadonlySet<string>;
  /** Our conversations of other threads by the platform's ids of their questions. */
  readonly elsewhere: ReadonlyMap<string, PolledThread>;
  readonly turns: readonly KnownTurn[];
  /** Null when the customer was erased, by an operator or by retention, since the poll began. `session`: also a call that has
   *  lost its connection, and may come back. */
  readonly customer: Customer | null;
  /** Milliseconds since the newest turn; null if none exists. */
  readonly quiet: number | null;
  /** The unclosed escalation about the conversation, locked. */
  readonly escalation: EscalationRow | null;
  /** An unclosed escalation is about the same conversation of the platform in another thread of the customer. */
  readonly isKnownElsewhere: boolean;
  /** A question of another thread is being asked in the same conversation of the platform: its messages have no known ids yet,
   *  and would count as external. */
  readonly isAskedElsewhere: boolean;
  /** The conversation may have unsent answers, or work that blocks it. */
  readonly hasUnsent: boolean;
}

export interface PollResult {
  readonly mode: "ai" | "manual";
  readonly read: PlatformMessages;
  /** Identifies this poll. */
  readonly until: number;
}

/** The effects of a poll, in this order. */
export interface PollPlan {
  /** See `ExternalMessages`. */
  readonly record: readonly PlatformMessage[];
  readonly deliver: readonly PlatformMessage[];
  /** What does not reach the customer of a human's messages: text for a call that is over, and files. The responders are
   *  notified. */
  readonly undelivered: readonly EscalationTrigger[];
  /** Other threads, whose questions new messages name: their polls deliver these. */
  readonly others: readonly PolledThread[];
  /** Address (JSON) of the delivered messages. */
  readonly address: string;
  /** Set when a human has answered on the platform, not in a call, and the agent may have unsent answers: the platform's ids of
   *  all messages after the answer. The other unsent answers are dropped. */
  readonly later: ReadonlySet<string> | null;
  /** A human has answered on the platform. */
  readonly acknowledge: boolean;
  /** Set when the platform has given the conversation to a human: what is known of it, and which texts are configured
   *  escalation responses, which are kept when the agent's waiting answers are dropped. */
  readonly takeover:
    | (Takeover & { readonly effect: TriggerEffect; readonly isResponse: (text: string) => boolean })
    | null;
  /** The platform has given the conversation back to the agent. */
  readonly close: boolean;
  readonly poll: {
    readonly mode: "ai" | "manual";
    /** The platform's id of the newest processed message; null keeps the mark. */
    readonly mark: string | null;
    readonly position: number;
    readonly failed: boolean;
    /** Milliseconds until the next poll; null for none. */
    readonly nextMs: number | null;
  };
}

/** A change to manual mode. */
export interface Takeover {
  readonly trigger: EscalationTrigger;
  readonly subject: Subject;
}

/** The mark of a conversation that had no messages at its first poll. */
const noMessage = "";

/** Finds the newest message that a poll has processed (null: the mark stays). `astray`: a partial read without the mark
 *  does not show which messages are new. The next poll then reads the whole conversation. */
function newestOf(
  poll: PollRow,
  { start, end, messages, failure }: PlatformMessages,
): { readonly astray: boolean; readonly newest: string | null } {
  const astray = start > 0 && !messages.some(({ id }) => id === poll.mark);
  // No mark is set before the first complete poll: earlier messages would be treated as new.
  const whole = failure === null || poll.mark !== null;
  const isEmpty = end === 0 && poll.mark === null;
  return { astray, newest: astray || !whole ? null : (messages.at(-1)?.id ?? (isEmpty ? noMessage : null)) };
}

/** Returns the trigger when the platform has given the conversation to a human since the last poll; else null. */
export function takeoverTrigger(
  poll: PollRow,
  { mode, read, until }: PollResult,
  { channel, agent }: Pick<ChannelRuntime, "channel" | "agent">,
): EscalationTrigger | null {
  if (mode !== "manual" || poll.mode === "manual") return null;
  const { conversation } = poll;
  const at = newestOf(poll, read).newest ?? poll.mark ?? "";
  return {
    channel,
    agent,
    conversation,
    topic: null,
    // The newest message distinguishes two changes to manual mode. A mode that changes again while messages cannot
    // be read is a separate change.
    key: `mode:${conversation}:${read.failure === null ? at : `${at}:${until}`}`,
    source: "mode",
    cause: "topic",
    reason: "the platform has given the conversation to a human (manual mode)",
  };
}

/** Plans the effects of a poll. `takeover`: of `takeoverTrigger`. */
export function planPoll(
  poll: PollRow,
  { mode, read }: PollResult,
  facts: PollFacts & { readonly takeover: Takeover | null },
  line: Pick<ChannelRuntime, "channel" | "agent" | "traits" | "settings">,
  { policy, timing }: { readonly policy: Policy | null; readonly timing: Timing["escalation"] },
): PollPlan {
  const { customer, escalation, takeover } = facts;
  const { astray, newest } = newestOf(poll, read);
  const found = astray ? noMessages : externalMessages(poll, read, facts.known, facts.turns);
  const isCall = line.traits.platform === "voice";
  const threadOf = ({ answers }: PlatformMessage) => facts.elsewhere.get(answers ?? "");
  const own = customer === null ? [] : found.deliver.filter((message) => threadOf(message) === undefined);
  const deliver = isCall && customer?.session === null ? [] : own.filter(hasText);
  // From now on they are known, so that no later poll and no later call delivers them.
  const kept = own.filter((message) => message.role === "human" && !deliver.includes(message));
  const undelivered = own.flatMap((message): EscalationTrigger[] => {
    const [files, isKept] = [filesOf(message), kept.includes(message)];
    if (files.length === 0 && !isKept) return [];
    const { channel, agent } = line;
    const about = { channel, agent, conversation: poll.conversation, topic: null, source: "ours", news: true } as const;
    const reason = undeliveredText(customer, isKept && hasText(message), files);
    return [{ ...about, key: `undelivered:${message.id}`, cause: "turn-failed", reason }];
  });
  const answer = deliver.findLast(({ role }) => role === "human");
  const acknowledge = escalation?.state === "open" && answer !== undefined;
  const isEmpty = newest === null && read.failure === null;
  const isResponse = (text: string) => escalatingTopic(line.settings()?.escalations ?? [], text) !== null;
  const close = mode === "ai" && poll.mode === "manual" && isEnded(escalation, acknowledge);
  // One handover is one escalation, however many threads of the customer share the platform's conversation. A message
  // in this thread that no agent answers is another one.
  const isRepeated = escalation === null && facts.isKnownElsewhere;
  const effect = takeover && !isRepeated ? effectOf(takeover.trigger, policy) : null;
  const isOpened = takeover !== null && effect === "open" && isOpenAfter(takeover.trigger, takeover.subject);
  const escalated = isOpened || (escalation !== null && !close);
  const failed = read.failure !== null || astray;
  return {
    record: customer === null ? [] : [...found.record, ...kept],
    deliver,
    undelivered,
    others: [...new Set(found.deliver.flatMap((message) => threadOf(message) ?? []))],
    address: customer === null ? "" : JSON.stringify(isCall ? addressInCall(customer) : addressOf(customer)),
    later: answer === undefined || isCall || !facts.hasUnsent ? null : idsAfter(answer, read.messages),
    acknowledge,
    takeover: takeover && { ...takeover, effect, isResponse },
    close,
    poll: {
      mode,
      mark: newest,
      position: newest !== null ? read.end : astray || isEmpty ? 0 : poll.position,
      failed,
      nextMs: failed ? retryIn(poll, timing) : pauseAfter({ quiet: facts.quiet, escalated }, mode, policy, timing),
    },
  };
}

function undeliveredText(customer: Customer | null, isText: boolean, files: readonly string[]): string {
  const lost = [
    isText ? `the call is over; the number is ${customer?.person}` : null,
    files.length > 0 ? `files are not sent from the platform: ${files.join(", ").slice(0, longestNames)}` : null,
  ];
  const reason = lost.filter((one) => one !== null).join("; ");
  return `what a human wrote on the platform did not reach the customer: ${reason}`.toWellFormed();
}

/** Characters of the names of files in a notification. */
const longestNames = 300;

const idsAfter = (message: PlatformMessage, all: readonly PlatformMessage[]): ReadonlySet<string> =>
  new Set(all.slice(all.indexOf(message) + 1).map(({ id }) => id));

const noMessages: ExternalMessages = { deliver: [], record: [] };

/** True when mode ai ends the escalation. It does not end an unacknowledged one whose cause is unknown to the
 *  platform. */
const isEnded = (row: EscalationRow | null, acknowledged: boolean): boolean =>
  row !== null && (acknowledged || row.state === "acknowledged" || row.cause === "topic" || row.cause === "silent");

/** Returns the milliseconds until the next poll, or null for none. The pause is short while a human may
 *  be answering, and grows with the idle time of the conversation. Manual mode counts like an open
 *  escalation, which without a policy is never stored. */
export function pauseAfter(
  { quiet, escalated }: { readonly quiet: number | null; readonly escalated: boolean },
  mode: "ai" | "manual",
  policy: Policy | null,
  timing: Timing["escalation"],
): number | null {
  const { poll, pollOpen } = policy ?? timing;
  const { pollIdle, pollLongest } = timing;
  if (escalated) return pollOpen;
  if (quiet === null || quiet > pollIdle) return null;
  if (mode === "manual") return Math.min(Math.max(pollOpen, quiet / 20), pollLongest);
  return Math.min(Math.max(poll, quiet / 4), pollLongest);
}

/** Returns the milliseconds until a failed poll is retried. */
export const retryIn = (
  { failures }: Pick<PollRow, "failures">,
  { pollRetry, pollBusy }: Timing["escalation"],
): number => Math.max(delayAfter(failures + 1, pollRetry), pollBusy);

/** Number of polls, most of them a minute apart, after which a conversation that is missing counts as deleted. */
const missingPolls = 60;

/** Returns the milliseconds until a poll that could not read the mode is retried; null: after the next answer. The platform
 *  refuses the conversation of a former agent (`isFormer`) to that of the channel, and one that stays missing is deleted. */
export function retryAfter(
  poll: Pick<PollRow, "failures">,
  kind: CallResult<unknown>["kind"],
  isFormer: boolean,
  timing: Timing["escalation"],
): number | null {
  const isRefused = isFormer && (kind === "unauthorized" || kind === "missing");
  return isRefused || (kind === "missing" && poll.failures >= missingPolls) ? null : retryIn(poll, timing);
}
