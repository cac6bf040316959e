// Adapters with one planted flaw each, and the rules of the suite that must catch it: these and no others.

import { readFileSync } from "node:fs";
import net from "node:net";
import { setImmediate as immediate, setTimeout as pass } from "node:timers/promises";
import {
  type Adapter,
  type AdapterDefinition,
  type Attempt,
  type Channel,
  type ChannelStatus,
  cursor,
  externalId,
  type HttpRoute,
  type InboundEvent,
  type SendOutcome,
  type SocketRoute,
} from "bridgehead/contract";
import type { Harness } from "bridgehead/contract/testing";
import * as z from "zod";
import hook, { hookHarness } from "../../contract/hook-adapter.ts";
import line from "../../contract/line-adapter.ts";
import { lineHarness } from "../../contract/line-peer.ts";

export interface Flaw {
  /** What the adapter does wrong. */
  readonly what: string;
  readonly definition: AdapterDefinition;
  readonly harness: Harness;
  /** Every check that fails, by name, and what its message says. */
  readonly caught: { readonly [check: string]: RegExp };
}

export const flaw = (
  what: string,
  definition: Flaw["definition"],
  caught: Flaw["caught"],
  harness: Harness = lineHarness,
): Flaw => ({ what, definition, harness, caught });

/** The line harness for an adapter with `capacity`. */
const { capacity: _unlimited, ...lineLacks } = lineHarness.lacks ?? {};
export const limitedHarness: Harness = { ...lineHarness, lacks: lineLacks };

type Maker = AdapterDefinition["create"];

/** `base` with its `create` replaced by what `change` makes of it. */
const making = (base: AdapterDefinition, change: (create: Maker) => Maker): AdapterDefinition => ({
  ...base,
  create: change((channel, config) => base.create(channel, config)),
});

/** `base` with other parts in place of some of its adapter's. */
export const altered = (
  base: AdapterDefinition,
  change: (adapter: Adapter, channel: Channel) => Partial<Adapter>,
): AdapterDefinition =>
  making(base, (create) => (channel, config) => {
    const adapter = create(channel, config);
    return { ...adapter, ...change(adapter, channel) };
  });

/** `base` talking to a channel that is not quite the one it was given. */
export const misled = (base: AdapterDefinition, change: (channel: Channel) => Partial<Channel>): AdapterDefinition =>
  making(base, (create) => (channel, config) => create({ ...methods(channel), ...change(channel) }, config));

/** The channel's members as a plain object that can be spread. */
export const methods = (channel: Channel): Channel => ({
  id: channel.id,
  log: channel.log,
  clock: channel.clock,
  url: (path) => channel.url(path),
  accept: (events, cursor) => channel.accept(events, cursor),
  addresses: () => channel.addresses(),
  unconfirmed: (since) => channel.unconfirmed(since),
  known: (ids) => channel.known(ids),
  session: (id) => channel.session(id),
  agent: () => channel.agent(),
  identity: () => channel.identity(),
  secrets: channel.secrets,
  report: (status) => channel.report(status),
  warn: (...given) => channel.warn(...given),
});

type Send = (draft: never, attempt: Attempt) => Promise<SendOutcome>;

/** `base` whose `send` goes through `change`. */
export const sending = (
  base: AdapterDefinition,
  change: (send: Send, attempt: Attempt, draft: never) => Promise<SendOutcome>,
): AdapterDefinition =>
  altered(base, ({ outbound }) => ({
    outbound: {
      ...required(outbound),
      send: (draft, attempt) => change((one, other) => required(outbound).send(one, other), attempt, draft as never),
    },
  }));

type Handle = HttpRoute["handle"];

/** The webhook adapter with another `handle`. */
export const handling = (change: (handle: Handle, request: Request, channel: Channel) => Promise<Response>) =>
  altered(hook, ({ routes }, channel) => ({
    routes: required(routes).map((route) => {
      if (route.kind !== "http") return route;
      return { ...route, handle: (request: Request) => change((one) => route.handle(one), request, channel) };
    }),
  }));

export function required<T>(part: T | undefined): T {
  if (part === undefined) throw new Error("the adapter to spoil lacks the part to spoil");
  return part;
}

// Flaws in making an adapter and in reading.

const open = z.object({ host: z.string(), port: z.number() });
const strict = z.strictObject({ host: z.string(), port: z.number() });
const secret = z.string().meta({ secret: true });
const renamed = (events: readonly InboundEvent[], id: () => string) =>
  events.map((event) => ({ ...event, id: externalId(id()) }));

const still = "create: does no I/O and starts no timer";
const strictly = "config: unknown keys are errors";
const states = "inbound: reports connecting, then ready, and stays";
const login = "inbound: reports unauthorized, never ready, when the login is rejected";
const ends = "inbound: run ends within a second of the abort";
const endsSilent = "inbound: run ends within a second of the abort, at a silent peer too";
const acknowledges = "inbound: acknowledges once accept has resolved, never before";
const stays = "inbound: what accept rejected stays with the peer and comes again";
const sameId = "inbound: the same input has the same id, another input another";
const resumes = "inbound: goes on from the last committed cursor";
const comesBack = "inbound: reads on after the peer was away";

type Run = NonNullable<Adapter["inbound"]>["run"];
const running = (change: (run: Run, ...given: Parameters<Run>) => Promise<void>) =>
  altered(line, ({ inbound }) => ({
    inbound: {
      run: (from, signal) => change((...given) => required(inbound).run(...given), from, signal),
    },
  }));
const reporting = (change: (status: ChannelStatus) => readonly ChannelStatus[]) =>
  misled(line, (channel) => ({
    report: (status) => {
      for (const one of change(status)) channel.report(one);
    },
  }));

const shared = new Map<string, Adapter>();

export const makingFlaws: readonly Flaw[] = [
  {
    what: "create opens a connection",
    definition: making(line, (create) => (channel, config) => {
      const { port } = (config as { server: { port: number } }).server;
      net.connect(port, "127.0.0.1").on("error", () => undefined);
      return create(channel, config);
    }),
    harness: lineHarness,
    caught: { [still]: /TCPWRAP/ },
  },
  {
    what: "create starts a timer, a promise later",
    definition: making(line, (create) => (channel, config) => {
      void Promise.resolve().then(() => setTimeout(() => undefined, 10).unref());
      return create(channel, config);
    }),
    harness: lineHarness,
    caught: { [still]: /Timeout/ },
  },
  {
    what: "create reads a file, blocking",
    definition: making(line, (create) => (channel, config) => {
      readFileSync(import.meta.filename);
      return create(channel, config);
    }),
    harness: lineHarness,
    caught: { [still]: /readFileSync\(.*flaws\.ts\)/ },
  },
  {
    what: "create gives two channels one adapter",
    definition: making(line, (create) => (channel, config) => {
      const key = JSON.stringify(config);
      const adapter = shared.get(key) ?? create(channel, config);
      shared.set(key, adapter);
      return adapter;
    }),
    harness: lineHarness,
    caught: { "create: gives every channel an adapter of its own": /two channels one adapter/ },
  },
  {
    what: "the configuration takes any key",
    definition: { ...line, config: z.object({ server: strict, token: secret }) },
    harness: lineHarness,
    caught: { [strictly]: /unknown key at the top/ },
  },
  {
    what: "an inner object of the configuration takes any key",
    definition: { ...line, config: z.strictObject({ server: open, token: secret }) },
    harness: lineHarness,
    caught: { [strictly]: /unknown key in "server"/ },
  },
  {
    what: "an ability is declared lacking that is there",
    definition: line,
    harness: { ...lineHarness, lacks: { ...lineHarness.lacks, reconcile: "we did not feel like it" } },
    caught: { "parts: are those the harness declares": /has reconcile, declared lacking/ },
  },
  {
    what: "capacity() is declared lacking that is there",
    definition: altered(line, ({ outbound }) => ({ outbound: { ...required(outbound), capacity: () => 1 } })),
    harness: lineHarness,
    caught: { "parts: are those the harness declares": /has capacity, declared lacking/ },
  },
  {
    what: "an ability is lacking that is not declared",
    definition: altered(line, ({ inbound }) => ({ inbound: required(inbound), probe: undefined as never })),
    harness: lineHarness,
    caught: {
      "parts: are those the harness declares": /lacks probe, undeclared/,
      "probe: ready when all is well, and changes nothing": /declare "probe" lacking/,
      "probe: unauthorized when the login is rejected": /declare "probe" lacking/,
      "probe: degraded when nobody listens": /declare "probe" lacking/,
    },
  },
  {
    what: "a route goes without a sample",
    definition: altered(hook, ({ routes }) => ({
      routes: required(routes).flatMap((route) => [route, { ...route, path: "/unseen" as const }]),
    })),
    harness: hookHarness,
    caught: { "parts: are those the harness declares": /no sample for the routes POST \/unseen, socket \/unseen/ },
  },
];

export const readingFlaws: readonly Flaw[] = [
  {
    what: "ready is reported without connecting",
    definition: reporting((status) => (status.state === "connecting" ? [] : [status])),
    harness: lineHarness,
    caught: { [states]: /first state reported was ready/ },
  },
  {
    what: "run returns by itself",
    definition: making(line, (create) => (channel, config) => {
      let enough = new AbortController();
      const report = (status: ChannelStatus) => {
        channel.report(status);
        if (status.state === "ready") void pass(50).then(() => enough.abort());
      };
      const { inbound, ...rest } = create({ ...methods(channel), report }, config);
      const run: Run = (from, signal) => {
        enough = new AbortController();
        return required(inbound).run(from, AbortSignal.any([signal, enough.signal]));
      };
      return { ...rest, inbound: { run } };
    }),
    harness: lineHarness,
    caught: { [states]: /nobody aborted it/, [acknowledges]: /in vain for: the acknowledgement/ },
  },
  {
    what: "a rejected login is reported as degraded",
    definition: reporting((status) => [status.state === "unauthorized" ? { ...status, state: "degraded" } : status]),
    harness: lineHarness,
    caught: { [login]: /in vain for: a report of unauthorized/ },
  },
  {
    what: "ready is reported before the login",
    definition: reporting((status) => (status.state === "connecting" ? [status, { state: "ready" }] : [status])),
    harness: lineHarness,
    caught: { [login]: /ready was reported without a login/, [endsSilent]: /ready at a silent peer/ },
  },
  {
    what: "run does not hear the abort",
    definition: running((run, from) => run(from, new AbortController().signal)),
    harness: lineHarness,
    caught: {
      [ends]: /had not ended 1000 ms after/,
      [endsSilent]: /had not ended 1000 ms after/,
      "inbound: run ends when its signal has aborted before": /run had not ended/,
      "inbound: run leaves no connection and no timer behind": /there remained TCPWRAP/,
      "close: ends with its signal, never throws, and leaves no connection and no timer": /there remained TCPWRAP/,
    },
  },
  {
    what: "run does not hear the abort while it connects",
    definition: making(line, (create) => (channel, config) => {
      let deaf = new AbortController();
      let hears = false;
      const report = (status: ChannelStatus) => {
        hears = status.state === "ready";
        channel.report(status);
      };
      const { inbound, ...rest } = create({ ...methods(channel), report }, config);
      const run: Run = (from, signal) => {
        deaf = new AbortController();
        signal.addEventListener("abort", () => hears && deaf.abort());
        return required(inbound).run(from, deaf.signal);
      };
      return { ...rest, inbound: { run } };
    }),
    harness: lineHarness,
    caught: {
      "inbound: run ends when its signal has aborted before": /run had not ended/,
      [endsSilent]: /had not ended 1000 ms after/,
    },
  },
  {
    what: "the acknowledgement does not wait for accept",
    definition: misled(line, (channel) => ({
      // An accept that is not held settles first, on a machine of any speed.
      accept: (...given) => Promise.race([channel.accept(...given), immediate().then(() => immediate([]))]),
    })),
    harness: lineHarness,
    caught: { [acknowledges]: /while accept was pending/ },
  },
  {
    what: "a rejected accept is taken for done",
    definition: misled(line, (channel) => ({
      accept: (...given) => channel.accept(...given).catch(() => []),
    })),
    harness: lineHarness,
    caught: { [stays]: /although accept rejected/, [sameId]: /in vain for: the rejected message once more/ },
  },
  {
    what: "the cursor is committed before the events",
    definition: misled(line, (channel) => ({
      accept: async (events, position) => {
        await channel.accept([], position);
        return channel.accept(events);
      },
    })),
    harness: lineHarness,
    caught: {
      [acknowledges]: /in vain for: a call of accept/,
      [stays]: /in vain for: "rejected \w+", whose accept had been rejected/,
      [sameId]: /in vain for: the rejected message once more/,
    },
  },
  {
    what: "every look gives a message a new id",
    definition: misled(line, (channel) => ({
      accept: (events, position) =>
        channel.accept(
          renamed(events, () => crypto.randomUUID()),
          position,
        ),
    })),
    harness: lineHarness,
    caught: { [sameId]: /one message came under the ids/ },
  },
  {
    what: "ready is not reported again when run is started again",
    definition: misled(line, (channel) => {
      let last = "";
      return {
        report: (status) => {
          if (status.state !== last && (last === "" || status.state !== "connecting")) channel.report(status);
          if (status.state !== "connecting") last = status.state;
        },
      };
    }),
    harness: lineHarness,
    caught: { [resumes]: /ready after run was started again/ },
  },
  {
    what: "all messages share one id",
    definition: misled(line, (channel) => ({
      accept: (events, position) =>
        channel.accept(
          renamed(events, () => "one"),
          position,
        ),
    })),
    harness: lineHarness,
    caught: { [sameId]: /two messages came under the id one/, [stays]: /in vain/, [resumes]: /in vain/ },
  },
  {
    what: "a restarted run skips a message",
    definition: running((run, from, signal) => run(from === null ? null : cursor(String(Number(from) + 1)), signal)),
    harness: lineHarness,
    caught: { [resumes]: /in vain for: "meanwhile \w+", sent while run was down/ },
  },
  {
    what: "run goes to sleep when the line is cut",
    definition: running((run, from, signal) =>
      run(from, signal).catch(() => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()))),
    ),
    harness: lineHarness,
    caught: { [comesBack]: /in vain for: "back \w+"/, [stays]: /in vain/, [sameId]: /in vain/ },
  },
];

// Flaws in serving routes.

const served = (what: string, definition: Flaw["definition"], caught: Flaw["caught"]): Flaw =>
  flaw(what, definition, caught, hookHarness);

const forged = "http: a forged request is 403 and accepts nothing";
const good = "http: a good request is answered 2xx";
const pending = "http: no answer while accept is pending";
const rejected = "http: 5xx when accept rejected";
const sameRequest = "http: the same request has the same id, another request another";
const upgrade = "socket: a forged upgrade is refused before it happens";

const authorizing = (authorize: SocketRoute["authorize"]) =>
  altered(hook, ({ routes }) => ({
    routes: required(routes).map((route) => (route.kind === "socket" ? { ...route, authorize } : route)),
  }));
/** Answers the challenge of a provider, whoever asks. */
const open200: HttpRoute = {
  kind: "http",
  method: "GET",
  path: "/inbound",
  handle: async () => new Response("1"),
};
export const serveFlaws: readonly Flaw[] = [
  served(
    "a forged request is answered 401",
    handling(async (handle, request) => {
      const response = await handle(request);
      return response.status === 403 ? new Response(null, { status: 401 }) : response;
    }),
    { [forged]: /answered 401 to a forged request/ },
  ),
  served(
    "a forged request is refused only after it was accepted",
    handling(async (handle, request, channel) => {
      const response = await handle(request);
      if (response.status === 403) await channel.accept([]);
      return response;
    }),
    { [forged]: /accepted a forged request/ },
  ),
  served(
    "a good request is answered with a redirect",
    handling(async (handle, request) => {
      const { status } = await handle(request);
      return new Response(null, { status: status === 204 ? 302 : status });
    }),
    {
      [good]: /answered 302 to a good request/,
      "http: a good request is answered 2xx behind a proxy": /answered 302/,
      [pending]: /answered 302 after the commit/,
    },
  ),
  served(
    "the answer does not wait for accept",
    misled(hook, (channel) => ({
      accept: (...given) => Promise.race([channel.accept(...given), immediate().then(() => immediate([]))]),
    })),
    { [pending]: /answered 204 while accept was pending/ },
  ),
  served(
    "a rejected accept is answered as taken",
    misled(hook, (channel) => ({ accept: (...given) => channel.accept(...given).catch(() => []) })),
    { [rejected]: /answered 204 although accept rejected/ },
  ),
  served(
    "a rejected accept is blamed on the provider",
    handling((handle, request) => handle(request).catch(() => new Response(null, { status: 400 }))),
    { [rejected]: /answered 400 although accept rejected/ },
  ),
  served(
    "every request gives a new id",
    misled(hook, (channel) => ({
      accept: (events) => channel.accept(renamed(events, () => crypto.randomUUID())),
    })),
    { [sameRequest]: /gave one request two ids/ },
  ),
  served(
    "all requests share one id",
    misled(hook, (channel) => ({ accept: (events) => channel.accept(renamed(events, () => "one")) })),
    { [sameRequest]: /gave two requests one id/ },
  ),
  served(
    "every upgrade is let in",
    authorizing(async () => null),
    { [upgrade]: /let a forged upgrade in/ },
  ),
  served(
    "every upgrade is refused",
    authorizing(async () => new Response(null, { status: 401 })),
    { [upgrade]: /answered 401 to a good upgrade/ },
  ),
  flaw(
    "a GET is open that shares its path with a signed POST",
    altered(hook, ({ routes }) => ({ routes: [open200, ...required(routes)] })),
    { [forged]: /^\/inbound answered 200 to a forged request/ },
    {
      ...hookHarness,
      async start() {
        const peer = await hookHarness.start();
        const get = () => new Request("https://bridge.example/channels/test-channel/inbound?challenge=1");
        const sample = { path: "/inbound", accepts: false, good: get, forged: get } as const;
        return { ...peer, requests: (url) => [...(peer.requests?.(url) ?? []), sample] };
      },
    },
  ),
];
