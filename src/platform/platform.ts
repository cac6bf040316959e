// The embedded platform: the External API over HTTP, with one SQLite file as its store. It sends no
// messages to customers; its clients deliver them.

import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock, Log } from "bridgehead/contract";
import { Hono } from "hono";
import { bound, type ListenAddress } from "../ops/address.ts";
import { internalError, modelUnavailable, notFound } from "../wire/record.ts";
import { type AgentDefinition, notDone } from "./agents/definition.ts";
import { Roster } from "./agents/roster.ts";
import { isModelFailure } from "./brain/model.ts";
import { type Patience, standardPatience, watchIdle } from "./conversations/idle.ts";
import { Turns } from "./conversations/turns.ts";
import { docsRoutes } from "./docs/page.ts";
import { Library } from "./files/library.ts";
import { DocumentReader, type ReadingLimits } from "./files/reading.ts";
import { agentRoutes, escalationRoutes, organizationRoutes, userRoutes } from "./routes/agents.ts";
import { conversationRoutes } from "./routes/conversations.ts";
import { bounded, fail, gate, Limiter, type RequestRate, RequestRefused, type RouteEnv } from "./routes/exchange.ts";
import { fileRoutes } from "./routes/files.ts";
import { messageFileRoutes, messageRoutes, signedRoutes } from "./routes/messages.ts";
import { webhookRoutes } from "./routes/webhooks.ts";
import { createHttpServer, type ServerLimits } from "./server.ts";
import { mergeSegments } from "./store/indexes.ts";
import { type Durability, openPlatformStore, type PlatformStore } from "./store/store.ts";
import { Deliveries } from "./webhooks/deliveries.ts";

/** Maximum body size in bytes. The longest documented field is a context of 256,000 characters. */
const maxBodyBytes = 2 * 1024 * 1024;

const uploadPath = "/external/agent-files/upload";

const notDoneMessage = "these skills and settings are kept and served, but do nothing here";

const closeWithinMs = 5_000;

export interface PlatformOptions {
  /** The SQLite file; ":memory:" stores nothing on disk. */
  readonly file: string;
  /** `setting`: the key or option of the address, for the error when it is unavailable. */
  readonly listen: ListenAddress & { readonly setting?: string };
  readonly agents: readonly AgentDefinition[];
  readonly clock: Clock;
  readonly log: Log;
  /** Rate limit for each organization. Default: the interface's 1000 in 60 seconds. */
  readonly rate?: RequestRate;
  /** Allows webhooks to private addresses and over plain http, for receivers on the operator's own machines. */
  readonly allowPrivateWebhooks?: boolean;
  /** The base URL for clients, such as a proxy's https address; the platform's own URLs begin with it.
   *  Default: the URL of each request, which does not show a proxy's https. */
  readonly publicUrl?: string;
  /** Timeouts and size limits for clients. */
  readonly limits?: Partial<ServerLimits>;
  /** Resource limits for parsing an uploaded document. */
  readonly documents?: Partial<ReadingLimits>;
  /** The idle times after which dialogs end and conversations are archived. */
  readonly patience?: Patience;
  /** Default `full`: a write that was acknowledged survives a power failure. */
  readonly durability?: Durability;
}

export type Platform = Awaited<ReturnType<typeof startPlatform>>;

/** Starts the platform. Resolves when it accepts requests. Rejects when the file or the address is unavailable. */
export async function startPlatform(options: PlatformOptions) {
  const { clock, log } = options;
  const store = openPlatformStore(options.file, options.durability ?? "full");
  const stopping = new AbortController();
  try {
    const roster = new Roster(store, options.agents, clock, log);
    for (const agent of roster.all()) {
      const skills = notDone(agent);
      if (skills.length > 0) log.info({ agent: agent.name, skills }, notDoneMessage);
    }
    const documents = new DocumentReader(stopping.signal, options.documents);
    const turns = new Turns({ store, roster, documents, clock, log, signal: stopping.signal });
    const library = new Library(store, clock, documents);
    const app = createApp(options, store, { roster, turns, library }, stopping.signal);
    const server = createHttpServer(app.fetch, clock, options.limits);
    await bound(server, options.listen, options.listen.setting ?? "listen");
    const { signal } = stopping;
    const allowPrivate = options.allowPrivateWebhooks ?? false;
    const deliveries = new Deliveries(store, { clock, log, allowPrivate, signal });
    const delivered = deliveries.run();
    store.commits.onCommit(() => deliveries.wake());
    const patience = options.patience ?? standardPatience;
    const idle = watchIdle(store, roster, { clock, log, patience, signal });
    const merged = mergeSegments(store, { clock, log, signal });
    const resumed = Promise.all([turns.resume(), library.resume()]);
    const { port } = server.address() as AddressInfo;
    const { host } = options.listen;
    /** Refuses new requests, waits for open ones, and closes the file. */
    const close = async () => {
      stopping.abort();
      await Promise.all([closeServer(server, clock), resumed, idle, merged, delivered]);
      await Promise.all([turns.idle(), library.idle()]);
      store.close();
    };
    /** Replaces the agents. Requests in progress are finished with the earlier definitions. Returns a function that puts
     *  the earlier ones in place again. */
    const redefine = (agents: readonly AgentDefinition[]) => roster.redefine(agents);
    return { port, redefine, close, url: `http://${host.includes(":") ? `[${host}]` : host}:${port}` };
  } catch (error) {
    store.close();
    throw error;
  }
}

function createApp(
  options: PlatformOptions,
  store: PlatformStore,
  { roster, turns, library }: { readonly roster: Roster; readonly turns: Turns; readonly library: Library },
  stopping: AbortSignal,
): Hono<RouteEnv> {
  const { clock, log } = options;
  const limiter = new Limiter(options.rate ?? { requests: 1000, perSeconds: 60 });
  const app = new Hono<RouteEnv>();
  app.use(async (c, next) => {
    await next();
    // A keep-alive connection would keep the server from closing.
    if (stopping.aborted) c.header("connection", "close");
  });
  const publicUrl = options.publicUrl?.replace(/\/+$/, "");
  app.use(async (c, next) => {
    c.set("base", publicUrl ?? new URL(c.req.url).origin);
    await next();
  });
  app.get("/api/external/docs", (c) => c.redirect("docs/", 301));
  app.route("/api/external/docs/", docsRoutes());
  app.use("/external/*", gate(roster, limiter, clock));
  const limit = bounded(maxBodyBytes);
  // A document may be larger, and its route has its own limit.
  app.use("/external/*", (c, next) => (c.req.path === uploadPath ? next() : limit(c, next)));
  app.route("/external/agents", agentRoutes(store));
  app.route("/external/agents/webhooks", webhookRoutes(store, clock, options.allowPrivateWebhooks ?? false));
  app.route("/external/agents/escalations", escalationRoutes(store));
  app.route("/external/agents", organizationRoutes(store));
  app.route("/external/agent-files", fileRoutes(store, library));
  app.route("/external/users", userRoutes(store, clock));
  app.route("/external/conversations", conversationRoutes(store, clock));
  app.route("/external/conversations", messageRoutes(store, turns));
  app.route("/external/conversations", messageFileRoutes(store, clock));
  app.route("/message-files", signedRoutes(store, clock));
  app.notFound((c) => fail(c, notFound));
  app.onError((error, c) => {
    if (error instanceof RequestRefused) return fail(c, error.failure, error.headers);
    const { destroyed, complete } = c.env.incoming;
    // A client that disconnects during its request is no error of the server.
    if (c.req.raw.signal.aborted || (destroyed && !complete))
      log.info({ error }, "embedded platform: the client closed the connection");
    else if (isModelFailure(error)) {
      const { model, reason, fix, isPassing, isLasting, afterMs } = error.modelFailure;
      log.error({ agent: c.var.agent.name, model, reason, fix }, "model request failed");
      const message = `${model}: ${reason} (${fix})`;
      if (!isPassing) return fail(c, { ...internalError, name: "MODEL_ERROR", message });
      const wait = afterMs === null ? {} : { "retry-after": String(Math.ceil(afterMs / 1000)) };
      const details = isLasting ? { details: [{ path: "model", message: fix }] } : {};
      return fail(c, { ...modelUnavailable, message, ...details }, wait);
    } else log.error({ error }, "embedded platform request failed");
    return fail(c, internalError);
  });
  return app;
}

/** Closes the server. A client that sends only part of a request must not block the shutdown. */
async function closeServer(server: Server, clock: Clock): Promise<void> {
  const closed = new AbortController();
  const cut = clock.sleep(closeWithinMs, closed.signal).then(() => server.closeAllConnections());
  await new Promise((resolve) => server.close(resolve));
  closed.abort();
  await cut;
}
