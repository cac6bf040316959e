// Serves /api/external/docs/: the description of the interface as JSON, and a page that shows it with Swagger UI. Both
// require no key and contain no data of the caller.

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { Hono } from "hono";
import { html, raw } from "hono/html";
import type { RouteEnv } from "../routes/exchange.ts";
import { describeApi } from "./openapi.ts";

/** The files of Swagger UI that the page loads, with their content types. */
const viewer = { "swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css" };

/** A file of Swagger UI: `npm run build` copies it next to this module; in a checkout it is the package's. */
function viewerFile(name: string): URL {
  const built = new URL(`viewer/${name}`, import.meta.url);
  return existsSync(built) ? built : new URL(name, import.meta.resolve("swagger-ui-dist/package.json"));
}

export function docsRoutes(): Hono<RouteEnv> {
  // Generated on the first request, because most platforms never serve it.
  let description: ReturnType<typeof describeApi> | undefined;
  const app = new Hono<RouteEnv>()
    .get("/openapi.json", (c) => c.json({ ...(description ??= describeApi()), servers: [{ url: c.var.base }] }))
    .get("/", (c) => {
      const nonce = randomBytes(16).toString("base64");
      c.header("content-security-policy", policy(nonce));
      c.header("x-content-type-options", "nosniff");
      c.header("referrer-policy", "no-referrer");
      return c.html(page(nonce));
    });
  // Read once: everyone may request these files, and each response that is not read would keep a copy.
  const read = new Map<string, Buffer<ArrayBuffer>>();
  for (const [name, type] of Object.entries(viewer))
    app.get(`/${name}`, async (c) => {
      const bytes = read.get(name) ?? (await readFile(viewerFile(name)));
      read.set(name, bytes);
      return c.body(bytes, 200, { "content-type": type, "cache-control": "max-age=3600" });
    });
  return app;
}

/** Only the scripts and styles of the page itself, and requests to its own origin. */
const policy = (nonce: string): string =>
  [
    "default-src 'none'",
    `script-src 'nonce-${nonce}'`,
    `style-src 'nonce-${nonce}'`,
    "connect-src 'self'",
    "img-src data:",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; ");

const page = (nonce: string) => html`<!doctype html>
  <html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>AI Agent API</title>
      <link rel="icon" href="data:," />
      <link rel="stylesheet" href="swagger-ui.css" nonce="${nonce}" />
      <style nonce="${nonce}">
        ${raw(style)}
      </style>
    </head>
    <body>
      <noscript>This page requires JavaScript; the description itself is <a href="openapi.json">openapi.json</a>.</noscript>
      <main id="page"></main>
      <script src="swagger-ui-bundle.js" nonce="${nonce}"></script>
      <script nonce="${nonce}">
        ${raw(script)}
      </script>
    </body>
  </html>`;

// Swagger UI has dark colours but does not follow the preference, ignores x-codeSamples, and its filter finds only tags.
const script = String.raw`
"use strict";
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
follow();
dark.addEventListener("change", follow);
const base = location.href.replace(/\/api\/external\/docs\/.*$/s, "");

const samples = ({ React: { createElement: h } }) => (path, method, specSelectors) =>
  (specSelectors.specJson().getIn(["paths", path, method, "x-codeSamples"]) ?? []).map((sample) => {
    const label = sample.get("label");
    return h("div", { key: label },
      h("div", { className: "opblock-section-header" }, h("h4", null, label)),
      h("pre", { className: "microlight sample", tabIndex: 0, role: "region", "aria-label": label },
        sample.get("source").replaceAll("https://platform.example.com", base)));
  });
const additions = (system) => ({
  wrapComponents: {
    responses: (Responses) => (properties) => {
      const { path, method, specSelectors } = properties;
      const h = system.React.createElement;
      return h("div", null, samples(system)(path, method, specSelectors), h(Responses, properties));
    },
  },
  fn: {
    opsFilter: (tags, phrase) => {
      const words = phrase.toLowerCase().split(/\s+/);
      const found = (each) => {
        const { operationId, summary } = each.get("operation").toJS();
        const text = [operationId, each.get("method"), each.get("path"), summary].join(" ").toLowerCase();
        return words.every((word) => text.includes(word));
      };
      return tags.map((tag) => tag.update("operations", (all) => all.filter(found)))
        .filter((tag) => tag.get("operations").size > 0);
    },
  },
});
SwaggerUIBundle({
  url: "openapi.json", dom_id: "#page", plugins: [additions], validatorUrl: null, deepLinking: true, filter: true,
  displayOperationId: true, docExpansion: "list", defaultModelsExpandDepth: 0, tryItOutEnabled: true,
});
`;

const style = `
body { margin: 0; }
html.dark-mode { background: #1c2022; }
.swagger-ui .sample { white-space: pre-wrap; margin: 0 20px 10px; }
.swagger-ui, .swagger-ui pre { overflow-wrap: anywhere; }
.swagger-ui table, .swagger-ui .opblock-body, .swagger-ui .wrapper { min-width: 0; }
:focus-visible { outline: 2px solid #4990e2; outline-offset: 2px; }
`;
