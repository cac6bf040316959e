// Batches of messages that are downloaded, parsed and committed together, and the memory that the batches of all mailboxes
// share between download and commit.

import type { Fetched, Listed } from "./mailbox.ts";

export interface Batch {
  readonly listed: readonly Listed[];
  /** Present when listing and bytes came in one response. */
  readonly fetched?: readonly Fetched[];
  /** The connection has ended during the request for it: the batches before it are committed first. */
  readonly alone?: true;
}

/** Three batches of a mailbox fit into memory at this size, and one commit still covers many messages. */
const batchCount = 50;
const batchBytes = 4_000_000;

/** Splits a listing into batches, by number of messages and by size. A larger message is a batch of its own, and so is one
 *  during whose request a connection has ended, behind all others. `endsOf`: how many connections. */
export function batchesOf(listed: readonly Listed[], endsOf: (one: Listed) => number = () => 0): Batch[] {
  const batches: { listed: Listed[]; alone?: true }[] = [];
  let bytes = 0;
  for (const one of listed.toSorted((a, b) => endsOf(a) - endsOf(b))) {
    const last = batches.at(-1);
    if (endsOf(one) > 0) batches.push({ listed: [one], alone: true });
    else if (last === undefined || last.listed.length >= batchCount || bytes + one.size > batchBytes) {
      batches.push({ listed: [one] });
      bytes = one.size;
    } else {
      last.listed.push(one);
      bytes += one.size;
    }
  }
  return batches;
}

/** A number of bytes that users take in the order of their requests. */
export class SharedBytes {
  readonly #most: number;
  #used = 0;
  readonly #waiting: { readonly bytes: number; readonly grant: () => void }[] = [];

  constructor(most: number) {
    this.#most = most;
  }

  /** Resolves when the bytes are free, with the function that returns them. A request for more than all of them waits
   *  until all are free. Rejects when the signal aborts before. */
  take(bytes: number, signal: AbortSignal): Promise<() => void> {
    const wanted = Math.min(bytes, this.#most);
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const request = {
        bytes: wanted,
        grant: () => {
          signal.removeEventListener("abort", leave);
          resolve(() => {
            this.#used -= wanted;
            this.#grant();
          });
        },
      };
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(request), 1);
        reject(signal.reason as Error);
        this.#grant();
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.push(request);
      this.#grant();
    });
  }

  #grant(): void {
    for (let next = this.#waiting[0]; next && this.#used + next.bytes <= this.#most; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#used += next.bytes;
      next.grant();
    }
  }
}

/** A message takes several times its size until it is committed. Large messages wait only for one another: a slow server
 *  that sends some delays the usual mail of no other mailbox. */
const memory = { large: new SharedBytes(64_000_000), usual: new SharedBytes(64_000_000) };

/** Resolves when there is memory for the messages of a batch, with the function that frees it. `most`: how much of a message
 *  is downloaded, in bytes. Rejects when the signal aborts before. */
export function takeMemory(batch: readonly Listed[], most: number, signal: AbortSignal): Promise<() => void> {
  const bytes = batch.reduce((all, { size }) => all + Math.min(size, most), 0);
  return memory[bytes > batchBytes ? "large" : "usual"].take(bytes, signal);
}
