// Starts the web console on a port of its own. Its routes and pages are loaded at the first request: loading them would delay
// the first answers of a daemon, and most daemons run for weeks without a request to the console.

import { limitConnections, limitedServer, urlOf } from "../http/listener.ts";
import { bound, type ListenAddress } from "../ops/address.ts";
import type { ConsoleContext, ConsolePage } from "./page.ts";

export interface ConsoleOptions {
  readonly context: ConsoleContext;
  readonly listen: ListenAddress;
  /** URL under which a reverse proxy serves the console; absent without one. */
  readonly publicUrl?: string | undefined;
  /** Pages in addition to the standard ones. */
  readonly pages?: readonly ConsolePage[];
}

/** Live updates take up to 100 of them. */
const mostConnections = 300;

export type WebConsole = Awaited<ReturnType<typeof startConsole>>;

/** Resolves when the port is bound. Rejects, with the configuration key, when it is not free. */
export async function startConsole(options: ConsoleOptions) {
  const { context, listen, publicUrl } = options;
  const load = async () => (await import("./server.ts")).createConsole(options);
  let loading: ReturnType<typeof load> | undefined;
  const routes = () => (loading ??= load());
  const server = limitedServer({ fetch: async (request) => (await routes()).fetch(request) }, context.timing.http);
  limitConnections(server, mostConnections);
  await bound(server, listen, "console.listen");
  const address = urlOf(server);
  return {
    /** The public URL, or `address`. */
    url: publicUrl ?? address,
    /** URL of the listener. */
    address,
    routes,
    /** Ends all connections, including live updates. */
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
