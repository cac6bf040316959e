// Part of stage ask: records the attempt at the crossing, and selects the transition for the call's result.

import { type CallResult, stopped } from "../../agent/calls.ts";
import { askDelay, askLifetime, lookDelay, rateWindow } from "../../domain/retry.ts";
import { TooLate } from "../../engine/lease-deadline.ts";
import type { Transition } from "../../engine/stage.ts";
import { failpoint } from "../../ops/failpoints.ts";
import { guardLease } from "../../store/lanes.ts";
import { recordAsking } from "../../store/tables/turns.ts";
import type { AskDeps, Asking } from "./asking.ts";
import * as leave from "./outcomes.ts";

/** The parameters of an API call with an effect. The call ends with the lease and does not begin unless
 *  its full timeout fits into the lease. The attempt is recorded at the crossing, when the connection is
 *  available. A process that dies earlier, while it waits for the rate limit, the queue or the
 *  connection, leaves a turn that was certainly not asked and is asked immediately. The client limits
 *  the call's duration. */
export function effect(
  point_: "open.cross" | "ask.cross",
  asking: Asking,
  signal: AbortSignal,
  deps: AskDeps,
) {
  const fields = { channel: asking.line.channel, turn: asking.turn.id };
  return {
    signal: asking.leaseDeadline.signal(signal),
    crossing: async () => {
      const check = () => {
        const left = asking.leaseDeadline.left();
        if (left < deps.timeout) throw new TooLate(left);
      };
      check();
      // A turn of unknown outcome stays unknown until this call has an outcome.
      if (asking.turn.state === "waiting") await record(asking, deps);
      check();
      failpoint(point_, "before", fields);
    },
    crossed: () => failpoint(point_, "after", fields),
  };
}

/** Commits the attempt. Rejects, and nothing is sent, when the lease is lost, the transaction fails, or
 *  the turn changed. */
async function record(asking: Asking, deps: AskDeps): Promise<void> {
  const { attempt, lease, turn, node } = asking;
  const fields = { channel: asking.line.channel, turn: turn.id };
  const recorded = await deps.db.tx(async (q) => {
    await guardLease(q, lease);
    if (!(await recordAsking(q, turn, node, lease.token))) return false;
    failpoint("ask.record", "before", fields);
    return true;
  });
  if (!recorded) {
    attempt.obsolete = true;
    throw new Error("recording the attempt: the turn changed after it was claimed");
  }
  attempt.recorded = true;
  failpoint("ask.record", "after", fields);
}

/** Selects the transition for a call's result; `done` handles the result `ok`. */
export function concluded<T>(
  asking: Asking,
  result: CallResult<T>,
  deps: AskDeps,
  done: (value: T) => Transition,
): Transition {
  const { turn, line } = asking;
  if (asking.attempt.obsolete) return (q) => leave.handBack(q, asking);
  if (result.kind !== "ok") {
    const fields = { channel: line.channel, turn: turn.id, result: result.kind, reason: result.reason };
    // A caller who continues to speak cancels the question; this is no failure of the platform.
    if (turn.session !== null && result.reason === stopped) deps.log.debug(fields, "a question was ended");
    else deps.log.warn(fields, "the platform did not answer");
  }
  switch (result.kind) {
    case "ok":
      line.report(null);
      return done(result.value);
    case "unauthorized":
      // The agent reads its settings now. If the key is accepted there, only this conversation is refused.
      line.report(result.reason);
      return again(asking, result.reason, 0, false);
    case "missing":
      return (q) => leave.gone(q, asking, result.reason);
    case "refused":
      return (q) => leave.failed(q, asking, "refused", result.reason);
    case "deferred":
      return again(asking, result.reason, result.retryAfterMs ?? 0, result.limited === true);
    case "unknown":
      return (q) => leave.unknown(q, asking, result.reason, lookDelay(0));
  }
}

/** The call was certainly not executed: retries it after `leastMs` milliseconds at the earliest, until
 *  the lifetime is exceeded. */
function again(asking: Asking, reason: string, leastMs: number, limited: boolean): Transition {
  const { turn } = asking;
  if ((turn.trying_for ?? 0) > askLifetime) {
    return (q) => leave.failed(q, asking, "deferred", `given up: ${reason}`);
  }
  const backoff = askDelay(turn.attempts + (turn.state === "waiting" ? 1 : 0));
  // The rate limit has room again when its window ends, so earlier failures of the turn do not extend the
  // delay.
  const delay = Math.max(leastMs, limited ? Math.min(backoff, rateWindow) : backoff);
  return (q) => leave.waiting(q, asking, "deferred", reason, delay, limited ? delay : 0);
}
