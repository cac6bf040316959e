// The client of the External API: every operation, grouped as the interface groups them.

import { systemClock } from "../ops/clock.ts";
import { type Agents, agentsOf } from "./agents.ts";
import { createCaller } from "./caller.ts";
import { type Conversations, conversationsOf } from "./conversations.ts";
import { type Files, filesOf } from "./files.ts";
import type { ClientOptions, Place } from "./options.ts";
import { type Users, usersOf } from "./users.ts";
import { type Webhooks, webhooksOf } from "./webhooks.ts";

/** Every operation gives a `CallResult`; none throws. */
export interface Client {
  readonly agents: Agents;
  readonly conversations: Conversations;
  readonly users: Users;
  readonly files: Files;
  readonly webhooks: Webhooks;
  /** Changes `ClientOptions.connections`. Requests under way are not affected. */
  setConnections(count: number): void;
  /** Ends the connections; calls still open come back as they would on a reset. */
  close(): Promise<void>;
}

/** Opens no connection before the first call. Throws when the address is none, or the region has none. */
export function createClient(options: ClientOptions & Place): Client {
  const { clock = systemClock } = options;
  const caller = createCaller({ ...options, clock, url: baseOf(options) });
  return {
    agents: agentsOf(caller),
    conversations: conversationsOf(caller),
    users: usersOf(caller),
    files: filesOf(caller),
    webhooks: webhooksOf(caller),
    setConnections: (count) => caller.setConnections(count),
    close: () => caller.close(),
  };
}

function baseOf(place: Place): string {
  if ("url" in place) return place.url;
  const url = place.urls[place.region];
  if (url === undefined) throw new TypeError(`no address is given for the region ${place.region}`);
  return url;
}
