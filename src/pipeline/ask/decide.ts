// Decisions of stage ask: pure functions on the channel, one claimed turn, and the result of an API call. rows.ts writes
// the decision.

import type { Answer, CallResult, LookUp } from "../../agent/calls.ts";
import { suppressedCode, tooOldCode, waitedTooLong } from "../../domain/guards.ts";
import { answerLifetime, askDelay, askLifetime, attemptLimit, lookDelay, rateWindow } from "../../domain/retry.ts";
import type { Core } from "../../store/driver.ts";
import { type Lease, type LeaseDeadline } from "../../store/lanes.ts";
import type { RateReserve } from "../../store/rates.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import type { TurnRow } from "../../store/tables/turns.ts";
import { type ChannelRuntime, phoneOf, skillNamed, skillOf, startable } from "../channel-runtime.ts";
import type { ClaimedTurn } from "./rows.ts";

/** One claimed turn with its lease, conversation and attempt. */
export interface Asking extends Pick<Core, "clock" | "log" | "node" | "timing"> {
  readonly line: ChannelRuntime;
  readonly lease: Lease;
  readonly leaseDeadline: LeaseDeadline;
  readonly turn: TurnRow;
  readonly conversation: ConversationRow;
  /** The platform's conversation is opened as user plus conversation. */
  readonly isCreated: boolean;
  readonly rate: RateReserve;
  readonly attempt: AttemptState;
}

/** The state of the attempt that the running work has recorded. */
export interface AttemptState {
  /** The attempt is committed: the turn is `asking`. */
  recorded: boolean;
  /** The turn changed between claim and crossing. The lane is released, and the turn is claimed again in
   *  its new state. */
  obsolete: boolean;
  /** The platform's conversation that the previous call of this work has opened, until it is stored. It is
   *  stored with the next record or decision. */
  unbound: string | null;
  /** Monotonic milliseconds of the crossing with the question; null before it. */
  askedAt: number | null;
  /** Set when the claim has recorded the attempt: a connection is reserved for its call. */
  early: EarlyRecord | null;
}

/** The record of an attempt in the transaction of its claim. */
export interface EarlyRecord {
  /** Resolves when the record is on disk. */
  durable(): Promise<void>;
  /** Ends the reservation of the connection. */
  release(): void;
}

/** Returns the reason why no question may be asked now, or null. Messages are stored until then. A call
 *  needs no VOICE skill, because that skill describes the platform's own telephony. A VOICE skill that
 *  the operator has set to inactive still disables calls. */
export function whyNotAsk(line: ChannelRuntime): string | null {
  const { platform } = line.traits;
  if (platform === null) return "the channel carries notices only";
  const problem = agentProblem(line);
  if (problem !== null) return problem;
  const settings = line.settings();
  if (settings && settings.status !== "active") return `the agent is ${settings.status}`;
  const skill = skillNamed(settings, platform);
  if (!skill) return startable(platform) && platform !== "voice" ? `the agent has no ${platform} skill` : null;
  if (skill.status !== "active") return `the agent's ${platform} skill is inactive`;
  return null;
}

/** Returns why the agent cannot be asked although no operator has deactivated it: the platform rejects its key, or its
 *  settings were never read. Null when it can be asked, when it is inactive, and for a channel that asks no agent. */
export function agentProblem(line: Pick<ChannelRuntime, "traits" | "problem" | "settings">): string | null {
  if (line.traits.platform === null) return null;
  return line.problem() ?? (line.settings() === null ? neverRead : null);
}

const neverRead = "the agent's settings were never read: the platform has not answered yet";

/** Whether a claimed turn is asked. `drop` and `hold`: its messages are listed with the code. */
export type BeforeAsking =
  | { readonly kind: "ask" }
  | { readonly kind: "drop" | "hold"; readonly code: string; readonly reason: string };

/** True for a customer's question that was certainly not asked. Only such a turn is dropped or held: messages of a call and
 *  messages written by a human are exempt. */
export const isUnasked = ({ state, session, kind }: TurnRow): boolean =>
  state === "waiting" && session === null && kind === "question";

/** Decides about a claimed turn. It is dropped when its recipient is suppressed, for example by a STOP that arrived while
 *  the turn waited. It is held when it waited longer than `maxAge` without an attempt, as after a long pause of the channel. */
export function beforeAsking(
  { turn, suppressed, waited }: Omit<ClaimedTurn, "conversation">,
  maxAge: number,
): BeforeAsking {
  if (!isUnasked(turn)) return { kind: "ask" };
  if (suppressed !== null) return isSuppressed(suppressed);
  // A turn that an operator released starts anew (it has a reason).
  const isNew = turn.attempts === 0 && turn.reason === null && turn.event !== null;
  // A message that joined an old turn makes it as young as itself.
  const age = Math.min(waited, turn.age);
  if (!isNew || age <= maxAge) return { kind: "ask" };
  return tooOld(age, maxAge);
}

const isSuppressed = (reason: string) =>
  ({ kind: "drop", code: suppressedCode, reason: `suppressed: ${reason}` }) as const;
const tooOld = (age: number, maxAge: number) =>
  ({ kind: "hold", code: tooOldCode, reason: waitedTooLong(age, maxAge) }) as const;

/** Decides about a turn that has waited longer than `maxAge` while its agent is not asked (`unaskedTurns`). */
export const afterWaiting = (
  { turn, suppressed, waited }: Omit<ClaimedTurn, "conversation">,
  maxAge: number,
): Exclude<BeforeAsking, { kind: "ask" }> =>
  suppressed === null ? tooOld(Math.min(waited, turn.age), maxAge) : isSuppressed(suppressed);

/** Returns true when the platform's conversation is to be opened as user plus conversation. Calls also use this form when
 *  the agent has no active VOICE skill, because the start call for voice needs that skill. */
export function opensByCreate(line: ChannelRuntime, { person, platform_id }: ConversationRow): boolean {
  if (platform_id !== null) return false;
  const { platform } = line.traits;
  if (line.rules.opening === "create" || !startable(platform)) return true;
  if (platform === "voice" && skillOf(line)?.status !== "active") return true;
  return platform !== "email" && phoneOf(person) === null;
}

/** The highest number of API calls that the work can make. Each call counts against the shared rate limit. */
export function callsOf({
  turn,
  conversation,
  isCreated,
}: Pick<Asking, "turn" | "conversation" | "isCreated">): number {
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
}: Pick<Asking, "turn" | "conversation" | "isCreated">): boolean =>
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
  /** The question was certainly not asked: it is asked again after `delay`. `penalty` delays the calls of all nodes. */
  | {
      readonly kind: "retry";
      readonly outcome: AskOutcome;
      readonly reason: string;
      readonly delay: number;
      readonly penalty: number;
    }
  /** The question may have been asked: it is looked up after `delay`. */
  | {
      readonly kind: "unknown";
      readonly reason: string;
      readonly delay: number;
      readonly questionId: string | null;
      readonly penalty: number;
    }
  /** Ends automatic retries. `questionId` is set when the platform certainly has the question. */
  | {
      readonly kind: "failed";
      readonly outcome: AskOutcome;
      readonly reason: string;
      readonly questionId: string | null;
    }
  /** HTTP 404: the platform no longer has the conversation. */
  | { readonly kind: "gone"; readonly reason: string };

export const handBack: AskDecision = { kind: "hand-back" };

const unknown = (
  reason: string,
  delay: number,
  more: { readonly questionId?: string; readonly penalty?: number } = {},
): AskDecision => ({
  kind: "unknown",
  reason,
  delay,
  questionId: more.questionId ?? null,
  penalty: more.penalty ?? 0,
});

const failed = (outcome: AskOutcome, reason: string, questionId: string | null = null): AskDecision => ({
  kind: "failed",
  outcome,
  reason,
  questionId,
});

export type FailedCall = Exclude<CallResult<unknown>, { kind: "ok" }>;

/** Decides after an API call with an effect that did not succeed. */
export function afterFailedCall({ turn, attempt }: Pick<Asking, "turn" | "attempt">, result: FailedCall): AskDecision {
  if (attempt.obsolete) return handBack;
  switch (result.kind) {
    case "unauthorized":
      return again(turn, result.reason, 0, false);
    case "missing":
      return { kind: "gone", reason: result.reason };
    case "refused":
      return failed("refused", result.reason);
    case "deferred":
      return again(turn, result.reason, result.retryAfterMs ?? 0, result.limited === true);
    case "unknown":
      return unknown(result.reason, lookDelay(0));
  }
}

/** The call was certainly not executed: retries it after `least` milliseconds at the earliest, until the
 *  lifetime is exceeded. */
function again(turn: TurnRow, reason: string, least: number, limited: boolean): AskDecision {
  if ((turn.trying_for ?? 0) > askLifetime) return failed("deferred", `given up: ${reason}`);
  const backoff = askDelay(turn.attempts + (turn.state === "waiting" ? 1 : 0));
  // The rate limit has room again when its window ends, so earlier failures of the turn do not extend the delay.
  const delay = Math.max(least, limited ? Math.min(backoff, rateWindow) : backoff);
  return { kind: "retry", outcome: "deferred", reason, delay, penalty: limited ? delay : 0 };
}

/** Decides after a lookup that failed: it is repeated later with backoff. */
export function afterFailedLookup(turn: TurnRow, result: FailedCall): AskDecision {
  if ((turn.trying_for ?? 0) > askLifetime)
    return failed("unknown", `it may have been asked, and cannot be looked up: ${result.reason}`);
  const delay = Math.max(lookDelay(turn.lookups + 1), ("retryAfterMs" in result && result.retryAfterMs) || 0);
  const penalty = result.kind === "deferred" && result.limited ? delay : 0;
  return unknown(result.reason, delay, { penalty });
}

/** The lookup found no trace of the attempt. Waits until `absentAfter` milliseconds have passed since the
 *  attempt, then retries it, up to the limit. */
export function afterAbsence(
  turn: TurnRow,
  absentAfter: number,
  why: { readonly early: string; readonly final: string },
): AskDecision {
  const missing = absentAfter - (turn.over_ago ?? 0);
  if (missing > 0) return unknown(why.early, Math.min(lookDelay(turn.lookups), missing + 10));
  if (turn.attempts >= attemptLimit) return failed("refused", `tried ${turn.attempts} times, and ${why.final}`);
  return { kind: "retry", outcome: "refused", reason: why.final, delay: askDelay(turn.attempts), penalty: 0 };
}

/** The platform has the question and gives no answer yet. `isManual`: a human answers there. */
export function afterPending(
  turn: TurnRow,
  { questionId }: Extract<LookUp, { state: "pending" }>,
  isManual: boolean,
): AskDecision {
  if (isManual) return { kind: "answered", answer: { questionId, replyId: null, text: null }, rendered: null };
  if ((turn.over_ago ?? 0) > answerLifetime)
    return failed("sent", "the platform has the question and gave no answer", questionId);
  return unknown("asked, not answered yet", lookDelay(turn.lookups), { questionId });
}

/** Setting the mode is idempotent: a call of unknown outcome is retried like one that was not executed. */
export const repeatable = <T>(result: CallResult<T>): CallResult<T> =>
  result.kind === "unknown" ? { kind: "deferred", reason: result.reason } : result;
