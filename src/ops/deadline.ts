// Abort signals with a parent and a time limit. `AbortSignal.any` and `AbortSignal.timeout` keep every
// signal until its time is over, which costs more memory and garbage collection than the work itself.

import { after } from "./clock.ts";

/** A signal with an owner, who ends it. */
export interface Scope {
  /** Aborts with the parent, or when `abort` is called. */
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
  /** Releases the parent, and the timers of all limits inside. Call when the work is over; the signal then
   *  stays as it is. */
  end(): void;
}

/** One object for all timeouts: creating a DOMException captures a stack. The client reads its name. */
const timeIsUp = new DOMException("the time is up", "TimeoutError");
/** What is to be released at the end of the scope to which a signal belongs. */
const releases = new WeakMap<AbortSignal, (() => void)[]>();

/** Starts a piece of work, under `parent` if there is one. */
export function scopeUnder(parent?: AbortSignal): Scope {
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
