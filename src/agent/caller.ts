// One request to the platform under an agent's key: headers, deadline, reading of the answer. A request is tried
// once; whether to try again is the pipeline's to decide, because only it knows what a second try would do.

import type { Clock, Log } from "bridgehead/contract";
// Only the pool: the whole of undici is a third of an idle daemon's own memory.
import Pool from "undici/lib/dispatcher/pool.js";
import type * as z from "zod";
import { type Dropped, once, type Reading, read } from "../wire/record.ts";
import type { CallResult } from "./calls.ts";
import { exchange } from "./exchange.ts";
import { interpret } from "./interpret.ts";
import { createPlaces } from "./places.ts";

export interface AgentClientOptions {
  /** The platform's base address, with or without a path; operations live under its `/external/`. */
  readonly url: string;
  readonly agentKey: string;
  /** Accepted for operations addressed by an agent's id. None of today's is, so it is never sent. */
  readonly organizationKey?: string;
  /** For one request, from its first byte to the answer's last. Enforced here: a call's signal may end later. */
  readonly timeoutMs: number;
  /** For a connection, before a request can leave: to be opened, or to come free. Default 10 s. */
  readonly connectionWaitMs?: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Connections at most, opened when needed; calls beyond wait. An answer takes its time, so each question under way
   *  holds one. Default 128. */
  readonly connections?: number;
}

interface Operation<T> {
  readonly method: "GET" | "POST";
  /** Below the base address, query included. */
  readonly path: string;
  readonly body?: object;
  readonly signal: AbortSignal;
  /** For effectful operations: called just before the first byte leaves. */
  readonly crossing?: () => void;
  /** The path names something that may not be there: the interface's own 404 is `missing`. */
  readonly mayBeMissing?: true;
  /** The parsed JSON of a success to its value. */
  readonly read: (body: unknown) => Reading<T>;
}

export interface Caller {
  call<T>(operation: Operation<T>): Promise<CallResult<T>>;
  /** Told once about each field the platform sends with a wrong type. */
  readonly dropped: Dropped;
  /** Reads a record and keeps a part of it. */
  as<S extends z.ZodType, T>(schema: S, part: (value: z.output<S>) => T): (body: unknown) => Reading<T>;
  close(): Promise<void>;
}

/** Opens no connection before the first call. Throws when `url` is not an address. */
export function createCaller(options: AgentClientOptions): Caller {
  const base = new URL(options.url);
  const prefix = base.pathname.replace(/\/+$/, "");
  const connectionWaitMs = options.connectionWaitMs ?? 10_000;
  const limit = options.connections ?? 128;
  const pool = new Pool(base.origin, {
    connections: limit,
    // One question a connection: where many share one, they also break together.
    allowH2: false,
    connect: { timeout: connectionWaitMs },
    // The exchange has its own deadline, for the answer as a whole.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  const connections = { pool, places: createPlaces(limit) };
  const dropped = once((record, field) =>
    options.log.warn({ record, field }, "the platform sent a field of the wrong type; it is ignored"),
  );
  const headers = { "agent-secret-key": options.agentKey, accept: "application/json" };
  return {
    dropped,
    async call({ method, path, body, signal, crossing, mayBeMissing, read: readBody }) {
      const result = await exchange(connections, {
        method,
        path: prefix + path,
        headers: body ? { ...headers, "content-type": "application/json" } : headers,
        ...(body ? { body: JSON.stringify(body) } : {}),
        signal,
        connectionWaitMs,
        timeoutMs: options.timeoutMs,
        ...(crossing ? { crossing } : {}),
      });
      return interpret(result, { now: options.clock.now(), mayBeMissing: mayBeMissing ?? false, readBody });
    },
    as: (schema, part) => (body) => {
      const reading = read(schema, body, dropped);
      return reading.ok ? { ok: true, value: part(reading.value) } : reading;
    },
    close: () => pool.destroy(),
  };
}
