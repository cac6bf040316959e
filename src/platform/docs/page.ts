// The interactive page, rendered from the description: a guide, every operation with a form that calls it,
// every record. It is one file without a build step and loads no resources. Its policy allows only its own
// style and script, by their hashes.

import { createHash } from "node:crypto";
import { Hono } from "hono";
import { html, raw } from "hono/html";
import type { RouteEnv } from "../routes/exchange.ts";
import { script, style } from "./assets.ts";
import { guide, guideSections } from "./guide.ts";
import { describeApi } from "./openapi.ts";
import {
  type Description,
  type Html,
  isRecord,
  jsonView,
  operationView,
  type Placed,
  prose,
  schemaView,
} from "./views.ts";

const hash = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

/** The Content-Security-Policy of the page. It allows the page's own style and script, and requests to
 *  its own origin. */
const pagePolicy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "connect-src 'self'",
  "img-src data:",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

/** Renders the page. It is the same for every request and contains no data of the caller. */
function docsPage(description: Description): Html {
  const { info, paths, tags, components } = description;
  const operations: Placed[] = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ ...operation, method, path })),
  );
  const byTag = tags.map((tag) => ({
    ...tag,
    list: operations.filter(({ tags: [own] }) => own === tag.name),
  }));
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${info.title} ${info.version}</title>
        <link rel="icon" href="data:," />
        ${raw(`<style>${style}</style>`)}
      </head>
      <body>
        <a class="skip" href="#content">To the content</a>
        <header>
          <h1>${info.title} <small>${info.version}</small></h1>
          <p>${info.description}</p>
          <p>
            At <code class="origin">https://platform.example.com</code>. For machines:
            <a href="openapi.json">openapi.json</a>.
          </p>
        </header>
        <aside aria-label="Keys and contents">${keyForm} ${contents(byTag)}</aside>
        <main id="content" tabindex="-1">
          <noscript><p>Without JavaScript this page can be read, but sends nothing.</p></noscript>
          ${guide(description)}
          <section id="operations">
            <h2>Operations</h2>
            <label class="find"><span>Find an operation</span> <input id="find" type="search" autocomplete="off" /></label>
            <p id="none" hidden>No operation has these words.</p>
            ${byTag.map(
              ({ name, description: words, list }) =>
                html`<section class="tag" id="tag-${name}">
                  <h3>${name}</h3>
                  <p>${words}</p>
                  ${list.map((operation) => operationView(operation, components.schemas))}
                </section>`,
            )}
          </section>
          ${recordsView(components.schemas)}
        </main>
        ${raw(`<script>${script}</script>`)}
      </body>
    </html>`;
}

function recordsView(schemas: Description["components"]["schemas"]): Html {
  const records = Object.entries(schemas).filter(([name]) => isRecord(name));
  return html`<section id="records">
    <h2>Records</h2>
    <p>Further fields may come to any record: read past those you do not know.</p>
    ${records.map(
      ([name, schema]) =>
        html`<details class="record" id="record-${name}">
          <summary><h3>${name}</h3></summary>
          ${schemaView(schema, schemas)}
          ${schema.examples ? html`<p>Example</p>${jsonView(schema.examples[0], `Example of ${name}`)}` : ""}
        </details>`,
    )}
  </section>`;
}

const keyForm = html`<form id="key-form">
  <label><span>Agent-Secret-Key</span> <input id="key-agent" type="password" autocomplete="off" aria-describedby="key-hint" /></label>
  <label
    ><span>Organization-Secret-Key</span>
    <input id="key-organization" type="password" autocomplete="off" aria-describedby="key-hint"
  /></label>
  <p class="hint" id="key-hint">
    Sent with your calls to this server and to nobody else; forgotten when you leave the page.
  </p>
</form>`;

function contents(byTag: readonly { readonly name: string; readonly list: readonly Placed[] }[]): Html {
  return html`<nav aria-label="Contents">
    <details id="contents" open>
      <summary>Contents</summary>
      <ul>
        ${Object.entries(guideSections).map(([id, words]) => html`<li><a href="#${id}">${words}</a></li>`)}
        ${byTag.map(
          ({ name, list }) =>
            html`<li>
              <a href="#tag-${name}">${prose(name)}</a>
              <ul>
                ${list.map(
                  ({ operationId, method }) =>
                    html`<li>
                      <a href="#${operationId}">${operationId} <span class="verb">${method.toUpperCase()}</span></a>
                    </li>`,
                )}
              </ul>
            </li>`,
        )}
        <li><a href="#records">Records</a></li>
      </ul>
    </details>
  </nav>`;
}

// Serves /api/external/docs/: the description of the interface, as a page and as JSON. It requires no key.

export function docsRoutes(): Hono<RouteEnv> {
  // Generated on the first request, because most platforms never serve it.
  let description: ReturnType<typeof describeApi> | undefined;
  let page: Promise<string> | undefined;
  const described = () => (description ??= describeApi());
  const rendered = () =>
    (page ??= Promise.resolve(docsPage(described() as unknown as Description)).then(String));
  return new Hono<RouteEnv>()
    .get("/openapi.json", (c) => c.json({ ...described(), servers: [{ url: c.var.base }] }))
    .get("/", async (c) => {
      c.header("content-security-policy", pagePolicy);
      c.header("x-content-type-options", "nosniff");
      c.header("referrer-policy", "no-referrer");
      return c.html(await rendered());
    });
}
