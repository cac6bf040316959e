// Warns that the server refuses further connections. The connections that are open keep working, so the daemon is only
// slower, and callers that get no connection report the store as unreachable.

import type { Clock, Log } from "bridgehead/contract";

/** SQLSTATE too_many_connections: the limit of the server, of the role or of the database. */
const tooMany = "53300";

const remedy =
  "raise max_connections of the server, or the CONNECTION LIMIT of the role or database, or run fewer nodes: each opens up to 11 connections";

/** One per open store. */
export class RefusedConnections {
  readonly #log: Log | undefined;
  readonly #clock: Clock;
  readonly #episodeMs: number;
  /** Monotonic milliseconds. */
  #last = Number.NEGATIVE_INFINITY;

  /** Refusals that follow each other within `episodeMs` are one episode. */
  constructor(log: Log | undefined, clock: Clock, episodeMs: number) {
    this.#log = log;
    this.#clock = clock;
    this.#episodeMs = episodeMs;
  }

  /** Call with the error of each connection that failed. Warns once per episode. */
  note(error: unknown): void {
    if ((error as { code?: string } | null)?.code !== tooMany) return;
    const now = this.#clock.monotonic();
    if (now - this.#last > this.#episodeMs)
      this.#log?.warn({ err: error, remedy }, "store connection refused: too many connections");
    this.#last = now;
  }
}
