// Decisions of stage ask: pure functions on the channel, one claimed turn, the result of an API call, and loaded rows.
// They return the writes as plans, which rows.ts executes.

import type { Answer, CallResult, LookUp } from "../../agent/calls.ts";
import { suppressedCode, tooOldCode, waitedTooLong } from "../../domain/guards.ts";
import { attemptLimit, delayAfter } from "../../domain/retry.ts";
import { readOpening } from "../../domain/turn.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import type { TurnChange, TurnRow } from "../../store/tables/turns.ts";
import { type ChannelRuntime, phoneOf, skillNamed, skillOf, startable } from "../channel-runtime.ts";
import { type EscalationTrigger, heldTrigger } from "../escalation.ts";
import type { WaitingTurn } from "./rows.ts";
import type { Asking } from "./stage.ts";

/** Returns the reason why no question may be asked now, or null. Messages are stored until then. A call
 *  needs no VOICE skill, because that skill describes the platform's own telephony. A VOICE skill that
 *  the operator has set to inactive still disables calls. */
export function whyNotAsk(line: ChannelRuntime): string | null {
  const { platform } = line.traits;
  if (platform === null) return "the channel carries notices only";
  const settings = line.settings();
  const problem = line.problem() ?? (settings ? null : unread);
  if (problem !== null) return problem;
  if (settings && settings.status !== "active") return `the agent is ${settings.status}`;
  const skill = skillNamed(settings, platform);
  if (!skill) return startable(platform) && platform !== "voice" ? `the agent has no ${platform} skill` : null;
  return skill.status === "active" ? null : `the agent's ${platform} skill is inactive`;
}

const unread = "the agent's settings were never read: the platform has not answered yet";

/** Returns why the agent answers nothing although no operator has deactivated it: the platform or its model rejects a key,
 *  or the settings were never read. Null when it can be asked, when it is inactive, and for a channel that asks no agent. */
export function agentProblem(line: Pick<ChannelRuntime, "traits" | "refusal" | "problem" | "settings">): string | null {
  if (line.traits.platform === null) return null;
  return line.refusal() ?? (line.settings() ? null : (line.problem() ?? unread));
}

/** Why a turn is not asked. Its messages are listed with the code (`planRefusal`). `readAt`: when the turn was read, in
 *  epoch milliseconds by the clock of the database. */
interface NotAsked {
  readonly kind: "drop" | "hold";
  readonly code: string;
  readonly reason: string;
  readonly readAt: number;
}

/** True for a customer's question that was certainly not asked. Only such a turn is dropped or held: messages of a call and
 *  messages written by a human are exempt. */
export const isUnasked = ({ state, session, kind }: TurnRow): boolean =>
  state === "waiting" && session === null && kind === "question";

/** Decides about a claimed turn. It is dropped when its recipient is suppressed, for example by a STOP that arrived while
 *  the turn waited. It is held when it waited longer than `maxAge` without an attempt, as after a long pause of the channel. */
export function beforeAsking(found: WaitingTurn, maxAge: number): { readonly kind: "ask" } | NotAsked {
  const { turn, suppressed } = found;
  // A turn that an operator released starts anew (it has a reason).
  const isNew = turn.attempts === 0 && turn.reason === null && turn.event !== null;
  const isRefused = suppressed !== null || (isNew && ageOf(found) > maxAge);
  return isUnasked(turn) && isRefused ? afterWaiting(found, maxAge) : { kind: "ask" };
}

/** A message that joined an old turn makes it as young as itself. */
const ageOf = ({ turn, waited }: WaitingTurn): number => Math.min(waited, turn.age);

/** Decides about a turn that is not asked, or has waited longer than `maxAge` while its agent is not asked (`oldTurns`). */
export function afterWaiting(found: WaitingTurn, maxAge: number): NotAsked {
  const { turn, suppressed } = found;
  const readAt = turn.received_at + turn.age;
  return suppressed === null
    ? { kind: "hold", code: tooOldCode, reason: waitedTooLong(ageOf(found), maxAge), readAt }
    : { kind: "drop", code: suppressedCode, reason: `suppressed: ${suppressed}`, readAt };
}

/** The writes about a turn that is not asked. */
export type RefusalPlan = Pick<AskPlan, "change" | "triggers"> & Required<Pick<AskPlan, "lists">>;

/** Plans the end of a claimed turn that is not asked. Messages that are held open an escalation. */
export function planRefusal(
  line: ChannelRuntime,
  { kind, code, reason, readAt }: NotAsked,
  { timing }: Pick<Asking, "timing">,
): RefusalPlan {
  const closes = { open: 0, reason } as const;
  if (kind === "drop") return { change: { ...closes, state: "dropped" }, lists: { state: "ignored", code, reason } };
  return {
    change: { ...closes, state: "failed" },
    lists: { state: "held", code, reason },
    triggers: heldTrigger(line, { code, reason }, readAt, timing),
  };
}

/** Returns true when the platform's conversation is to be opened as user plus conversation. Calls also use this form when
 *  the agent has no active VOICE skill, because the start call for voice needs that skill. */
export function opensByCreate(line: ChannelRuntime, { person, platform_id }: ConversationRow): boolean {
  if (platform_id !== null) return false;
  const { platform } = line.traits;
  if (line.rules.opening === "create" || !startable(platform)) return true;
  if (platform === "voice" && skillOf(line)?.status !== "active") return true;
  return platform !== "email" && phoneOf(person) === null;
}

type Start = Pick<Asking, "turn" | "conversation" | "isCreated">;

/** The highest number of API calls that the work can make. Each call counts against the shared rate limit. */
export function callsOf({ turn, conversation, isCreated }: Start): number {
  const isNew = turn.state === "waiting";
  if (conversation.platform_id !== null) return isNew && turn.kind !== "relayed" ? 1 : 2;
  const question = isNew && turn.opening === null ? 1 : 0;
  return question + (isNew && isCreated ? 3 : 1);
}

/** True when the first call of the claimed turn has the effect, so that its attempt can be recorded with the claim. A turn
 *  of a call may become obsolete until it is asked. */
export const startsWithEffect = ({
  turn: { state, session, kind, opening },
  conversation: { platform_id },
  isCreated,
}: Start): boolean =>
  state === "waiting" &&
  session === null &&
  kind === "question" &&
  !isCreated &&
  (opening === null || platform_id === null);

export type AskOutcome = "sent" | "refused" | "deferred" | "unknown";

/** What becomes of the turn. Delays are milliseconds. */
export type AskDecision =
  /** Releases the lane without a change. The turn differs from the one that was claimed, and nothing was sent. */
  | { readonly kind: "hand-back" }
  /** The platform's conversation is open. The turn is due again at once, now as a question. `adopted`: a
   *  lookup found it, and it may belong to another conversation already. */
  | { readonly kind: "bound"; readonly platformId: string; readonly adopted: boolean }
  /** An outbound conversation is open: its introduction becomes a reply. */
  | { readonly kind: "opened"; readonly opening: string }
  /** The platform answered, or accepted the question without an answer (`text` null). `rendered` is the
   *  result of the adapter's `prepare`. */
  | { readonly kind: "answered"; readonly answer: Answer; readonly rendered: string | null }
  /** The platform stored a human's message under that id. */
  | { readonly kind: "relayed"; readonly id: string }
  /** The platform has confirmed the mode. */
  | { readonly kind: "mode"; readonly mode: "ai" | "manual" }
  /** The question was certainly not asked: it is asked again after `delay`. */
  | (Postponed & { readonly kind: "retry"; readonly outcome: AskOutcome })
  /** The question may have been asked: it is looked up after `delay`. */
  | (Postponed & { readonly kind: "unknown"; readonly questionId: string | null })
  /** Ends automatic retries. `questionId` is set when the platform certainly has the question. */
  | {
      readonly kind: "failed";
      readonly outcome: AskOutcome;
      readonly reason: string;
      readonly questionId: string | null;
    }
  /** HTTP 404 or 410: the platform no longer has the conversation. */
  | { readonly kind: "gone"; readonly reason: string };

interface Postponed {
  readonly reason: string;
  readonly delay: number;
  /** Delays the calls of all nodes; 0: does not. */
  readonly penalty: number;
}

export const handBack: AskDecision = { kind: "hand-back" };

const unknown = (
  reason: string,
  delay: number,
  more: { readonly questionId?: string; readonly penalty?: number } = {},
): AskDecision => ({ kind: "unknown", reason, delay, questionId: null, penalty: 0, ...more });

const failed = (outcome: AskOutcome, reason: string, questionId: string | null = null): AskDecision => ({
  kind: "failed",
  outcome,
  reason,
  questionId,
});

export type FailedCall = Exclude<CallResult<unknown>, { kind: "ok" }>;
type TimedTurn = Pick<Asking, "turn" | "timing">;

/** Decides after an API call with an effect that did not succeed. */
export function afterFailedCall(asking: Pick<Asking, "turn" | "attempt" | "timing">, result: FailedCall): AskDecision {
  if (asking.attempt.obsolete) return handBack;
  switch (result.kind) {
    case "unauthorized":
      return again(asking, result.reason, 0, false);
    case "missing":
      return { kind: "gone", reason: result.reason };
    case "refused":
      return failed("refused", result.reason);
    case "deferred":
      return again(asking, result.reason, result.retryAfterMs ?? 0, result.limited === true);
    case "unknown":
      return unknown(result.reason, delayAfter(1, asking.timing.ask.lookup));
  }
}

/** The call was certainly not executed: retries it after `least` milliseconds at the earliest, until the
 *  lifetime is exceeded. */
function again({ turn, timing }: TimedTurn, reason: string, least: number, limited: boolean): AskDecision {
  if ((turn.trying_for ?? 0) > timing.ask.lifetime) return failed("deferred", `given up: ${reason}`);
  const backoff = delayAfter(turn.attempts + (turn.state === "waiting" ? 1 : 0), timing.ask.retry);
  // The rate limit has room again when its window ends, so earlier failures of the turn do not extend the delay.
  const delay = Math.max(least, limited ? Math.min(backoff, timing.rate.window) : backoff);
  return { kind: "retry", outcome: "deferred", reason, delay, penalty: limited ? delay : 0 };
}

/** Decides after a lookup that failed: it is repeated later with backoff, after an operator's release as often as it grows. */
export function afterFailedLookup({ turn, timing }: TimedTurn, result: FailedCall): AskDecision {
  const { lifetime, lookup } = timing.ask;
  if (turn.trying_for === null ? turn.lookups >= lookup.length : turn.trying_for > lifetime)
    return failed("unknown", `it may have been asked, and cannot be looked up: ${result.reason}`);
  const delay = Math.max(delayAfter(turn.lookups + 2, lookup), ("retryAfterMs" in result && result.retryAfterMs) || 0);
  return unknown(result.reason, delay, { penalty: result.kind === "deferred" && result.limited ? delay : 0 });
}

/** The lookup found no trace of the attempt. Waits until `absentAfter` milliseconds have passed since the
 *  attempt, then retries it, up to the limit. */
export function afterAbsence(
  { turn, timing }: TimedTurn,
  absentAfter: number,
  why: { readonly early: string; readonly final: string },
): AskDecision {
  const missing = absentAfter - (turn.over_ago ?? 0);
  const { lookup, retry, absentMargin } = timing.ask;
  if (missing > 0) return unknown(why.early, Math.min(delayAfter(turn.lookups + 1, lookup), missing + absentMargin));
  if (turn.attempts >= attemptLimit) return failed("refused", `tried ${turn.attempts} times, and ${why.final}`);
  return { kind: "retry", outcome: "refused", reason: why.final, delay: delayAfter(turn.attempts, retry), penalty: 0 };
}

/** The platform has the question and gives no answer yet. None is awaited from a human (`isManual`), or after an operator's release. */
export function afterPending(
  { turn, timing }: TimedTurn,
  { questionId }: Extract<LookUp, { state: "pending" }>,
  isManual: boolean,
): AskDecision {
  if (isManual || turn.trying_for === null)
    return { kind: "answered", answer: { questionId, replyId: null, text: null }, rendered: null };
  if ((turn.over_ago ?? 0) > timing.ask.answerLifetime)
    return failed("sent", "the platform has the question and gave no answer", questionId);
  return unknown("asked, not answered yet", delayAfter(turn.lookups + 1, timing.ask.lookup), { questionId });
}

/** Setting the mode is idempotent: a call of unknown outcome is retried like one that was not executed. */
export const repeatable = <T>(result: CallResult<T>): CallResult<T> =>
  result.kind === "unknown" ? { kind: "deferred", reason: result.reason } : result;

/** The writes that follow from a decision. A question of a call can become obsolete during its attempt, because a newer
 *  message arrived or the call ended. Its turn then stays `dropped`, and the members after `penalty` are not written. */
export interface AskPlan {
  /** Binds this conversation of the platform. Null: unbinds one that the platform has lost, and resets its poll. */
  readonly binds?: string | null;
  /** The attempt that opened the conversation ends as sent. The question that follows it has not recorded its own. */
  readonly endsOpening?: true;
  readonly outcome: AskOutcome;
  /** Nothing was sent and no attempt is recorded. One is added, because backoff and lifetime depend on the count. */
  readonly isUnsent: boolean;
  /** The claim has recorded an attempt that was not made. It is deleted and does not count; the turn keeps its reason. */
  readonly isWithdrawn?: true;
  readonly isRetried: boolean;
  readonly change: TurnChange;
  /** An obsolete question certainly did not reach the platform: its text is added to the newer question. */
  readonly returnsText: boolean;
  /** Delays the calls of all nodes, in milliseconds. */
  readonly penalty?: number;
  /** The platform's id of a human's message, so that polling does not take it for an external one. */
  readonly relayed?: string;
  readonly mode?: "ai" | "manual";
  /** May need a human (`EscalationHooks.answered`). */
  readonly detects?: Answer;
  /** Polls the platform's conversation after this time, in milliseconds. */
  readonly poll?: number;
  /** Lists the messages that get no automatic answer. An operator can release them from there (`inbox`). */
  readonly lists?: { readonly state: "ignored" | "held" | "failed"; readonly code: string; readonly reason: string };
  /** Opens an escalation, or adds to it. */
  readonly triggers?: EscalationTrigger;
  /** The introduction of an outbound conversation becomes a reply. */
  readonly introduction?: string;
  readonly answer?: { readonly text: string; readonly platformId: string | null; readonly rendered: string | null };
}

const noAnswer =
  "the platform took the message and gives no answer now (manual mode?); a retry looks for an answer and does not ask again";
const lostMark = "the platform had lost the conversation";

type AskedTurn = Pick<Asking, "line" | "turn" | "attempt" | "timing">;

/** Plans the writes of a decision. `now`: the turn as it is now, for a conversation of the platform that was opened or
 *  found; null when another conversation of this store is bound to it. Returns null when the lane is released without a
 *  change. */
export function planWrites(
  asking: AskedTurn,
  decision: AskDecision,
  now: Pick<TurnRow, "age" | "opening"> | null = null,
): AskPlan | null {
  const { turn, attempt, timing } = asking;
  switch (decision.kind) {
    case "hand-back":
      if (!attempt.recorded) return null;
      return { ...end(asking, "deferred", { state: "waiting", open: 1, reason: turn.reason }), isWithdrawn: true };
    case "bound": {
      if (now === null)
        return planWrites(asking, unknown("the conversation found is another's", timing.ask.adoptedRetry));
      const binds = decision.platformId;
      if (now.opening !== null) return { ...planOpened(asking, now.opening), binds };
      // Keeps the turn's mark. The turn fails when the platform loses the conversation a second time.
      const reason = turn.reason === lostMark ? lostMark : null;
      // The turn keeps its former place in the queue: questions of earlier turns run before openings of later ones. One that
      // was received in the future, by a clock that went back, is due at once.
      return { ...end(asking, "sent", { state: "waiting", open: 1, reason, dueInMs: Math.min(0, -now.age) }), binds };
    }
    case "opened":
      return planOpened(asking, decision.opening);
    case "answered":
      return planAnswered(asking, decision);
    case "relayed": {
      const change = { state: "answered", open: 0, questionId: decision.id } as const;
      // From now on humans may write in the platform's conversation too, so it is polled.
      const poll = timing.ask.relayedPoll;
      return { ...end(asking, "sent", change), relayed: decision.id, mode: "manual", poll };
    }
    case "mode":
      return { ...end(asking, "sent", { state: "answered", open: 0 }), mode: decision.mode };
    case "retry": {
      const { outcome, reason, delay, penalty } = decision;
      return { ...end(asking, outcome, { state: "waiting", open: 1, dueInMs: delay, reason }), penalty };
    }
    case "unknown": {
      const { reason, delay, questionId, penalty } = decision;
      const lookups = turn.state === "waiting" ? 0 : turn.lookups + 1;
      const change = { state: "unknown", open: 1, dueInMs: delay, reason, lookups, questionId } as const;
      return { ...end(asking, "unknown", change), penalty };
    }
    case "failed":
      return planFailed(asking, decision.outcome, decision.reason, decision.questionId);
    case "gone": {
      if (turn.reason === lostMark) return planFailed(asking, "refused", decision.reason);
      // Opens another conversation at the platform and asks there, once.
      return { ...end(asking, "refused", { state: "waiting", open: 1, reason: lostMark }), binds: null };
    }
  }
}

function end({ turn, attempt }: AskedTurn, outcome: AskOutcome, change: TurnChange): AskPlan {
  const { unbound, recorded: isRecorded } = attempt;
  const isUnsent = turn.state === "waiting" && !isRecorded;
  return {
    ...(unbound !== null && !isRecorded && { binds: unbound, endsOpening: true }),
    outcome,
    isUnsent,
    isRetried: outcome !== "sent" && (change.state === "waiting" || change.state === "unknown"),
    change,
    // An unrecorded turn became obsolete as `waiting`, which has already moved its text.
    returnsText: change.state === "waiting" && !isUnsent,
  };
}

/** The introduction of an outbound conversation becomes a reply, unless the channel speaks it; it is polled from now on. */
function planOpened(asking: AskedTurn, opening: string): AskPlan {
  const { speak, introduction } = readOpening(opening);
  const text = introduction ?? skillOf(asking.line)?.introduction ?? "";
  if (speak && text.trim() === "") return planFailed(asking, "sent", "there is no introduction to begin with");
  const said = speak && { introduction: text, poll: asking.timing.escalation.pollAfterAnswer };
  return { ...end(asking, "sent", { state: "answered", open: 0 }), ...said };
}

/** A question without an answer is polled too, because a human may answer on the platform. */
function planAnswered(asking: AskedTurn, { answer, rendered }: Extract<AskDecision, { kind: "answered" }>): AskPlan {
  const { line, timing } = asking;
  const { text, questionId, replyId: platformId } = answer;
  const isSilent = text === null || text.trim() === "";
  const state = isSilent ? "silent" : "answered";
  const hooks = line.escalation();
  const escalates = (line.settings()?.escalations ?? []).length > 0;
  return {
    ...end(asking, "sent", { state, open: 0, questionId, reason: isSilent ? noAnswer : null }),
    ...(hooks !== null && { poll: escalates ? timing.escalation.pollAfterAnswer : hooks.pollAfter() }),
    ...(hooks !== null && (escalates || isSilent) && { detects: answer }),
    ...(isSilent
      ? { lists: { state: "ignored", code: "silent", reason: noAnswer } }
      : { answer: { text, platformId, rendered } }),
  };
}

function planFailed(asking: AskedTurn, outcome: AskOutcome, reason: string, questionId: string | null = null): AskPlan {
  const { line, turn } = asking;
  const { channel, agent, rules } = line;
  const { id, conversation, kind, question, session, opening, attempts } = turn;
  // A call continues with its next question, and an operator can release nothing but the question of a message.
  const blocks = rules.on_permanent_failure === "block" && kind === "question" && session === null && opening === null;
  const said = kind === "question" && question !== "" ? { said: question } : {};
  const key = `turn:${id}:${attempts}`;
  return {
    ...end(asking, outcome, { state: "failed", open: blocks ? 1 : 0, reason, questionId }),
    lists: { state: "failed", code: "not-asked", reason },
    triggers: { channel, agent, conversation, topic: null, key, source: "ours", cause: "turn-failed", reason, ...said },
  };
}
