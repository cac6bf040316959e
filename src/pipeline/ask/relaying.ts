// Part of stage ask: turns that ask no question. A human's message is posted to the platform as a manual
// message, and the platform's mode is set. Setting the mode is idempotent. Posting a message is not, so a
// message that may have been posted is looked up before a retry.

import type { CallResult } from "../../agent/calls.ts";
import { askDelay, attemptLimit, lookDelay } from "../../domain/retry.ts";
import type { Transition } from "../../engine/stage.ts";
import { platformIds } from "../../store/tables/turns.ts";
import { type AskDeps, type Asking, readCall, readSignal, settleAfterOf } from "./asking.ts";
import { concluded, effect } from "./crossing.ts";
import { unreadable } from "./lookup.ts";
import * as leave from "./outcomes.ts";

/** Retries setting the mode like a call that was certainly not executed, with the same lifetime, because
 *  the lane waits for it. */
const repeatable = <T>(result: CallResult<T>): CallResult<T> =>
  result.kind === "unknown" ? { kind: "deferred", reason: result.reason } : result;

/** Calls PUT mode with the mode of the turn. */
export async function tellMode(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const mode = asking.turn.question === "ai" ? "ai" : "manual";
  const call = effect("ask.cross", asking, signal, deps);
  const result = await asking.line.client.setMode(platformId, mode, call);
  call.crossed();
  // Setting the mode is idempotent.
  return concluded(asking, repeatable(result), deps, () => (q) => leave.toldMode(q, asking, mode));
}

/** Sets mode manual first, because the platform accepts a human's message in no other mode. Then posts
 *  the message. */
export async function say(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { client } = asking.line;
  const before = readSignal(asking, signal, deps);
  const manual = await client.setMode(platformId, "manual", { signal: before, crossing: () => undefined });
  if (manual.kind !== "ok")
    return concluded(asking, repeatable(manual), deps, () => (q) => leave.unknown(q, asking, "", 0));
  const call = effect("ask.cross", asking, signal, deps);
  const result = await client.say(platformId, asking.turn.question, call);
  call.crossed();
  return concluded(asking, result, deps, (id) => (q) => leave.relayed(q, asking, id));
}

/** Looks up whether the message was posted. Posts it again only when it is certainly missing. */
export async function findSaid(
  asking: Asking,
  platformId: string,
  signal: AbortSignal,
  deps: AskDeps,
): Promise<Transition> {
  const { line, turn } = asking;
  const knownIds = await deps.db.read((q) => platformIds(q, platformId, turn.id));
  const result = await line.client.findSaid(
    platformId,
    { text: turn.question, knownIds },
    readCall(readSignal(asking, signal, deps), deps),
  );
  if (result.kind === "missing" && (turn.over_ago ?? 0) >= settleAfterOf(asking, deps))
    return (q) => leave.gone(q, asking, result.reason);
  if (result.kind !== "ok") return unreadable(asking, result, deps);
  const id = result.value;
  if (id !== null) return (q) => leave.relayed(q, asking, id);
  const missing = settleAfterOf(asking, deps) - (turn.over_ago ?? 0);
  if (missing > 0)
    return (q) => leave.unknown(q, asking, "not there yet", Math.min(lookDelay(turn.looks), missing + 10));
  if (turn.attempts >= attemptLimit)
    return (q) =>
      leave.failed(q, asking, "refused", `tried ${turn.attempts} times, and the words never arrived`);
  return (q) => leave.waiting(q, asking, "refused", "the words never arrived", askDelay(turn.attempts));
}
