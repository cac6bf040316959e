// Parses messages in worker threads, with limits on time and memory. A message that crashes its worker does
// not affect the others.

import type { Clock } from "bridgehead/contract";
import { Lane } from "./lane.ts";
import type { ParseContext, ParseResult } from "./types.ts";

export interface ParserOptions {
  /** Maximum number of worker threads. Default 1. */
  readonly workers?: number;
  /** Timeout for one message in wall-clock ms. Default 5000. */
  readonly maxMilliseconds?: number;
  /** JavaScript heap of a worker in megabytes. Default 256. */
  readonly maxHeapMb?: number;
  /** An idle worker ends after this time in ms. Default five minutes. */
  readonly idleMilliseconds?: number;
  readonly clock: Clock;
}

export interface Parser {
  /** Parses one message. `raw` is copied; the caller may keep and use it. Rejects only when the signal
   *  aborts or the parser is closed; a malformed message returns a result. */
  parse(raw: Uint8Array, context: ParseContext, signal?: AbortSignal): Promise<ParseResult>;
  /** Ends the workers. Pending requests are rejected. */
  close(): Promise<void>;
}

/** Creates a parser without starting a worker. Workers start with the first message and end when idle. */
export function createParser(options: ParserOptions): Parser {
  const lanes = Array.from(
    { length: Math.max(1, options.workers ?? 1) },
    () =>
      new Lane({
        clock: options.clock,
        maxMilliseconds: options.maxMilliseconds ?? 5000,
        maxHeapMb: options.maxHeapMb ?? 256,
        idleMilliseconds: options.idleMilliseconds ?? 300_000,
      }),
  );
  return {
    parse(raw, context, signal) {
      const [first, ...others] = lanes;
      const lane = others.reduce(
        (best, other) => (other.load < (best?.load ?? 0) ? other : best),
        first,
      ) as Lane;
      return lane.parse(raw, context, signal);
    },
    async close() {
      await Promise.all(lanes.map((lane) => lane.close()));
    },
  };
}

let shared: { parser: Parser; users: number } | null = null;

/** Returns the shared parser of the process. Every caller closes the handle it received; the last close
 *  ends the workers. */
export function sharedParser(clock: Clock): Parser {
  shared ??= { parser: createParser({ clock }), users: 0 };
  const used = shared;
  used.users++;
  let open = true;
  return {
    parse: (raw, context, signal) =>
      open
        ? used.parser.parse(raw, context, signal)
        : Promise.reject(new Error("parse mail: the parser is closed")),
    async close() {
      if (!open) return;
      open = false;
      if (--used.users > 0) return;
      if (shared === used) shared = null;
      await used.parser.close();
    },
  };
}
