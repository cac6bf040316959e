// Composes a reply as one stored draft, with its body as text and as simple HTML. Pure. Agent text is Markdown.
// Notifications and human text quote customers and are plain text. Agent text never reaches a mail client as its own
// markup: raw HTML is escaped, links are http, https, mailto or tel, and images are replaced with their names. markdown-it
// parses in linear time and limits nesting. marked was quadratic on emphasis and overflowed the stack on nested lists and
// quotes.

import { createRequire } from "node:module";
import {
  asMarkdown,
  type ExternalId,
  htmlToMarkdown,
  type Json,
  type MarkdownStyle,
  markdownText,
  type Party,
  type Reply,
  type ReplyAttachment,
} from "bridgehead/contract";
import type MarkdownIt from "markdown-it";
import type { Token } from "markdown-it";
import type { EmailConfig } from "../config.ts";
import {
  asciiAddress,
  cleanFileName,
  type Identity,
  isForwardSubject,
  isReplySubject,
  surrogateEnd,
} from "../parse/headers.ts";
import type { EmailDraft } from "./send.ts";

/** Maximum number of ids in References. The first id identifies the start of the thread; mail clients
 *  use the last ones. */
const referenceLimit = 20;

/** Implements `Outbound.compose`. */
export function compose(config: EmailConfig, self: Identity, reply: Reply): readonly EmailDraft[] {
  const to = reply.to.map(named);
  const ours = (party: Party) => self.isOwn(party.address) || to.some((one) => one.address === party.address);
  const answers = reply.answers !== null && isCitable(reply.answers) ? reply.answers : null;
  const body = bodyOf(config, reply);
  return [
    {
      v: 1,
      key: reply.key,
      envelopeFrom: self.address,
      from: { address: self.address, name: clean(config.smtp.from_name ?? reply.senderName ?? "", 200) },
      to,
      cc: config.reply === "all" ? reply.cc.filter((party) => !ours(party)).map(named) : [],
      replyTo: config.token_address ? self.tokenAddress(reply.token) : null,
      subject: subjectOf(reply),
      messageId: self.messageId(reply.key),
      inReplyTo: answers,
      references: referencesOf(reply.history, answers),
      date: reply.createdAt.toISOString(),
      automatic: automaticOf(reply),
      hops: reply.hops,
      ...body,
      attachments: (reply.attachments ?? []).map(fileOf),
    },
  ];
}

/** Returns one line without control characters, so that header values cannot inject another header. */
function clean(text: string, limit: number): string {
  return text
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .trim()
    .slice(0, limit)
    .toWellFormed();
}

/** Returns the References, oldest first, `answers` last. Ids in the middle are dropped when there are too many. */
export function referencesOf(history: readonly ExternalId[], answers: ExternalId | null): readonly ExternalId[] {
  const chain = history.filter((id) => isCitable(id) && id !== answers);
  const all = [...new Set(answers === null ? chain : [...chain, answers])];
  if (all.length <= referenceLimit) return all;
  return [...all.slice(0, 1), ...all.slice(-(referenceLimit - 1))];
}

/** False for ids that other servers do not know, and for those that a header cannot carry to every server: others than ASCII
 *  need SMTPUTF8. */
function isCitable(id: string): boolean {
  return /^<[!-;=?-~]{1,900}>$/.test(id) && !id.endsWith(surrogateEnd);
}

function automaticOf(reply: Reply): EmailDraft["automatic"] {
  if (reply.byHuman) return "no";
  return reply.kind === "notice" || reply.answers === null ? "auto-generated" : "auto-replied";
}

/** Returns the subject of the answered message with "Re: " in front. A prefix that is already there is kept, in any of the
 *  known languages, below the tag of a gateway ("[EXT] AW: ..."), and in an unknown one above our own: otherwise both programs
 *  would add theirs to every answer. */
function subjectOf(reply: Reply): string {
  const subject = clean(reply.subject ?? "", 900);
  const isThread = isReplySubject(subject) || (unknownPrefix.test(subject) && !isForwardSubject(subject));
  return reply.answers === null || isThread ? subject : `Re: ${subject}`.trim();
}

const unknownPrefix = /^(?:[^\s:：]{1,12}\s?[:：]\s{0,3}){1,2}re\s?[:：]/i;

/** Inline rendering runs inside the core's transaction and takes a few milliseconds. Longer Markdown arrives rendered by
 *  `prepare`, or is sent as plain text. */
const inlineLimit = 2000;

/** True for Markdown that `compose` does not render itself. */
export const isLong = (markdown: string): boolean => markdown.trim().length > inlineLimit;

function bodyOf(config: EmailConfig, reply: Reply): { text: string; html: string } {
  // `findMarkers` recognizes it in answers.
  const marker = config.body_marker ? `[ref:bh-${reply.token}]` : null;
  const [introduction, signature] = [reply.introduction, reply.signature].map((words) =>
    words?.trim() ? settingOf(words.trim()) : null,
  );
  const answer = reply.text.trim() === "" ? null : answerOf(reply);
  const written = [introduction, answer].filter((part) => part != null);
  const text = [
    ...written.map((part) => part.text),
    ...(signature == null ? [] : [`-- \n${signature.text}`]),
    ...(marker === null ? [] : [marker]),
  ].join("\n\n");
  const html = [
    ...written.map((part) => `<div${directionOf(part.text)}>${part.html}</div>`),
    ...(signature == null
      ? []
      : [`<div class="signature"${directionOf(signature.text)} style="color:#555">-- <br>${signature.html}</div>`]),
    ...(marker === null ? [] : [`<div style="color:#999;font-size:11px">${escapeHtml(marker)}</div>`]),
  ].join("\n");
  return { text: `${text.toWellFormed()}\n`, html: html.toWellFormed() };
}

const tags =
  /<\/?(?:p|br|div|span|b|i|u|strong|em|a|font|img|table|tbody|tr|td|ul|ol|li|h[1-6]|hr)(?=[\s/>])[^<>]{0,1000}>/gi;

/** Returns a signature or introduction that the platform's editor wrote as HTML without its tags. Other text is unchanged. */
const withoutTags = (words: string): string =>
  words.length > inlineLimit || words.search(tags) < 0 ? words : htmlToMarkdown(words, "\n");

/** The delimiter above a signature that was copied from a mail program. Ours stands there. */
const ownDelimiter = /^--(?:\s|&nbsp;)*\n\s*/;
/** The start of a line of signs. In Markdown it makes the text above it a heading. */
const drawnLine = /^(?=(?:-+|=+)[^\S\n]*$)/gm;

/** Renders a signature or introduction. */
function settingOf(words: string): Rendered {
  const text = withoutTags(words).replace(ownDelimiter, "");
  return text.length > inlineLimit ? renderPlain(text) : renderMarkdown(text.replace(drawnLine, "\\"));
}

/** Returns the attribute for text that begins in a script from right to left. Mail clients show the rest from left to right,
 *  with full stops and the marks of lists on the wrong side. `dir="auto"` is unknown to Outlook. */
const directionOf = (text: string): string =>
  /^[^\p{L}]{0,200}[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u.test(text) ? ' dir="rtl"' : "";

function answerOf({ text, plain, rendered }: Reply): Rendered {
  if (plain) return renderPlain(text.trim());
  return readRendered(rendered) ?? renderMarkdown(text.trim(), inlineLimit);
}

function named(party: Party): { address: string; name: string } {
  return { address: asciiAddress(clean(party.address, 320)), name: clean(party.name ?? "", 200) };
}

/** An attached message must not be re-encoded (RFC 2046, 5.2.1), and a multipart needs its boundary.
 *  Both are sent as `application/octet-stream` and so arrive unchanged. */
const unencodable = /^(?:message|multipart)\//i;

function fileOf({ name, mediaType, size, ref }: ReplyAttachment): EmailDraft["attachments"][number] {
  const plain = /^[\w.+-]{1,80}\/[\w.+-]{1,120}$/.test(mediaType) && !unencodable.test(mediaType);
  return {
    name: cleanFileName(name, "attachment"),
    mediaType: plain ? mediaType.toLowerCase() : "application/octet-stream",
    size,
    ref,
  };
}

/** A message body in both forms, as a draft stores it. */
export interface Rendered {
  readonly text: string;
  readonly html: string;
}

/** Markdown longer than this many characters is sent as plain text. Parsing any text up to this limit
 *  takes less than 50 ms. */
export const markdownLimit = 12_000;

const allowedLink = /^(https?:\/\/|mailto:|tel:)[^\s<>"']+$/i;

const require = createRequire(import.meta.url);
let loaded: ReturnType<typeof load> | null = null;

/** Returns the parser. Loads it for the first text, to save memory until then. */
const markdownIt = () => (loaded ??= load());

function load() {
  const Parser = require("markdown-it") as typeof MarkdownIt;
  const parser = new Parser({ html: false, breaks: true, linkify: true });
  parser.linkify.set({ fuzzyLink: false, fuzzyIP: false });
  // Every link is parsed. Links with other schemes lose their address below instead of appearing as Markdown source.
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
  // Models write it where Markdown has no line break, as in the cells of a table.
  parser.inline.ruler.before("autolink", "br", (state, silent) => {
    const found = /^<br {0,3}\/?>(?: {0,3}\n)?/i.exec(state.src.slice(state.pos, state.pos + 12))?.[0];
    if (found === undefined) return false;
    if (!silent) state.push("hardbreak", "br", 0);
    state.pos += found.length;
    return true;
  });
  Object.assign(parser.renderer.rules, {
    image: (tokens: Token[], at: number) => escapeHtml(tokens[at]?.content ?? ""),
    // Without lines and space the columns of numbers run together.
    table_open: () => '<table border="1" cellpadding="6" style="border-collapse:collapse">\n',
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
    const tokens = parser.parse(asMarkdown(markdown), {});
    return {
      text: markdownText(tokens, style),
      html: parser.renderer.render(tokens, parser.options, {}).trim(),
    };
  } catch {
    return renderPlain(markdown);
  }
}

/** Returns both forms of plain text. Characters, line breaks and indentation are unchanged. In HTML, web addresses
 *  become links, and lines that begin with ">" become one level of quotation; no other markup is interpreted. */
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
  table: (rows) => rows.map((cells) => `${cells.map((cell) => cell.replaceAll("\n", ", ")).join(" | ")}\n`).join(""),
  link: (label, href) => {
    const bare = href.replace(/^(?:mailto|tel):/i, "");
    // The parser writes the address in ASCII.
    const isSame = label === href || label === bare || URL.parse(label)?.href === URL.parse(href)?.href;
    return isSame && label !== "" ? label : `${label} (${bare})`;
  },
  html: (source) => source,
};

/** Escapes text for HTML elements and quoted attributes. */
function escapeHtml(text: string): string {
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

/** Returns `Reply.rendered` as `prepare` made it; null without one. */
export function readRendered(stored: Json | undefined): Rendered | null {
  if (typeof stored !== "object" || stored === null || !("text" in stored) || !("html" in stored)) return null;
  const { text, html } = stored;
  return typeof text === "string" && typeof html === "string" ? { text, html } : null;
}
