// Renders the agent's Markdown, and plain text, as simple HTML and as readable text. Agent text never reaches a mail
// client as its own markup: raw HTML is escaped, links are http, https or mailto, and images are replaced with
// their names. markdown-it parses in linear time and limits nesting. marked was quadratic on emphasis and
// overflowed the stack on nested lists and quotes. Long Markdown is rendered in a worker thread with a time and a
// memory limit; this file is the worker's entry point as well.

import { createRequire } from "node:module";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { type Clock, type Json, type MarkdownStyle, markdownText } from "bridgehead/contract";
import type MarkdownIt from "markdown-it";
import type { Token } from "markdown-it";

/** A message body in both forms, as a draft stores it. */
export interface Rendered {
  readonly text: string;
  readonly html: string;
}

/** Markdown longer than this many characters is sent as plain text. Parsing any text up to this limit
 *  takes less than 50 ms. */
export const markdownLimit = 12_000;

const allowedLink = /^(https?:\/\/|mailto:)[^\s<>"']+$/i;

const require = createRequire(import.meta.url);
let loaded: ReturnType<typeof load> | null = null;

/** Returns the parser. Loads it for the first text, to save memory while there is none. */
const markdownIt = () => (loaded ??= load());

function load() {
  const Parser = require("markdown-it") as typeof MarkdownIt;
  const parser = new Parser({ html: false, breaks: true, linkify: true });
  parser.linkify.set({ fuzzyLink: false, fuzzyIP: false });
  // Every link is parsed. Links with other schemes lose their address below instead of appearing as Markdown
  // source.
  parser.validateLink = () => true;
  parser.core.ruler.push("allowed_links", ({ tokens }) => {
    for (const { children } of tokens) {
      let dropped = false;
      for (const token of children ?? []) {
        if (token.type === "link_open") dropped = !allowedLink.test(String(token.attrGet("href") ?? ""));
        if (dropped && (token.type === "link_open" || token.type === "link_close")) {
          token.type = "text";
          token.content = "";
        }
      }
    }
  });
  Object.assign(parser.renderer.rules, {
    image: (tokens: Token[], at: number) => escapeHtml(tokens[at]?.content ?? ""),
    softbreak: () => "<br>",
    hardbreak: () => "<br>",
  });
  return parser;
}

/** Returns both forms of a Markdown text. The HTML is a fragment, without html or body elements. A text longer than `limit`
 *  characters, or one that fails to render, is returned as plain text. */
export function renderMarkdown(markdown: string, limit = markdownLimit): Rendered {
  if (markdown.length > limit) return renderPlain(markdown);
  try {
    const parser = markdownIt();
    const tokens = parser.parse(markdown, {});
    return {
      text: markdownText(tokens, style),
      html: parser.renderer.render(tokens, parser.options, {}).trim(),
    };
  } catch {
    return renderPlain(markdown);
  }
}

/** Returns both forms of plain text. Characters, line breaks and indentation are unchanged. In HTML, web
 *  addresses become links, and lines that begin with ">" become one level of quotation; no other markup
 *  is interpreted. */
export function renderPlain(plain: string): Rendered {
  const text = plain.replace(/\r\n?/g, "\n");
  const parts: { readonly quoted: boolean; readonly lines: string[] }[] = [];
  for (const line of text.split("\n")) {
    const quoted = line.startsWith(">");
    const last = parts.at(-1);
    const shown = quoted ? line.replace(/^> ?/, "") : line;
    if (last?.quoted === quoted) last.lines.push(shown);
    else parts.push({ quoted, lines: [shown] });
  }
  const html = parts
    .map(({ quoted, lines }) => ({ quoted, inside: linesHtml(lines.join("\n")) }))
    .filter(({ inside }) => inside !== "")
    .map(({ quoted, inside }) => (quoted ? `<blockquote>${inside}</blockquote>` : `<p>${inside}</p>`));
  return { text, html: html.join("\n") };
}

const linesHtml = (text: string): string =>
  text
    .replace(/^\n+/, "")
    .trimEnd()
    .split(/(https?:\/\/[^\s<>"']+)/i)
    .map((part, at) => (at % 2 === 0 ? escapeHtml(part) : webLink(part)))
    .join("")
    .replace(/^ +/gm, (spaces) => "&nbsp;".repeat(spaces.length))
    .replaceAll("\n", "<br>\n");

/** Returns the link without punctuation at its end, which belongs to the sentence. */
function webLink(found: string): string {
  let end = found.length;
  while (end > 0 && ".,;:!?)]}*_".includes(found[end - 1] ?? "")) end -= 1;
  const url = escapeHtml(found.slice(0, end));
  return `<a href="${url}">${url}</a>${escapeHtml(found.slice(end))}`;
}

/** Emphasis signs are removed, the address follows its link, lists and code keep their layout. */
const style: MarkdownStyle = {
  rule: "* * *\n\n",
  code: (content) => `${indent(content.replace(/\n$/, ""), "    ")}\n\n`,
  quote: (text) => indent(text, "| "),
  item: (sign, text) => sign + indent(text, " ".repeat(sign.length)).trimStart(),
  table: (rows) => rows.map((cells) => `${cells.join(" | ")}\n`).join(""),
  link: (label, href) => {
    const bare = href.replace(/^mailto:/i, "");
    return label === href || label === bare ? label : `${label} (${bare})`;
  },
  html: (source) => source,
};

/** Escapes text for HTML elements and quoted attributes. */
export function escapeHtml(text: string): string {
  const names: Readonly<Record<string, string>> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "'": "&#39;",
  };
  return text.replace(/[&<>"']/g, (sign) => names[sign] ?? sign);
}

function indent(text: string, by: string): string {
  return text.replace(/^(?=.)/gm, by);
}

/** `compose` renders shorter Markdown itself, in a few milliseconds. */
const shortLimit = 2000;
/** Timeout. Parsing the longest accepted text takes 50 ms; the rest covers the start of the worker on a
 *  busy machine. */
const timeLimitMs = 5000;
const heapLimitMb = 64;

const entry = new URL(import.meta.url);
/** A worker does not inherit the condition under which the contract resolves to its source. */
const execArgv = entry.pathname.endsWith(".ts") ? ["--conditions=source"] : [];

if (!isMainThread && isRenderJob(workerData))
  parentPort?.postMessage(renderMarkdown(workerData.markdown), []);

/** Tells a render job from the `workerData` of other worker threads that import this module. */
function isRenderJob(data: unknown): data is { readonly markdown: string } {
  return typeof data === "object" && data !== null && "markdown" in data;
}

/** Implements `Outbound.prepare`. Returns null for a text that `compose` renders itself or sends as
 *  plain text, and when a limit is exceeded or the signal aborts. Starts one worker per long response,
 *  because these are rare. */
export async function prepare(
  clock: Clock,
  markdown: string,
  signal: AbortSignal,
  limits: { readonly ms: number; readonly source: URL } = { ms: timeLimitMs, source: entry },
): Promise<Json | null> {
  const text = markdown.trim();
  if (text.length <= shortLimit || text.length > markdownLimit || signal.aborted) return null;
  const worker = new Worker(limits.source, {
    name: "markdown",
    execArgv,
    env: {},
    workerData: { markdown: text },
    resourceLimits: { maxOldGenerationSizeMb: heapLimitMb, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 },
  });
  const done = new AbortController();
  try {
    return await Promise.race([
      new Promise<Json | null>((resolve) => {
        worker.once("message", (rendered: Rendered) => resolve({ ...rendered }));
        worker.once("error", () => resolve(null));
        worker.once("exit", () => resolve(null));
      }),
      clock.sleep(limits.ms, AbortSignal.any([signal, done.signal])).then(() => null),
    ]);
  } finally {
    done.abort();
    await worker.terminate();
  }
}

/** Returns `Reply.rendered` as `prepare` made it; null without one. */
export function readRendered(stored: Json | undefined): Rendered | null {
  if (typeof stored !== "object" || stored === null || !("text" in stored) || !("html" in stored))
    return null;
  const { text, html } = stored;
  return typeof text === "string" && typeof html === "string" ? { text, html } : null;
}
