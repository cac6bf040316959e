// Converts the agent's Markdown to plain text as a person types it on a phone: no markup, links followed by their URL.

import { asMarkdown, type MarkdownStyle, markdownText } from "bridgehead/contract";
import MarkdownIt from "markdown-it";

/** Markdown is parsed in pieces of at most this many characters. This bounds the work inside the transaction to a few
 *  milliseconds, because the parser's time for a piece can grow with the square of its length. */
const pieceLimit = 5_000;
/** In longer Markdown the pieces after this many characters that may be markup are sent unchanged. The parser's time depends
 *  on these characters; an answer with so many of them is dozens of text messages. */
const markupLimit = 5_000;

const allowedLink = /^(https?:\/\/|mailto:|tel:)[^\s<>"']+$/i;
const markdownIt = new MarkdownIt({ html: true, breaks: true, linkify: true });
markdownIt.linkify.set({ fuzzyLink: false, fuzzyIP: false });
markdownIt.validateLink = () => true;

/** Removes the markup of headings and emphasis. Lists keep dashes and numbers, tables become lines.
 *  Returns the input unchanged if parsing fails. */
export function toPlain(answer: string): string {
  const markdown = asMarkdown(answer);
  try {
    return markdown.length > pieceLimit ? longToPlain(markdown) : parsed(markdown, {});
  } catch {
    return markdown;
  }
}

/** `links`: markdown-it's collection of link definitions (`[1]: https://...`). */
const parsed = (markdown: string, links: { readonly [key: string]: unknown }): string =>
  markdownText(markdownIt.parse(markdown, links), style);

function longToPlain(markdown: string): string {
  let left = markupLimit;
  const pieces = piecesOf(markdown).map((text) => {
    left -= text.replace(/[\p{L}\p{M}\p{N} ]+/gu, "").length;
    return { text, isParsed: left >= 0 && text.length <= pieceLimit };
  });
  // Links may be defined in another piece than the one that uses them.
  const links = {};
  for (const { text, isParsed } of pieces)
    if (isParsed && /^ {0,3}\[[^[\]\n]+\]:/m.test(text)) markdownIt.parse(text, links);
  return pieces
    .map(({ text, isParsed }) => {
      const content = text.trimEnd();
      return (isParsed ? parsed(content, links) : content) + text.slice(content.length);
    })
    .join("");
}

/** Between a blank line and a line that is not indented. */
const paragraphStart = /(?<=\n[ \t]*\n)(?=\S)/;
/** A line that begins or ends fenced code. A line with further backticks is a span of code. */
const fenceLine = /^[ \t]*(`{3,}(?=[^`\n]*$)|~{3,}).*$/gm;

/** Returns pieces that can be parsed separately, as long as the limit allows; concatenated they equal the Markdown. A piece
 *  ends at a blank line outside fenced code. A longer paragraph is cut; longer fenced code is one piece. */
function piecesOf(markdown: string): readonly string[] {
  const pieces: string[] = [];
  let [piece, paragraph, fence] = ["", "", ""];
  const blocks = markdown.split(paragraphStart);
  for (const [at, block] of blocks.entries()) {
    paragraph += block;
    fence = fenceAfter(block, fence);
    if (fence !== "" && at < blocks.length - 1) continue;
    if (piece.length + paragraph.length > pieceLimit) {
      pieces.push(piece);
      piece = "";
    }
    const isCut = paragraph.length > pieceLimit && paragraph.search(fenceLine) < 0;
    const cut = isCut ? cutParagraph(paragraph) : [paragraph];
    pieces.push(...cut.slice(0, -1));
    piece += cut.at(-1) ?? "";
    paragraph = "";
  }
  return [...pieces, piece];
}

/** Returns the backticks or tildes of the fence that is open after the block; empty: none. */
function fenceAfter(block: string, before: string): string {
  let fence = before;
  for (const [line, mark = ""] of block.matchAll(fenceLine)) {
    if (fence === "") fence = mark;
    else if (mark.startsWith(fence) && line.trim() === mark) fence = "";
  }
  return fence;
}

/** Cuts a long paragraph before a line that is not indented, else after any line, after a sentence, or at white space. */
function cutParagraph(paragraph: string): readonly string[] {
  const pieces: string[] = [];
  let rest = paragraph;
  while (rest.length > pieceLimit) {
    const start = rest.slice(0, pieceLimit);
    const sentence = Math.max(...[". ", "! ", "? "].map((end) => start.lastIndexOf(end) + 1));
    const line = Array.from(start.matchAll(/\n(?=\S)/g)).at(-1)?.index ?? start.lastIndexOf("\n");
    const to = [line, sentence, start.lastIndexOf(" ")].find((at) => at > 0);
    const piece = to === undefined ? start : start.slice(0, to + 1);
    pieces.push(piece);
    rest = rest.slice(piece.length);
  }
  return [...pieces, rest];
}

const style: MarkdownStyle = {
  rule: "\n",
  code: (content) => `${content}\n`,
  quote: (text) => text,
  item: (sign, text) => sign + text,
  /** A row of two columns becomes "name: value". The cells of wider rows are separated by commas. */
  table: ([header = [], ...rows]) =>
    header.length === 2
      ? rows.map((cells) => `${cells.join(": ")}\n`).join("")
      : [header, ...rows].map((cells) => `${cells.join(", ")}\n`).join(""),
  link: (label, href) => {
    const bare = href.replace(/^(mailto|tel):/i, "");
    return !allowedLink.test(href) || label === href || label === bare ? label : `${label} (${bare})`;
  },
  html: visible,
};

/** Returns the text of HTML: `<br>` becomes a line break, other tags are removed. */
function visible(html: string): string {
  // Comments are removed only up to the last comment end. Searching beyond it would be quadratic.
  const last = html.lastIndexOf("-->");
  const commented = last < 0 ? 0 : last + 3;
  const shown = html.slice(0, commented).replace(/<!--[^]*?-->/g, "");
  return `${shown}${html.slice(commented)}`.replace(/<br\s*\/?>/gi, "\n").replace(/<\/?[a-z][^<>]*>/gi, "");
}

// Normalizes a text so that it is cheap and safe to send. One curly quote would more than double its cost,
// and invisible characters confuse phones and readers.
// Only punctuation is mapped. Letters are never changed: a name keeps its accents at any cost.
const forms: readonly (readonly [RegExp, string])[] = [
  [/[‘’‚‛′‵ʹʻʼˈ`´＇]/g, "'"],
  [/[“”„‟«»″‶〝〞＂]/g, '"'],
  [/[‹]/g, "<"],
  [/[›]/g, ">"],
  [/[‐‑‒–—―−﹘﹣－]/g, "-"],
  [/…/g, "..."],
  [/[•‣◦▪▫●○■□⁃∙]/g, "-"],
  [/→/g, "->"],
  [/←/g, "<-"],
  [/[×✕]/g, "x"],
  [/⁄/g, "/"],
  [/\r\n?|[\u0085\u2028\u2029]/g, "\n"],
  [/[\t\v\f\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]/g, " "],
];

// Control tokens that language models sometimes leak into a response: <|im_end|>, <s>, [INST].
const controlTokens = /<\|[\w ]{1,40}\|>|<\/?s>|\[\/?INST\]|<<\/?SYS>>/g;
const controlCharacters = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\ufff9-\ufffc]/g;
// Joiners and variation selectors have a meaning inside emoji and in joining scripts. In Latin text they have none.
const invisible = /[\p{Default_Ignorable_Code_Point}--[\u200c-\u200d]--[\ufe0e-\ufe0f]]/gv;
const idleJoiner = /(?<=^|[\p{ASCII}\p{Script=Latin}])(?<![0-9#*])(?:[\u200c-\u200d]|[\ufe0e-\ufe0f])/gu;

/** Returns the text with plain punctuation and without control tokens, control characters and invisible
 *  characters. Idempotent. */
export function clean(text: string): string {
  let plain = composed(text.toWellFormed());
  for (const [from, to] of forms) plain = plain.replace(from, to);
  plain = untilStill(plain, (now) =>
    now.replace(controlCharacters, "").replace(invisible, "").replace(idleJoiner, "").replace(controlTokens, ""),
  );
  return composed(plain)
    .replace(/(?<! ) +$/gm, "")
    .replace(/\n{3,}/g, "\n\n")
    .trim();
}

/** Converts to NFC in linear time. Sorting a run of combining marks is quadratic, so each run is cut to
 *  30 marks (UAX #15, Stream-Safe Text Format). */
const composed = (text: string): string => text.replace(/(\p{M}{30})\p{M}+/gu, "$1").normalize("NFC");

/** Maximum number of rounds: more than any leaked token needs. Each round costs a pass over the text. */
const rounds = 8;

/** Repeats `step` until the text is stable, because a removal can join the rest into a new token:
 *  `<|im_<|x|>end|>`. */
function untilStill(text: string, step: (text: string) => string): string {
  for (let round = 0; round < rounds; round += 1) {
    const next = step(text);
    if (next === text) return text;
    text = next;
  }
  return text;
}
