// Serves /api/external/docs/: the description of the interface, as a page and as JSON. It requires no key.

import { Hono } from "hono";
import type { Env } from "../routes/exchange.ts";
import { describeApi } from "./openapi.ts";
import { docsPage, pagePolicy } from "./page.ts";
import type { Description } from "./shape.ts";

export function docsRoutes(): Hono<Env> {
  // Generated on the first request, because most platforms never serve it.
  let description: ReturnType<typeof describeApi> | undefined;
  let page: Promise<string> | undefined;
  const described = () => (description ??= describeApi());
  const rendered = () =>
    (page ??= Promise.resolve(docsPage(described() as unknown as Description)).then(String));
  return new Hono<Env>()
    .get("/openapi.json", (c) => c.json({ ...described(), servers: [{ url: c.var.base }] }))
    .get("/", async (c) => {
      c.header("content-security-policy", pagePolicy);
      c.header("x-content-type-options", "nosniff");
      c.header("referrer-policy", "no-referrer");
      return c.html(await rendered());
    });
}
