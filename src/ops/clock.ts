// Time, randomness and ids come in through this door; everywhere else they are banned by lint.

import { randomBytes } from "node:crypto";
import type { Clock } from "bridgehead/contract";

/** The machine's clock. */
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
      const timer = setTimeout(done, Math.min(Math.max(ms, 0), 2 ** 31 - 1));
      signal?.addEventListener("abort", done, { once: true });
    }),
};

/** A clock for due times and leases of one process: follows the machine's clock forward, and goes on at its own pace when
 *  that is set back, so that nothing waits twice. */
export function steadyNow(clock: Pick<Clock, "now" | "monotonic">): () => number {
  let wall = clock.now();
  let monotonic = clock.monotonic();
  return () => {
    const steady = wall + (clock.monotonic() - monotonic);
    const now = clock.now();
    if (now <= steady) return Math.floor(steady);
    wall = now;
    monotonic = clock.monotonic();
    return Math.floor(now);
  };
}

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

/** A sortable id: ten characters of milliseconds, then `random` characters (80 bits by default). `[0-9a-z]+`. */
export function newId(now: number, random = 16): string {
  let time = "";
  for (let rest = now, i = 0; i < 10; i++, rest = Math.floor(rest / 32)) time = alphabet[rest % 32] + time;
  return time + newToken(random);
}

/** Unguessable characters, five bits each. */
export function newToken(length = 20): string {
  if (fresh.length < length) fresh = randomBytes(Math.max(4096, length));
  let out = "";
  for (const byte of fresh.subarray(0, length)) out += alphabet[byte & 31];
  fresh = fresh.subarray(length);
  return out;
}

/** Random bytes nobody has used yet: asking the system for a few at a time costs more than all the rest of an id. */
let fresh = Buffer.alloc(0);

/** `ms` moved by at most `share` of itself in either direction, so that many clients do not return at once. */
export function jitter(ms: number, share = 0.2): number {
  const spread = (randomBytes(2).readUInt16BE(0) / 65_535) * 2 - 1;
  return Math.max(0, Math.round(ms * (1 + spread * share)));
}
