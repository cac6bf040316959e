// The only source of time, timers, randomness and ids; lint forbids other sources elsewhere. Includes abort signals
// with a parent and a time limit: `AbortSignal.any` and `AbortSignal.timeout` keep every signal until its time is over,
// which costs more memory and garbage collection than the work itself.

import { randomBytes } from "node:crypto";
import type { Clock } from "bridgehead/contract";

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, delayOf(ms));
      signal?.addEventListener("abort", done, { once: true });
    }),
};

/** Calls `task` every `ms` milliseconds until the returned function is called. It does not keep the process alive. */
export function every(ms: number, task: () => void): () => void {
  const timer = setInterval(task, ms);
  timer.unref();
  return () => clearInterval(timer);
}

/** Longer delays would fire at once. */
const delayOf = (ms: number): number => Math.min(Math.max(ms, 0), 2 ** 31 - 1);

/** Calls `act` once in `ms` milliseconds of real time. Returns the function that cancels it. The timer does
 *  not keep the process alive. */
export function after(ms: number, act: () => void): () => void {
  const timer = setTimeout(act, delayOf(ms));
  timer.unref();
  return () => clearTimeout(timer);
}

/** Blocks the thread for `ms` milliseconds. Only for the end of the process. */
export function pause(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Clock for due times and leases of one process. It follows the system clock forward. After a backward
 *  step it continues at the monotonic rate, so that no wait is repeated. It follows a step of more than `most` milliseconds,
 *  and calls `stepped` with their number. */
export function steadyNow(
  clock: Pick<Clock, "now" | "monotonic">,
  { most, stepped }: { readonly most: number; readonly stepped: (ms: number) => void } = neverBack,
): () => number {
  let wall = clock.now();
  let monotonic = clock.monotonic();
  return () => {
    const steady = wall + (clock.monotonic() - monotonic);
    const now = clock.now();
    if (now <= steady && steady - now <= most) return Math.floor(steady);
    if (now < steady) stepped(steady - now);
    wall = now;
    monotonic = clock.monotonic();
    return Math.floor(now);
  };
}

const neverBack = { most: Number.POSITIVE_INFINITY, stepped: () => undefined };

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

/** A sortable id: ten characters of milliseconds, then 16 random characters (80 bits). `[0-9a-z]+`. */
export function newId(now: number): string {
  let time = "";
  for (let rest = now, i = 0; i < 10; i++, rest = Math.floor(rest / 32)) time = alphabet[rest % 32] + time;
  return time + newToken(16);
}

/** Random characters for tokens, five bits each. */
export function newToken(length = 20): string {
  if (used + length > fresh.length) {
    fresh = Buffer.from(randomBytes(Math.max(4096, length)).map((byte) => alphabet.charCodeAt(byte & 31)));
    used = 0;
  }
  used += length;
  return fresh.toString("latin1", used - length, used);
}

/** Random characters, of which the first `used` were given out. Many small system requests would cost more than the rest
 *  of an id. */
let fresh = Buffer.alloc(0);
let used = 0;

/** Changes `ms` by at most `share` of its value in either direction, so that many clients do not retry at once. */
export function jitter(ms: number, share = 0.2): number {
  const spread = (randomBytes(2).readUInt16BE(0) / 65_535) * 2 - 1;
  return Math.max(0, Math.round(ms * (1 + spread * share)));
}

/** A signal with an owner, who ends it. */
export interface SignalScope {
  /** Aborts with the parent, or when `abort` is called. */
  readonly signal: AbortSignal;
  readonly abort: (reason?: unknown) => void;
  /** Releases the parent, and the timers of all limits inside. Call when the work is over; the signal then
   *  stays as it is. */
  readonly end: () => void;
}

/** One object for all timeouts: creating a DOMException captures a stack. The client reads its name. */
const timeIsUp = new DOMException("the time is up", "TimeoutError");
/** What is to be released at the end of the scope to which a signal belongs. */
const releases = new WeakMap<AbortSignal, (() => void)[]>();

/** Starts a piece of work, under `parent` if there is one. */
export function scopeUnder(parent?: AbortSignal): SignalScope {
  const own = new AbortController();
  const inside: (() => void)[] = [];
  releases.set(own.signal, inside);
  if (parent) inside.push(follow(parent, own));
  return {
    signal: own.signal,
    // Null instead of a new DOMException, which captures a stack.
    abort: (reason = null) => own.abort(reason),
    end: () => {
      for (const release of inside.splice(0)) release();
    },
  };
}

/** Waits for `work`, `ms` milliseconds at most. Resolves to whether it has ended; rejects when it has rejected. */
export async function endsWithin(work: Promise<unknown>, ms: number, clock: Pick<Clock, "sleep">): Promise<boolean> {
  const over = new AbortController();
  const late = clock.sleep(ms, over.signal).then(() => false);
  return Promise.race([work.then(() => true), late]).finally(() => over.abort(null));
}

/** Aborts with `parent`, or after `ms` milliseconds. The timer does not keep the process alive. It ends
 *  with the scope of `parent`; without one it runs for its full time. */
export function limited(parent: AbortSignal, ms: number): AbortSignal {
  const own = new AbortController();
  const scope = releases.get(parent);
  const leave = follow(parent, own);
  const cancel = after(ms, () => {
    leave();
    own.abort(timeIsUp);
  });
  if (scope) {
    releases.set(own.signal, scope);
    scope.push(cancel, leave);
  }
  return own.signal;
}

function follow(parent: AbortSignal, own: AbortController): () => void {
  const abort = () => own.abort(parent.reason);
  if (parent.aborted) abort();
  else parent.addEventListener("abort", abort, { once: true });
  return () => parent.removeEventListener("abort", abort);
}
