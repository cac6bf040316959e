// The HTML page of a link in a notification, and the link itself: its URL carries a token, the store has the
// token's hash. The page has one button and no scripts, and loads nothing.

import { createHash } from "node:crypto";
import { html, raw } from "hono/html";

export interface PageContent {
  readonly title: string;
  /** Pairs of label and value, in display order. */
  readonly facts: readonly (readonly [string, string])[];
  readonly words: string;
  /** Null when no action is available. */
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

/** Forbids loading, scripts, frames and foreign form targets, and keeps the page out of caches, search
 *  indexes and Referer headers. */
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

/** Path prefix at the listener. */
export const linkPath = "/escalations";

/** Returns the URL of a token; null without a public URL, because the link could not be opened. */
export const linkTo = (publicUrl: string | undefined, token: string): string | null =>
  publicUrl === undefined ? null : `${publicUrl}${linkPath}/${token}`;

/** Returns the stored form of a token. */
export const hashOf = (token: string): string => createHash("sha256").update(token).digest("hex");
