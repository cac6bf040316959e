// Decisions of stage fetch, on a claimed row and the result of its download. Pure: the caller passes the jitter, and logs.

import { finalError, isFinal } from "bridgehead/contract";
import { delayAfter, fetchLimit } from "../../domain/retry.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Fetch } from "./rows.ts";

/** Returns why a claimed attachment is not fetched; null when it is. Its attempts, which include this one, end also when
 *  each of them crashes the process. */
export const beforeFetch = ({ attempts }: Pick<Fetch, "attempts">): string | null =>
  attempts > fetchLimit ? "given up: every attempt was interrupted" : null;

/** Returns the error that ends a fetch of `size` bytes, announced (null when unknown) or received so far; null within the
 *  limit of `most` bytes. */
export const sizeError = (size: number | null, most: number): Error | null =>
  (size ?? 0) > most ? finalError(`it is larger than ${most} bytes`) : null;

/** What becomes of an attachment whose bytes were not received. `retry`, `interrupted`: it is due again after `delayMs`
 *  milliseconds. */
export type FetchFailure =
  | { readonly kind: "end"; readonly reason: string }
  | { readonly kind: "retry" | "interrupted"; readonly reason: string; readonly delayMs: number };

const longestReason = 300;

/** Decides after an error, of the adapter or of `sizeError`. `isEnding`: the process is shutting down. Another process, or
 *  the restarted one, retries immediately. */
export function afterFailure(
  { attempts }: Pick<Fetch, "attempts">,
  error: unknown,
  isEnding: boolean,
  { jitter, timing }: { readonly jitter: (ms: number) => number; readonly timing: Pick<Timing["fetch"], "retry"> },
): FetchFailure {
  if (isEnding) return { kind: "interrupted", reason: "interrupted", delayMs: 0 };
  const reason = (error instanceof Error ? error.message : String(error)).slice(0, longestReason);
  if (isFinal(error) || attempts >= fetchLimit) return { kind: "end", reason };
  return { kind: "retry", reason, delayMs: jitter(delayAfter(attempts, timing.retry)) };
}
