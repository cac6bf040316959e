// The interactive page: every operation with a form that calls it. Rendered here, with one small script and no build.

import { html, raw } from "hono/html";
import { type Operation, operations } from "../../wire/operations/index.ts";

type Page = ReturnType<typeof html>;

/** `nonce` is the one the response's Content-Security-Policy names. */
export function docsPage(nonce: string): Page {
  const byTag = Map.groupBy(Object.entries<Operation>(operations), ([, { tag }]) => tag);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>AI Agent API 1.0.0</title>
        <style nonce="${nonce}">
          ${raw(style)}
        </style>
      </head>
      <body>
        <h1>AI Agent API <small>1.0.0</small></h1>
        <p>
          The keys stay in this page. The same in machine-readable form:
          <a href="openapi.json">openapi.json</a>.
        </p>
        <form id="keys">
          <label>Agent-Secret-Key <input id="agent" type="password" autocomplete="off" /></label>
          <label>Organization-Secret-Key <input id="organization" type="password" autocomplete="off" /></label>
        </form>
        ${[...byTag].map(
          ([tag, list]) => html`<h2>${tag}</h2>
            ${list.map(([id, operation]) => section(id, operation))}`,
        )}
        <script nonce="${nonce}">
          ${raw(script)}
        </script>
      </body>
    </html>`;
}

function section(id: string, operation: Operation): Page {
  const { method, path, key, summary, query, body, upload } = operation;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");
  const asked = Object.keys(query?.shape ?? {});
  return html`<details id="${id}">
    <summary><b>${method}</b> <code>${path}</code> ${summary}</summary>
    <form class="call" data-method="${method}" data-path="${path}" data-key="${key}">
      ${names.map((name) => html`<label>${name} <input data-in="path" name="${name}" required /></label>`)}
      ${asked.map((name) => html`<label>${name} <input data-in="query" name="${name}" /></label>`)}
      ${body ? html`<label>body (JSON) <textarea data-in="body" rows="6">{}</textarea></label>` : ""}
      ${
        upload
          ? html`<label>file <input data-in="file" type="file" required /></label>
            <label><input data-in="add" type="checkbox" /> add to the assistant</label>`
          : ""
      }
      <button>Send</button>
      <output></output>
    </form>
  </details>`;
}

const style = `
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
details { border: 1px solid #ccc; border-radius: 4px; margin: .5rem 0; padding: .5rem 1rem; }
summary { cursor: pointer; } summary b { display: inline-block; width: 4.5rem; }
label { display: block; margin: .4rem 0; } input:not([type=checkbox]), textarea { font: inherit; width: 100%; box-sizing: border-box; }
output { display: block; white-space: pre-wrap; overflow-wrap: anywhere; font-family: monospace; background: #f4f4f4; padding: .5rem; margin-top: .5rem; }
output:empty { display: none; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } output { background: #282828; } a { color: #8bf; } }
`;

const script = `
for (const form of document.querySelectorAll("form.call")) form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const output = form.querySelector("output");
  output.textContent = "...";
  const { method, path, key } = form.dataset;
  let url = path;
  const query = new URLSearchParams();
  for (const input of form.querySelectorAll("[data-in=path]")) url = url.replace("{" + input.name + "}", encodeURIComponent(input.value));
  for (const input of form.querySelectorAll("[data-in=query]")) if (input.value) query.set(input.name, input.value);
  const headers = {};
  headers[key === "agent" ? "Agent-Secret-Key" : "Organization-Secret-Key"] = document.getElementById(key).value;
  let body;
  const text = form.querySelector("[data-in=body]");
  const file = form.querySelector("[data-in=file]");
  if (text) { body = text.value; headers["content-type"] = "application/json"; }
  if (file) { body = new FormData(); body.set("file", file.files[0]); body.set("autoAddToVectorStore", String(form.querySelector("[data-in=add]").checked)); }
  const base = location.pathname.replace(/\\/api\\/external\\/docs\\/?$/, "");
  try {
    const response = await fetch(base + url + (query.size ? "?" + query : ""), { method, headers, body });
    const answer = await response.text();
    let shown = answer;
    try { shown = JSON.stringify(JSON.parse(answer), null, 2); } catch {}
    output.textContent = response.status + " " + response.statusText + "\\n" + shown;
  } catch (error) { output.textContent = String(error); }
});
document.getElementById("keys").addEventListener("submit", (event) => event.preventDefault());
`;
