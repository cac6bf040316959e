// Converts the agent's Markdown to plain text as a person types it on a phone: no markup, links followed by their URL.

import { type MarkdownStyle, markdownText } from "bridgehead/contract";
import MarkdownIt from "markdown-it";

/** Markdown longer than this many characters is sent unchanged. This bounds the work inside the
 *  transaction to a few milliseconds; an answer of this length is about thirty text messages. */
const markdownLimit = 5_000;

const allowedLink = /^(https?:\/\/|mailto:|tel:)[^\s<>"']+$/i;
const markdownIt = new MarkdownIt({ html: true, breaks: true, linkify: true });
markdownIt.linkify.set({ fuzzyLink: false, fuzzyIP: false });
markdownIt.validateLink = () => true;

/** Removes the markup of headings and emphasis. Lists keep dashes and numbers, tables become lines.
 *  Returns the input unchanged if parsing fails. */
export function toPlain(markdown: string): string {
  if (markdown.length > markdownLimit) return markdown;
  try {
    return markdownText(markdownIt.parse(markdown, {}), style);
  } catch {
    return markdown;
  }
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
