// bridgehead/client: a typed client of the External API, usable without the daemon. Every operation is grouped like the
// interface.

import { systemClock } from "../ops/clock.ts";
import {
  type Agents,
  agentsOf,
  type Files,
  filesOf,
  type Users,
  usersOf,
  type Webhooks,
  webhooksOf,
} from "./agents.ts";
import { createCaller } from "./caller.ts";
import { type Conversations, conversationsOf } from "./conversations.ts";
import { methodsOf } from "./operations.ts";
import type { ClientOptions, PlatformAddress } from "./options.ts";

export type { Agents, Files, Upload, Users, Webhooks } from "./agents.ts";
export type { Conversations } from "./conversations.ts";
export type { BodyOf, OperationId, QueryOf } from "./operations.ts";
export type * from "./options.ts";
export { createRate, type RateLimiter, type RateOptions } from "./rate.ts";
export { items, pages } from "./reading.ts";
export { CallFailure, type CallResult, stopped } from "./result.ts";

/** The client. Every operation returns a `CallResult`; none throws. */
export interface Client {
  readonly agents: Agents;
  readonly conversations: Conversations;
  readonly users: Users;
  readonly files: Files;
  readonly webhooks: Webhooks;
  /** Changes `ClientOptions.connections`. Requests in progress are not affected. */
  setConnections(count: number): void;
  /** Keeps an idle connection for a call with `reserved: true` that is about to be made. Returns the function that ends this:
   *  call it when the request has a connection or is not made. Returns null when every open connection is in use. */
  reserve(): (() => void) | null;
  /** Closes the connections. Calls in progress return the same result as after a connection reset. */
  close(): Promise<void>;
}

/** Creates a client. Opens no connection before the first call. Throws when the address is invalid, or
 *  the region has no address. */
export function createClient(options: ClientOptions & PlatformAddress): Client {
  const { clock = systemClock } = options;
  const caller = createCaller({ ...options, clock, url: baseOf(options) });
  const methods = methodsOf(caller);
  return {
    agents: agentsOf(caller, methods),
    conversations: conversationsOf(caller, methods),
    users: usersOf(caller, methods),
    files: filesOf(caller, methods),
    webhooks: webhooksOf(caller, methods),
    setConnections: (count) => caller.setConnections(count),
    reserve: () => caller.reserve(),
    close: () => caller.close(),
  };
}

function baseOf(place: PlatformAddress): string {
  if ("url" in place) return place.url;
  const url = place.urls[place.region];
  if (url === undefined) throw new TypeError(`no address is given for the region ${place.region}`);
  return url;
}
