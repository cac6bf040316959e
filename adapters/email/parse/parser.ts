// Parsing off the main thread, within limits of time and memory. Whatever a mail does to a worker, the others are parsed.

import type { Clock } from "bridgehead/contract";
import { Lane } from "./lane.ts";
import type { ParseContext, ParseResult } from "./types.ts";

export interface ParserOptions {
  /** Threads at most. Default 1. */
  readonly workers?: number;
  /** Wall-clock milliseconds for one mail. Default 5000. */
  readonly maxMilliseconds?: number;
  /** Megabytes of a worker's JavaScript heap. Default 256. */
  readonly maxHeapMb?: number;
  /** A worker without work ends after this. Default five minutes. */
  readonly idleMilliseconds?: number;
  readonly clock: Clock;
}

export interface Parser {
  /**
   * `raw` is copied, the caller may keep and use it. Rejects only when the signal aborts or the parser is closed; a bad mail is a result.
   */
  parse(raw: Uint8Array, context: ParseContext, signal?: AbortSignal): Promise<ParseResult>;
  /** Ends the workers. Mails in work are rejected. */
  close(): Promise<void>;
}

/** Costs nothing until the first mail: workers start when they are needed and end when they are not. */
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

/** The one parser of the process. Every caller closes what it got; the last one ends the workers. */
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
