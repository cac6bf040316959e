// Decisions about live sessions (calls), on loaded rows. Pure.

import type { MessageEvent, SendOutcome, SessionEvent } from "bridgehead/contract";
import { barred, type Rules } from "../domain/guards.ts";
import type { Cause } from "../domain/policy.ts";
import { firstTo, writeOpening } from "../domain/turn.ts";
import type { Timing } from "../ops/timing.ts";
import type { StoredSession } from "../pipeline/accept/stage.ts";
import { whyNotAsk } from "../pipeline/ask/decide.ts";
import type { ChannelRuntime } from "../pipeline/channel-runtime.ts";
import type { NewConversation } from "../store/tables/conversations.ts";
import { callLost, type DraftChange } from "../store/tables/drafts.ts";
import type { SessionRow } from "../store/tables/sessions.ts";
import type { NewTurn } from "../store/tables/turns.ts";

/** The conversation in which a call starts. `begun`: it is bound to the platform's conversation, or an
 *  open turn will bind it. */
export interface FreeConversation {
  readonly id: string;
  readonly begun: boolean;
}

/** The start of a call in `conversation`. */
export interface CallPlan {
  readonly conversation: string;
  /** The row to insert; null when the conversation exists. */
  readonly opened: NewConversation | null;
  /** The turn that binds the platform's conversation before the first message, so that the first answer does not wait
   *  for the binding. Null when it is bound or will be, and when the caller is not served. */
  readonly binding: NewTurn | null;
}

/** An opening without a text for the caller. */
export const silentOpening = writeOpening({ introduction: null, subject: null, context: null, speak: false });

/** Plans the start of a call. `found`: null for a new conversation. `receivedAt`: epoch milliseconds of the event. */
export function planCall(
  line: ChannelRuntime,
  event: StoredSession,
  receivedAt: number,
  { found, isPaused }: { readonly found: FreeConversation | null; readonly isPaused: boolean },
  make: { readonly id: () => string; readonly token: () => string },
): CallPlan {
  const { channel, agent, rules } = line;
  const { from, session } = event;
  const person = from.address.toLowerCase();
  const conversation = found?.id ?? make.id();
  const row = { id: conversation, channel, agent, person, person_name: from.name ?? null, subject: null };
  const opened = found ? null : { ...row, token: make.token() };
  // The adapter refuses the calls of a paused channel, and of one in shadow mode.
  const isServed = rules.mode !== "shadow" && !isPaused && whyNotAsk(line) === null && barred(person, rules) === null;
  if (!isServed || found?.begun) return { conversation, opened, binding: null };
  const address = JSON.stringify({ ...firstTo(from, null), session });
  const text = { question: "", context: null, address, opening: silentOpening };
  const binding = { id: make.id(), conversation, channel, person, event: null, receivedAt, session, ...text };
  return { conversation, opened, binding };
}

/** Returns whether the report of a lost connection is about the session's own one. A report of another node is about an
 *  older connection, which timed out after the call had moved. */
export const isConnectionLost = ({ node }: Pick<SessionRow, "node">, event: Pick<StoredSession, "node">): boolean =>
  event.node === node;

/** Returns whether a message reopens the session. It proves that the caller is connected: the lost connection was an
 *  older one, or this node was cut off. `from`, the node that received the message, must be this process. */
export const isRevived = ({ state }: Pick<SessionRow, "state">, from: string | undefined, node: string): boolean =>
  state === "lost" && from === node;

export interface OpenTurn {
  readonly id: string;
  readonly state: "waiting" | "asking" | "unknown";
  readonly question: string;
  readonly trace: string;
  /** The turn opens the platform's conversation and asks nothing. */
  readonly opening: boolean;
}

/** The open turns of a session, oldest first. */
export interface OpenTurns {
  /** The platform's conversation is bound. */
  readonly isBound: boolean;
  readonly turns: readonly OpenTurn[];
}

/** Turns that end without an answer. `strip`: they complete the opening that they have started, and
 *  their question is removed. */
export interface DropPlan {
  readonly drop: readonly OpenTurn[];
  readonly strip: readonly OpenTurn[];
}

/** Plans the end of the call: queued work is dropped and the running question is cancelled. An opening
 *  that was already started continues. */
export function planEnd({ isBound, turns }: OpenTurns): DropPlan & { readonly cancel: boolean } {
  const questions = turns.filter(({ opening }) => !opening);
  return {
    drop: turns.filter(({ state, opening }) => state === "waiting" || (isBound && !opening)),
    strip: questions.filter(({ state }) => state !== "waiting" && !isBound),
    cancel: isBound && questions.some(({ state }) => state !== "waiting"),
  };
}

/** Plans a new message of the caller. Turns in `join` were not asked, so the new turn asks their text and
 *  takes over their messages. Turns that were asked are dropped, because their answers would be late and
 *  answer an outdated question. */
export function planMessage({
  isBound,
  turns,
}: OpenTurns): DropPlan & { readonly join: readonly OpenTurn[]; readonly cancel: boolean } {
  const questions = turns.filter(({ opening }) => !opening);
  const running = questions.filter(({ state }) => state !== "waiting");
  return {
    drop: questions.filter(({ state }) => state === "waiting" || isBound),
    // The conversation is not bound yet: the running work is the opening, which must not start twice.
    strip: isBound ? [] : running,
    join: isBound ? questions.filter(({ state }) => state === "waiting") : questions,
    // Also cancels a question that another node found obsolete but could not cancel.
    cancel: isBound,
  };
}

/** The reason text by state and reason of a session event (bridgehead/contract, SessionEvent). */
const missed: Readonly<Record<string, string>> = {
  "transferring no-answer": "the agent did not answer in a call, which is being transferred",
  "transferring lost": "the agent cannot be reached in a call, which is being transferred",
  "closed no-answer": "a call has ended without an answer to the caller",
  "closed failed": "a call has ended because the agent could not be reached",
};

/** Returns the reason for an escalation when the event shows that the caller was not served; else null.
 *  Barred callers cause none. */
export function missedReason(
  event: Pick<SessionEvent, "state" | "reason" | "from">,
  rules: Pick<Rules, "allow" | "deny">,
): string | null {
  const reason = missed[`${event.state} ${event.reason}`];
  return reason === undefined || barred(event.from.address.toLowerCase(), rules) !== null ? null : reason;
}

const longestReason = 500;

/** Returns the escalation for a message to humans: a missed call, or any message without a notification
 *  target; else null. */
export function reasonForHumans(
  { forHumans, text }: Required<Pick<MessageEvent, "forHumans">> & Pick<MessageEvent, "text">,
  { isCall, hasTargets }: { readonly isCall: boolean; readonly hasTargets: boolean },
): { readonly cause: Cause; readonly reason: string } | null {
  if (!isCall && hasTargets) return null;
  const reason = `${forHumans.subject}: ${text.replace(/\s+/g, " ").trim()}`.slice(0, longestReason);
  return { cause: isCall ? "call" : "held", reason: reason.toWellFormed() };
}

/** `lostFor`: milliseconds since the session was lost; null while it is open, "ended" when it is closed
 *  or unknown. `outdated`: the caller has said something newer than the question of the reply. `doubtful`:
 *  the reply may have been said before a power failure. `escalated`: an escalation is open. */
export interface Speaking {
  readonly lostFor: number | null | "ended";
  readonly outdated: boolean;
  readonly doubtful: boolean;
  readonly escalated: boolean;
}

/** Returns the change that keeps the head of a lane from being spoken now; null when it may be spoken. A
 *  late voice reply is worse than none, and unknown outcomes are not reconciled. */
export function admission(
  state: string,
  { lostFor, outdated, doubtful }: Omit<Speaking, "escalated">,
  { replyWait, replyRetry }: Timing["calls"],
): DraftChange | null {
  const dropped = (reason: string, code?: string) =>
    ({ state: "dropped", open: 0, reason, ...(code && { code }) }) as const;
  // The draft was found with an expired lease.
  if (state !== "queued" || doubtful) return dropped("it may have been spoken");
  if (lostFor === "ended") return dropped("the call has ended");
  if (lostFor !== null && lostFor > replyWait) return dropped("the call did not come back", callLost);
  if (outdated) return dropped("the caller said something newer");
  return lostFor === null
    ? null
    : { state: "queued", open: 1, dueInMs: replyRetry, reason: "the call has lost its connection" };
}

/** Returns the change after an attempt to speak a draft. `tryingFor` is in milliseconds. */
export function afterAttempt(
  outcome: SendOutcome,
  tryingFor: number,
  { replyWait, replyRetry, replyRetryShortest }: Timing["calls"],
): DraftChange {
  switch (outcome.kind) {
    case "sent":
      return { state: "sent", open: 0, externalId: outcome.id };
    case "refused":
      return { state: "dropped", open: 0, reason: `${outcome.code}: ${outcome.reason}` };
    case "unknown":
      return { state: "dropped", open: 0, reason: `it may have been spoken: ${outcome.reason}` };
    case "deferred":
      return tryingFor > replyWait
        ? { state: "dropped", open: 0, reason: `given up: ${outcome.reason}` }
        : {
            state: "queued",
            open: 1,
            dueInMs: Math.max(outcome.retryAfterMs ?? replyRetry, replyRetryShortest),
            reason: outcome.reason,
          };
  }
}
