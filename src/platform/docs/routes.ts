// /api/external/docs/: the interface described, for people and for machines. No key is needed to read it.

import { randomBytes } from "node:crypto";
import { Hono } from "hono";
import { describeApi } from "./openapi.ts";
import { docsPage } from "./page.ts";

/** Where a request came in, without the page's own path. */
const baseOf = (url: string): string => url.replace(/\/api\/external\/docs\/.*$/s, "");

export function docsRoutes(): Hono {
  return new Hono()
    .get("/openapi.json", (c) => c.json(describeApi(baseOf(c.req.url))))
    .get("/", (c) => {
      const nonce = randomBytes(16).toString("base64");
      c.header(
        "content-security-policy",
        `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'`,
      );
      c.header("x-content-type-options", "nosniff");
      c.header("referrer-policy", "no-referrer");
      return c.html(docsPage(nonce));
    });
}
