// Decisions of stage send on loaded rows. Pure: the caller passes the jitter and writes the results.

import type { DeferralCause, ExternalId, SendOutcome } from "bridgehead/contract";
import { optedOut, suppressedCode, tooOldCode, waitedTooLong } from "../../domain/guards.ts";
import { delayAfter, paceOf } from "../../domain/retry.ts";
import type { Timing } from "../../ops/timing.ts";
import type { DraftChange, DraftRow } from "../../store/tables/drafts.ts";
import { type Pause, wholeChannel } from "../../store/tables/pauses.ts";
import type { ChannelRules, ChannelRuntime } from "../channel-runtime.ts";
import type { Admission, LiveSessions } from "../live-sessions.ts";
import type { DraftBackoff } from "../reconcile/decide.ts";
import type { HeadRow } from "./rows.ts";

type Deferred = SendOutcome & { readonly kind: "deferred" };

/** `start`: send it, or reconcile it when its outcome is unknown. `wait`: nothing can be done now. */
export type NextStep =
  | { readonly kind: "start" }
  | { readonly kind: "wait" }
  /** The call of the draft does not admit it: see `Admission.change`. */
  | { readonly kind: "unspoken"; readonly change: DraftChange }
  /** It is not sent. `hold`: it stays with an operator. `notifies`: responders are notified of this draft, or once of all
   *  that the channel holds for the same reason. */
  | {
      readonly kind: "drop" | "hold";
      readonly code: string;
      readonly reason: string;
      readonly notifies: "draft" | "channel" | null;
    };

/** What decides about the head of a lane besides its row. */
export interface HeadFacts {
  /** Null for a draft that is in no call, or not due. */
  readonly admission: Admission | null;
  readonly superseded: boolean;
  /** A human wrote the reply. Loaded for what shadow mode holds. */
  readonly byHuman: boolean;
}

/** Code and reason of a draft that is held because its channel is in shadow mode. */
export const shadowCode = "shadow";
export const shadowReason = "the channel is in shadow mode: an operator decides";

/** Returns whether shadow mode and the age limit apply to the draft. */
export const isHoldable = (head: Pick<HeadRow, "internal" | "released" | "session">): boolean =>
  head.internal === 0 && head.released === 0 && head.session === null;

/** Decides about the head of a leased lane. The check for a suppression runs when the draft is due, so a
 *  reply in its delay is dropped when its address is suppressed before it is due. */
export function nextStep(
  head: Pick<HeadRow, "state" | "due_in" | "forced" | "suppressed"> &
    Pick<HeadRow, "attempts" | "internal" | "released" | "session">,
  { admission, superseded, byHuman }: HeadFacts,
  rules: Pick<ChannelRules, "mode" | "max_age">,
): NextStep {
  const change = admission?.change ?? null;
  if (change !== null) return { kind: "unspoken", change };
  if (head.state === "held" || head.state === "failed") return { kind: "wait" };
  if (head.state !== "queued") return { kind: "start" };
  // The lane was due for a previous draft, which was just dropped.
  if (head.due_in > 0) return { kind: "wait" };
  if (head.suppressed !== null && head.forced !== 1)
    return { kind: "drop", code: suppressedCode, reason: `suppressed: ${head.suppressed}`, notifies: "draft" };
  const reason = "the customer wrote again before it was due";
  if (superseded) return { kind: "drop", code: "superseded", reason, notifies: "draft" };
  if (!isHoldable(head)) return { kind: "start" };
  if (rules.mode === "shadow")
    return { kind: "hold", code: shadowCode, reason: shadowReason, notifies: byHuman ? "draft" : null };
  if (head.attempts > 0 || -head.due_in <= rules.max_age) return { kind: "start" };
  return { kind: "hold", code: tooOldCode, reason: waitedTooLong(-head.due_in, rules.max_age), notifies: "channel" };
}

/** The result of an attempt for the draft and for its recipient's address. */
export interface Ending {
  readonly change: DraftChange;
  /** `opt-out` suppresses the address, `strike` counts a hard bounce. */
  readonly suppress?: { readonly by: "opt-out" | "strike"; readonly reason: string };
  /** The ids that later messages may refer to. Default: none; no message refers to a spoken reply. */
  readonly ids?: readonly ExternalId[];
}

/** Returns the outcome as it counts, and the ending that follows for the draft. */
export function concluded(
  given: SendOutcome,
  draft: DraftRow,
  { rules, traits }: Pick<ChannelRuntime, "rules" | "traits">,
  { sessions, timing }: { readonly sessions: Pick<LiveSessions, "afterAttempt"> } & Pick<DraftBackoff, "timing">,
  jitter: DraftBackoff["jitter"],
): { readonly outcome: SendOutcome; readonly ending: Ending } {
  if (draft.session !== null)
    return { outcome: given, ending: { change: sessions.afterAttempt(given, draft.trying_for ?? 0) } };
  const outcome = retriedLater(given, timing.send);
  return { outcome, ending: endingOf(outcome, draft, rules, { pace: paceOf(traits.platform), timing, jitter }) };
}

/** Returns the outcome with the delay that the provider asks for, at least `shortestRetry`. After `lifetime` the draft fails,
 *  so no delay is longer: a wrong unit, or a time in place of a delay, would keep it for years without notice. */
export function retriedLater(
  outcome: SendOutcome,
  { shortestRetry, lifetime }: Pick<Timing["send"], "shortestRetry" | "lifetime">,
): SendOutcome {
  if (outcome.kind !== "deferred" || outcome.retryAfterMs === undefined) return outcome;
  return { ...outcome, retryAfterMs: Math.min(Math.max(outcome.retryAfterMs, shortestRetry), lifetime) };
}

/** Returns the ending for the outcome of an attempt; drafts of a live session have their own
 *  (`LiveSessions.afterAttempt`). */
export function endingOf(
  outcome: SendOutcome,
  draft: Pick<DraftRow, "forced" | "internal" | "attempts" | "trying_for">,
  rules: Pick<ChannelRules, "on_permanent_failure" | "unknown_window">,
  { pace, timing, jitter }: DraftBackoff,
): Ending {
  // A refused notification must not keep the later ones from its responder.
  const open = rules.on_permanent_failure === "block" && draft.internal === 0 ? 1 : 0;
  switch (outcome.kind) {
    case "sent":
      return { change: { state: "sent", open: 0, externalId: outcome.id }, ids: [outcome.id, ...(outcome.also ?? [])] };
    case "refused": {
      const reason = `${outcome.code}: ${outcome.reason}`;
      if (outcome.code === optedOut) {
        // The confirmation of a STOP: the provider sent its own confirmation and refuses others. The draft
        // is dropped without an error.
        const state = draft.forced === 1 ? "dropped" : "failed";
        const { code } = outcome;
        const change = { state, open: state === "failed" ? open : 0, code, reason } as const;
        return { change, suppress: { by: "opt-out", reason: outcome.reason } };
      }
      const change = { state: "failed", open, code: outcome.code, reason } as const;
      if (outcome.scope !== "recipient") return { change };
      return { change, suppress: { by: "strike", reason: outcome.reason } };
    }
    case "deferred": {
      const { reason, scope, retryAfterMs } = outcome;
      if ((draft.trying_for ?? 0) > timing.send.lifetime)
        return { change: { state: "failed", open, code: "given-up", reason: `given up: ${reason}` } };
      // The draft keeps its place in the queue and waits until the pause ends.
      if (scope === "channel" || scope === "sender") return { change: { state: "queued", open: 1, reason } };
      const dueInMs = retryAfterMs ?? jitter(delayAfter(draft.attempts + 1, timing.send.retry[pace]));
      return { change: { state: "queued", open: 1, dueInMs, reason } };
    }
    case "unknown":
      return {
        change: {
          state: "unknown",
          open: 1,
          dueInMs: delayAfter(1, timing.reconcile.lookup),
          reason: outcome.reason,
          reconcileForMs: rules.unknown_window,
        },
      };
  }
}

/** A write to the pauses of a channel: begins or extends the pause of a sender, or ends it. */
export type PauseStep =
  | {
      readonly kind: "begin";
      readonly sender: string;
      readonly cause: DeferralCause;
      readonly failures: number;
      readonly forMs: number;
      readonly by_provider: boolean;
      readonly reason: string;
    }
  | { readonly kind: "end"; readonly sender: string };

/** Returns the changes of the pauses after an attempt of the draft from that sender. `pauses` are those of
 *  the channel. */
export function pauseSteps(
  pauses: readonly Pause[],
  draft: string,
  sender: string,
  outcome: SendOutcome,
  backoff: DraftBackoff,
): PauseStep[] {
  const known = pauses.filter((one) => one.sender === wholeChannel || one.sender === sender);
  const failing = failingSender(outcome, sender);
  const steps: PauseStep[] = [];
  if (outcome.kind === "deferred" && failing !== null) {
    const running = known.find((one) => one.sender === failing);
    const begun = pauseFor(outcome, failing, running, draft, backoff);
    if (begun !== null) steps.push(begun);
  }
  const answered = outcome.kind === "sent" || outcome.kind === "refused";
  for (const one of known.filter((other) => other.sender !== failing)) {
    const isProbe = one.probe === draft;
    // The outcome gives no information about the provider or this sender: the next probe runs after the same backoff.
    if (isProbe && (outcome.kind === "unknown" || failing === wholeChannel)) {
      const { cause, failures, reason } = one;
      const forMs = pauseDelay(backoff, cause, failures);
      steps.push({ kind: "begin", sender: one.sender, cause, failures, forMs, by_provider: false, reason });
    } else if (isProbe || (answered && (one.remaining <= 0 || one.by_provider === 0)))
      steps.push({ kind: "end", sender: one.sender });
  }
  return steps;
}

const pauseDelay = ({ pace, timing, jitter }: DraftBackoff, cause: DeferralCause, failures: number): number =>
  jitter(delayAfter(failures, timing.send.pause[pace][cause]));

/** Returns the sender whose pause the outcome begins or extends; null for none. */
function failingSender(outcome: SendOutcome, sender: string): string | null {
  if (outcome.kind !== "deferred") return null;
  if (outcome.scope === "channel") return wholeChannel;
  return outcome.scope === "sender" ? sender : null;
}

/** Returns null when the running pause already covers the failure. */
function pauseFor(
  { cause = "unreachable", reason, retryAfterMs }: Deferred,
  sender: string,
  known: Pause | undefined,
  draft: string,
  backoff: DraftBackoff,
): PauseStep | null {
  const running = known !== undefined && known.remaining > 0 && known.probe !== draft;
  // Concurrent attempts fail together and count as one failure.
  const failures = running ? known.failures : (known?.failures ?? 0) + 1;
  const asked = retryAfterMs ?? null;
  if (running && (asked === null || asked <= known.remaining)) return null;
  const forMs = asked ?? pauseDelay(backoff, cause, failures);
  return { kind: "begin", sender, cause, failures, forMs, by_provider: asked !== null, reason };
}
