// The page behind a link in a notice: what it is about, who has it, and one button. No scripts, nothing from elsewhere.

import { createHash } from "node:crypto";
import { html, raw } from "hono/html";

export interface PageContent {
  readonly title: string;
  /** Label and value, in their order. */
  readonly facts: readonly (readonly [string, string])[];
  readonly words: string;
  /** Null: there is nothing to press. */
  readonly button: string | null;
}

const style = `:root{color-scheme:light dark}
*{box-sizing:border-box}
body{margin:0;padding:1.5rem 1rem;font:1rem/1.5 system-ui,sans-serif;background:Canvas;color:CanvasText}
main{max-width:34rem;margin:0 auto}
h1{font-size:1.4rem;line-height:1.25;margin:0 0 1rem}
dl{margin:0 0 1rem}
dt{font-size:.85rem;opacity:.75}
dd{margin:0 0 .75rem;overflow-wrap:anywhere}
button{width:100%;min-height:3rem;font:inherit;font-weight:600;border:0;border-radius:.5rem;background:#0b5cad;color:#fff}
button:focus-visible{outline:3px solid Highlight;outline-offset:2px}`;

const styleHash = createHash("sha256").update(style).digest("base64");

/** Nothing may be loaded, run, framed or sent elsewhere; nobody keeps it, finds it or learns its address. */
const headers = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${styleHash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  "referrer-policy": "no-referrer",
  "x-robots-tag": "noindex, nofollow, noarchive",
  "x-content-type-options": "nosniff",
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
};

export async function pageResponse(
  status: number,
  { title, facts, words, button }: PageContent,
): Promise<Response> {
  const text = await html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex, nofollow">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<style>${raw(style)}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${facts.length === 0 ? "" : html`<dl>${facts.map(([label, value]) => html`<dt>${label}</dt><dd>${value}</dd>`)}</dl>`}
<p>${words}</p>
${button === null ? "" : html`<form method="post"><button type="submit">${button}</button></form>`}
</main>
</body>
</html>
`;
  return new Response(String(text), { status, headers });
}
