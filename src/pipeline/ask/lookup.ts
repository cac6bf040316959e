// Part of stage ask: determines the outcome of a call that ended as unknown. It only reads. A question is
// asked again only when the platform certainly does not have it.

import type { CallResult, Found } from "../../agent/calls.ts";
import { answerLifetime, askDelay, askLifetime, attemptLimit, lookDelay } from "../../domain/retry.ts";
import type { Transition } from "../../engine/stage.ts";
import type { Query } from "../../store/driver.ts";
import { isBound } from "../../store/tables/conversations.ts";
import { platformIds } from "../../store/tables/turns.ts";
import { prepared } from "../channel-runtime.ts";
import { type AskDeps, type Asking, readCall, readSignal, settleAfterOf } from "./asking.ts";
import { foreignKey } from "./opening.ts";
import * as leave from "./outcomes.ts";

/** After a start call of unknown outcome: looks up the conversation that it may have opened. When there
 *  is none after the settle time, the turn is queued for a new attempt, which is recorded and settled
 *  like the first one. */
export async function findOpened(asking: Asking, signal: AbortSignal, deps: AskDeps): Promise<Transition> {
  const { line, conversation, turn } = asking;
  const result = await line.client.findConversations(
    foreignKey(conversation),
    readSignal(asking, signal, deps),
  );
  if (result.kind !== "ok") return unreadable(asking, result, deps);
  for (const id of [...result.value].reverse()) {
    if (await deps.db.read((q) => isBound(q, id))) continue;
    return (q) => leave.adopted(q, asking, id);
  }
  const missing = settleAfterOf(asking, deps) - (turn.over_ago ?? 0);
  if (missing <= 0) return notThere(asking, "the conversation was never opened");
  return (q) => leave.unknown(q, asking, "not opened yet", Math.min(lookDelay(turn.looks), missing + 10));
}

/** A lookup failed: retries it later with backoff. A rate limit reported by the platform delays the
 *  calls of all nodes. */
export function unreadable(
  asking: Asking,
  result: Exclude<CallResult<unknown>, { kind: "ok" }>,
  deps: AskDeps,
): Transition {
  const { line, turn } = asking;
  deps.log.warn(
    { channel: line.channel, turn: turn.id, result: result.kind, reason: result.reason },
    "looking a question up failed",
  );
  if (result.kind === "unauthorized") line.report(result.reason);
  if ((turn.trying_for ?? 0) > askLifetime) {
    return (q) =>
      leave.failed(q, asking, "unknown", `it may have been asked, and cannot be looked up: ${result.reason}`);
  }
  const delay = Math.max(lookDelay(turn.looks + 1), ("retryAfterMs" in result && result.retryAfterMs) || 0);
  const penalty = result.kind === "deferred" && result.limited ? delay : 0;
  return (q) => leave.unknown(q, asking, result.reason, delay, null, penalty);
}

/** Looks up whether the platform has the question, and its answer. */
export async function lookUp(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { line, turn } = asking;
  const deadline = readSignal(asking, signal, deps);
  const knownIds = await deps.db.read((q: Query) => platformIds(q, platformId, turn.id));
  const result = await line.client.lookUp(
    platformId,
    { text: turn.question, knownIds },
    readCall(deadline, deps),
  );
  if (result.kind === "ok") return found(asking, platformId, result.value, deadline, deps);
  // HTTP 404 for the whole conversation: the question was deleted with it.
  const settled = (turn.over_ago ?? 0) >= settleAfterOf(asking, deps);
  if (result.kind === "missing" && settled) return (q) => leave.gone(q, asking, result.reason);
  return unreadable(asking, result, deps);
}

/** The attempt left no trace within the settle time: retries it, up to the limit. */
function notThere(asking: Asking, reason: string): Transition {
  const { attempts } = asking.turn;
  if (attempts >= attemptLimit)
    return (q) => leave.failed(q, asking, "refused", `tried ${attempts} times, and ${reason}`);
  return (q) => leave.waiting(q, asking, "refused", reason, askDelay(attempts));
}

async function found(
  asking: Asking,
  platformId: string,
  state: Found,
  deadline: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { turn, line } = asking;
  const overFor = turn.over_ago ?? 0;
  switch (state.state) {
    case "answered": {
      const rendered = await prepared(line, state.answer.text, deadline, deps);
      return (q) => leave.answered(q, asking, state.answer, deps.clock, rendered);
    }
    case "absent": {
      const missing = settleAfterOf(asking, deps) - overFor;
      if (missing > 0) {
        return (q) =>
          leave.unknown(q, asking, "not there yet", Math.min(lookDelay(turn.looks), missing + 10));
      }
      return notThere(asking, "the question never arrived");
    }
    case "pending": {
      const mode = await line.client.mode(platformId, deadline);
      if (mode.kind === "ok" && mode.value === "manual") {
        return (q) =>
          leave.answered(q, asking, { questionId: state.questionId, replyId: null, text: null }, deps.clock);
      }
      if (overFor > answerLifetime)
        return (q) =>
          leave.failed(
            q,
            asking,
            "sent",
            "the platform has the question and gave no answer",
            state.questionId,
          );
      return (q) =>
        leave.unknown(q, asking, "asked, not answered yet", lookDelay(turn.looks), state.questionId);
    }
  }
}
