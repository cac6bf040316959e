// What a client is made with, and what each of its calls may be given.

import type { Clock } from "bridgehead/contract";
import type { Dropped } from "../wire/record.ts";
import type { Rate } from "./rate.ts";

/** The regions of the service (External API 1). Each has its own base address, which you know from your contract. */
export type Region = "us" | "eu";

/** Where the platform is: its base address, with or without a path (operations live under its `/external/`), or the
 *  addresses by region and the region meant. */
export type Place =
  | { readonly url: string }
  | { readonly region: Region; readonly urls: { readonly [region in Region]?: string } };

export interface ClientOptions {
  /** `Agent-Secret-Key`: everything but the two operations that name an agent in their path. */
  readonly agentKey?: string;
  /** `Organization-Secret-Key`: `agents.usersOf` and `agents.platformUsersOf`. */
  readonly organizationKey?: string;
  /** For one request, from its first byte to the answer's last. An agent's answer takes its time: 60 s is not much. */
  readonly timeoutMs: number;
  /** For a connection, before a request can leave: to be opened, or to come free. Default 10 s. */
  readonly connectionWaitMs?: number;
  /** Requests under way at most, each over a connection of its own that is opened when needed; requests beyond wait. A question
   *  occupies one until its answer has arrived. Default 128. */
  readonly connections?: number;
  /** How often a request is sent at most, where a second try is safe: reads, and what certainly was not done. Default 3;
   *  1 never tries again. A call with `crossing` is tried once. */
  readonly tries?: number;
  /** Requests wait for their turn. Without it they leave at once, and 429 tells when it was too many. */
  readonly rate?: Rate;
  /** Told once about each field that came with a wrong type and was left out. */
  readonly dropped?: Dropped;
  /** Default: the machine's. */
  readonly clock?: Clock;
}

export interface CallOptions {
  /** Ends the call: `deferred` when nothing has left, else `unknown`. */
  readonly signal?: AbortSignal;
  /** In place of the client's `timeoutMs`. */
  readonly timeoutMs?: number;
  /** Called when a connection is available, before the first byte is written. A request with a body waits for the promise, for
   *  example until the attempt is recorded. An error or rejection keeps the request from being sent (`deferred`). */
  readonly crossing?: () => void | Promise<void>;
}
