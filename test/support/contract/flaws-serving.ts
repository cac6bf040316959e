// Flaws in serving routes.

import { setTimeout as pass } from "node:timers/promises";
import { externalId, type HttpRoute, type InboundEvent, type SocketRoute } from "bridgehead/contract";
import hook, { hookHarness } from "../../contract/hook-adapter.ts";
import { altered, type Flaw, misled, required } from "./flaws.ts";

const flaw = (what: string, definition: Flaw["definition"], caught: Flaw["caught"]): Flaw => ({
  what,
  definition,
  harness: hookHarness,
  caught,
});

const forged = "http: a forged request is 403 and accepts nothing";
const good = "http: a good request is answered 2xx";
const pending = "http: no answer while accept is pending";
const rejected = "http: 5xx when accept rejected";
const sameId = "http: the same request has the same id, another request another";
const upgrade = "socket: a forged upgrade is refused before it happens";

type Handle = HttpRoute["handle"];
const handling = (change: (handle: Handle, request: Request) => Promise<Response>) =>
  altered(hook, ({ routes }) => ({
    routes: required(routes).map((route) =>
      route.kind === "http"
        ? { ...route, handle: (request) => change((one) => route.handle(one), request) }
        : route,
    ),
  }));
const authorizing = (authorize: SocketRoute["authorize"]) =>
  altered(hook, ({ routes }) => ({
    routes: required(routes).map((route) => (route.kind === "socket" ? { ...route, authorize } : route)),
  }));
const renamed = (events: readonly InboundEvent[], id: () => string) =>
  events.map((event) => ({ ...event, id: externalId(id()) }));

export const serveFlaws: readonly Flaw[] = [
  flaw(
    "a forged request is answered 401",
    handling(async (handle, request) => {
      const response = await handle(request);
      return response.status === 403 ? new Response(null, { status: 401 }) : response;
    }),
    { [forged]: /answered 401 to a forged request/ },
  ),
  flaw(
    "a forged request is refused only after it was accepted",
    altered(hook, ({ routes }, channel) => ({
      routes: required(routes).map((route) => {
        if (route.kind !== "http") return route;
        const handle: Handle = async (request) => {
          const response = await route.handle(request);
          if (response.status === 403) await channel.accept([]);
          return response;
        };
        return { ...route, handle };
      }),
    })),
    { [forged]: /accepted a forged request/ },
  ),
  flaw(
    "a good request is answered with a redirect",
    handling(async (handle, request) => {
      const { status } = await handle(request);
      return new Response(null, { status: status === 204 ? 302 : status });
    }),
    { [good]: /answered 302 to a good request/, [pending]: /answered 302 after the commit/ },
  ),
  flaw(
    "the answer does not wait for accept",
    misled(hook, (channel) => ({
      accept: (...given) => Promise.race([channel.accept(...given), pass(20, [])]),
    })),
    { [pending]: /answered 204 while accept was pending/ },
  ),
  flaw(
    "a rejected accept is answered as taken",
    misled(hook, (channel) => ({ accept: (...given) => channel.accept(...given).catch(() => []) })),
    { [rejected]: /answered 204 although accept rejected/ },
  ),
  flaw(
    "a rejected accept is blamed on the provider",
    handling((handle, request) => handle(request).catch(() => new Response(null, { status: 400 }))),
    { [rejected]: /answered 400 although accept rejected/ },
  ),
  flaw(
    "every request gives a new id",
    misled(hook, (channel) => ({
      accept: (events) => channel.accept(renamed(events, () => crypto.randomUUID())),
    })),
    { [sameId]: /gave one request two ids/ },
  ),
  flaw(
    "all requests share one id",
    misled(hook, (channel) => ({ accept: (events) => channel.accept(renamed(events, () => "one")) })),
    { [sameId]: /gave two requests one id/ },
  ),
  flaw(
    "every upgrade is let in",
    authorizing(async () => null),
    { [upgrade]: /let a forged upgrade in/ },
  ),
  flaw(
    "every upgrade is refused",
    authorizing(async () => new Response(null, { status: 401 })),
    { [upgrade]: /answered 401 to a good upgrade/ },
  ),
];
