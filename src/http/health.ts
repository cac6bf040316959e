// Health endpoints. The public listener reports only whether the daemon runs (/healthz) and can work
// (/readyz). Reasons, channels, escalations and metrics are served on the admin listener. The listener
// decides, never the peer's address or the Host header: behind a proxy on the same machine every request
// comes from loopback. `askHealth` checks that the listener answers, over a real connection like a monitor.

import { request } from "node:http";
import type { Clock } from "bridgehead/contract";
import { Hono } from "hono";

export interface Readiness {
  readonly ready: boolean;
  /** Shown unchanged on the admin listener: channels, store, oldest waiting item. */
  readonly [detail: string]: unknown;
}

export interface HealthOptions {
  /** Data of /readyz. */
  ready(): Promise<Readiness>;
  metrics(): Promise<{ readonly contentType: string; readonly body: string }>;
}

/** Public routes, without reasons and names. A response of /readyz is cached for `reuseMs`, because it
 *  is unauthenticated and costs a write to the store. */
export function publicHealth(
  app: Hono,
  options: Pick<HealthOptions, "ready"> & { readonly clock: Clock },
  reuseMs: number,
): void {
  let last: { readonly readiness: Promise<Readiness>; readonly at: number } | null = null;
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", async (context) => {
    const now = options.clock.monotonic();
    if (last === null || now - last.at >= reuseMs) last = { readiness: options.ready(), at: now };
    const { ready } = await last.readiness;
    return context.json({ ready }, ready ? 200 : 503);
  });
}

/** Returns the admin listener's routes. */
export function adminHealth(options: HealthOptions): Hono {
  const app = new Hono();
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", async (context) => {
    const readiness = await options.ready();
    return context.json(readiness, readiness.ready ? 200 : 503);
  });
  app.get("/metrics", async (context) => {
    const { contentType, body } = await options.metrics();
    return context.body(body, 200, { "content-type": contentType });
  });
  return app;
}

/** Resolves when `url`'s /healthz answers 200. Rejects when it does not, or when the signal aborts. */
export function askHealth(url: string, signal: AbortSignal): Promise<void> {
  const target = new URL("/healthz", url);
  // A listener on all addresses must answer on loopback too.
  if (target.hostname === "0.0.0.0") target.hostname = "127.0.0.1";
  if (target.hostname === "[::]") target.hostname = "[::1]";
  return new Promise((resolve, reject) => {
    const asking = request(target, { signal, agent: false }, (response) => {
      response.resume();
      response.once("error", reject);
      response.once("end", () => {
        if (response.statusCode === 200) resolve();
        else reject(new Error(`asking the own listener: it answers ${response.statusCode}`));
      });
    });
    asking.once("error", (cause) => reject(new Error("asking the own listener", { cause })));
    asking.end();
  });
}
