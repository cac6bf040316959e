// What monitors ask: /healthz (the process and its loop live), /readyz (it can do its work), /metrics.

import type { Hono } from "hono";

export interface Readiness {
  readonly ready: boolean;
  /** Shown as it is: channels, store, oldest waiting item. */
  readonly [detail: string]: unknown;
}

export function healthRoutes(
  app: Hono,
  options: {
    ready(): Promise<Readiness>;
    metrics(): Promise<{ readonly contentType: string; readonly body: string }>;
  },
): void {
  app.get("/healthz", (context) => context.json({ status: "ok" }));
  app.get("/readyz", async (context) => {
    const readiness = await options.ready();
    return context.json(readiness, readiness.ready ? 200 : 503);
  });
  app.get("/metrics", async (context) => {
    const { contentType, body } = await options.metrics();
    return context.body(body, 200, { "content-type": contentType });
  });
}
