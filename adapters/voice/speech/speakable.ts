// Splits a reply into sentences for speech, and limits how many are spoken at once.

import { asMarkdown, type MarkdownBlock, type MarkdownToken, markdownBlocks } from "bridgehead/contract";
import MarkdownIt from "markdown-it";
import { type Phrases, primary } from "./phrases.ts";
import { allAbbreviations, allClosings, numbered, type SpeechWords, wordsOf } from "./words.ts";

/** The core's length limit for texts of this channel (`Traits.maxTextLength`). It also bounds the time on the event
 *  loop. */
const longestReply = 10_000;

/** Returns the sentences of a Markdown reply. Returns at least one. */
export function sentencesOf(text: string, language: string, words: Phrases): readonly string[] {
  const all = sentences(speakable(text.slice(0, longestReply), language), language);
  return all.length === 0 ? [words.unreadable] : all;
}

/** Returns at most `most` sentences without an offer of the rest, for greetings where the caller cannot request it. */
export function beginningOf(text: string, language: string, most: number, words: Phrases): readonly string[] {
  return limit(sentencesOf(text, language, words), most).now;
}

// Converts a reply of the agent into speakable text. The order matters: first the signature is removed, then Markdown,
// then the remaining addresses, pictures and markup characters inside the text.

/** Maximum length in characters. Bounds the work for one reply; callers do not listen to longer ones. */
const longest = 12_000;

/** Returns the speakable text of a Markdown reply: one line, complete sentences. Returns "" when nothing is
 *  speakable.
 *  - Code blocks, pictures, rules, tags, emoji, citations (`[1]`, `[^1]`) and a closing signature are removed.
 *  - A link keeps its text. A bare URL becomes its host, an e-mail address its spoken form, both pronounced in the
 *    language: "support at example dot com".
 *  - Short list items become one enumeration; long items and table rows become sentences.
 *  The result never contains characters that a speech synthesizer would interpret as markup. */
export function speakable(text: string, lang: string): string {
  const words = wordsOf(lang);
  const plain = withoutSignature(bulletsAsMarkdown(visible(asMarkdown(text.slice(0, longest)))));
  return passages(plain)
    .map((passage) => tidy(withoutMarks(pronounced(withoutCitations(entities(passage)), words))))
    .filter((passage) => /[\p{L}\p{N}]/u.test(passage))
    .map(ended)
    .join(" ");
}

/** Removes invisible characters: control characters, zero-width characters, soft hyphens, direction marks. */
function visible(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/\p{Cf}|\p{Co}|\p{Cn}|\p{Cs}/gu, "")
    .replace(/[^\P{Cc}\n\t]/gu, " ");
}

/** Converts other bullet characters to Markdown bullets, and removes footnotes, which have no place in speech. */
function bulletsAsMarkdown(text: string): string {
  return text.replace(/^[ \t]*[•▪◦‣●○–—][ \t]+/gm, "- ").replace(/^\[\^[^\]\n]*\]:.*$/gm, "");
}

/** Truncates at the e-mail signature delimiter, and at a closing formula followed by a few short lines. */
function withoutSignature(text: string): string {
  const lines = (text.split(/\n-- ?\n/, 1)[0] ?? "").trimEnd().split("\n");
  for (let n = lines.length - 1; n >= Math.max(1, lines.length - 6); n--) {
    if (isClosing(lines[n] ?? "")) return lines.slice(0, n).join("\n");
    if ((lines[n] ?? "").length > 60) break;
  }
  return lines.join("\n");
}

const isClosing = (line: string): boolean =>
  allClosings.has(
    line
      .trim()
      .replace(/[*_,.!]+/g, "")
      .toLowerCase(),
  );

const named: Readonly<Record<string, string>> = {
  amp: "&",
  lt: " ",
  gt: " ",
  quot: '"',
  apos: "'",
  nbsp: " ",
  "#39": "'",
};
const entities = (text: string): string =>
  text.replace(/&(#39|amp|lt|gt|quot|apos|nbsp);/g, (_, name: string) => named[name] ?? " ");

function withoutCitations(text: string): string {
  return text
    .replace(/\s?\[\^?\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*\]/g, "")
    .replace(/\s?\[\^[^\]\s]{1,20}\]/g, "")
    .replace(/\s?【[^】]*】/g, "");
}

const mail = /\b[\w.+-]{1,64}@[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){1,5}/gi;
const url = /(?:https?|ftp):\/\/[^\s<>()"']+|(?<![\p{L}\p{N}])www\.[^\s<>()"']+/giu;

/** Replaces URLs and e-mail addresses with their spoken form. */
function pronounced(text: string, words: SpeechWords): string {
  return text
    .replace(/\b(?:mailto|tel|sms):(?=\S)/gi, "")
    .replace(url, (address) => {
      const end = /[.,;:!?]+$/.exec(address)?.[0] ?? "";
      const host = address
        .slice(0, address.length - end.length)
        .replace(/^[a-z]+:\/\//i, "")
        .replace(/^[^/?#]*@/, "")
        .replace(/[/?#].*$/, "")
        .replace(/^www\./i, "");
      return ` ${letters(host.replace(/:\d+$/, ""), words)}${end}`;
    })
    .replace(mail, (address) => ` ${letters(address, words)}`);
}

function letters(address: string, words: SpeechWords): string {
  const say: ReadonlyMap<string, string> = new Map([
    ["@", words.at],
    [".", words.dot],
    ["-", words.dash],
    ["_", words.underscore],
    ["+", "plus"],
  ]);
  return address
    .split(/([@._+-])/)
    .filter((part) => part !== "")
    .map((part) => say.get(part) ?? part)
    .join(" ");
}

const picture =
  /[0-9#*]\uFE0F?\u20E3|\p{Extended_Pictographic}|\p{Regional_Indicator}|\p{Emoji_Modifier}|[\uFE0E\uFE0F\u20E3]/gu;
const face = /(?<=^|\s)(?:[:;=8]['’]?-?[)(DPpOo/\\|\]]|<3|\^_?\^|xD)(?=$|[\s.,!?])/g;

/** Removes pictures, and characters that a speech synthesizer would read aloud or interpret as markup. */
function withoutMarks(text: string): string {
  return text
    .replace(picture, (found) => (/^[0-9]/.test(found) ? (found[0] ?? "") : " "))
    .replace(face, "")
    .replace(/(?<!\s)\s*(?:[→⇒➜»«]|[-=]>|\s[–—-](?:\s|$)|—)\s*/g, ", ")
    .replace(/[*_`#|~<>{}\\^[\]▪•●■◆]+/g, " ");
}

/** Normalizes whitespace to one line with single spaces, and removes orphaned punctuation. */
function tidy(text: string): string {
  return text
    .replace(/\(\s*\)/g, " ")
    .replace(/\s+/g, " ")
    .replace(/ +([,.;:!?])/g, "$1")
    .replace(/([,;:])[,;:]+/g, "$1")
    .replace(/,([.!?])/g, "$1")
    .replace(/^[\s,.;:!?-]+/, "")
    .trim();
}

const ended = (passage: string): string =>
  /[.!?…:;。！？؟।۔]["')”’»]?$/.test(passage) ? passage : `${passage.replace(/,$/, "")}.`;

// Splits text into sentences, so that the first one is spoken while the rest is still being sent.

const segmenters = new Map<string, Intl.Segmenter>();

function segmenterFor(lang: string): Intl.Segmenter {
  const known = segmenters.get(lang);
  if (known !== undefined) return known;
  const made = new Intl.Segmenter(lang, { granularity: "sentence" });
  segmenters.set(lang, made);
  return made;
}

/** Returns the non-empty, trimmed sentences of a text in order. Joined with spaces they return the original text,
 *  except for white space. Abbreviations, initials, ordinals and numbers do not end a sentence. */
export function sentences(text: string, lang = "en"): readonly string[] {
  const tag = primary(lang);
  const pieces = [...segmenterFor(/^[a-z]{2,3}$/.test(tag) ? tag : "en").segment(text)];
  const { ordinalStops } = wordsOf(lang);
  const found: string[] = [];
  for (const { segment } of pieces) {
    const piece = segment.trim().replace(/\s+/g, " ");
    const before = found.at(-1);
    if (piece === "") continue;
    if (before !== undefined && goesOn(before, piece, ordinalStops)) found[found.length - 1] = `${before} ${piece}`;
    else found.push(piece);
  }
  return found;
}

/** Number of characters to inspect before a boundary. Longer than any abbreviation with its preceding text. */
const longestWord = 200;

/** Returns true when an apparent sentence end is inside a sentence. */
function goesOn(whole: string, next: string, ordinalStops: boolean): boolean {
  // Abbreviations may follow each other. Inspecting the whole text each time would take quadratic time.
  const before = whole.slice(-longestWord);
  if (!/[\p{L}\p{N}]/u.test(next) || !/[\p{L}\p{N}]/u.test(before)) return true;
  const word = /(?:^|[\s(„“"'])([\p{L}\p{N}.]*[\p{L}\p{N}])\.$/u.exec(before)?.[1]?.toLowerCase();
  if (word === undefined) return false;
  if (/^\p{L}$/u.test(word) && /(?:^|\s)\p{Lu}\.$/u.test(before)) return true; // an initial: J. Smith
  if (/^\p{L}$/u.test(word) && /^\p{L}\./u.test(next)) return true; // abbreviation with spaces: z. B.
  if (/^(?:\p{L}\.)+\p{L}$/u.test(word)) return true; // U.S., e.g.
  if (/^\d{1,2}$/.test(word)) return ordinalStops && /^\p{L}/u.test(next);
  if (numbered.has(word)) return /^\p{N}/u.test(next);
  return allAbbreviations.has(word);
}

/** Returns the first `most` (at least 1) sentences to speak now, and the rest, which is kept until the caller
 *  requests it. */
export function limit(
  all: readonly string[],
  most: number,
): { readonly now: readonly string[]; readonly rest: readonly string[] } {
  const kept = Math.max(1, most);
  return { now: all.slice(0, kept), rest: all.slice(kept) };
}

// Converts Markdown to prose: removes visual elements and turns lists and tables into sentences.

/** The running text of one paragraph, heading, list or table, in document order. */
export type Passage = string;

const markdownIt = new MarkdownIt({ html: true });
markdownIt.validateLink = () => true;

/** Returns the passages of a Markdown text. Omitted: code blocks, pictures, rules, HTML tags, struck-out text. A
 *  text that fails to parse is returned as one passage. The caller of this function bounds the length. */
function passages(markdown: string): readonly Passage[] {
  return passagesOf(markdown).filter((passage) => passage.trim() !== "");
}

/** One line that begins with a letter and has no character that starts an inline rule of Markdown is one paragraph with
 *  that text: most spoken replies. Parsing it costs more than all else of its speech. */
const plainLine = /^\p{L}[^\n\\`*_~[\]<&]*$/u;

function passagesOf(markdown: string): readonly Passage[] {
  if (plainLine.test(markdown)) return [markdown];
  try {
    return markdownBlocks(markdownIt.parse(markdown, {})).flatMap(ofBlock);
  } catch {
    return [markdown];
  }
}

function ofBlock({ token, inside }: MarkdownBlock): readonly Passage[] {
  switch (token.type) {
    case "inline":
      return [inline(token.children ?? [])];
    case "bullet_list_open":
    case "ordered_list_open":
      return ofList(token, inside);
    case "table_open":
      return ofTable(inside);
    case "code_block":
      // Indented text in a reply is almost never code, so it is kept; only a fenced block counts as code.
      return [token.content.trimEnd()];
    case "html_block":
      return [withoutTags(token.content)];
    default:
      return inside.flatMap(ofBlock);
  }
}

/** Short items become one comma-separated enumeration. Long items become separate sentences. */
function ofList(token: MarkdownToken, list: readonly MarkdownBlock[]): readonly Passage[] {
  const items = list.map((item) => item.inside.flatMap(ofBlock).filter((part) => part.trim() !== ""));
  const brief = items.every((parts) => parts.length === 1 && isBrief(parts[0] ?? ""));
  if (brief && items.length > 1) return [items.map(([part]) => (part ?? "").trim()).join(", ")];
  if (token.type === "bullet_list_open") return items.flat();
  const first = Number(token.attrGet("start") ?? 1);
  return items.flatMap((parts, n) => [`${first + n}: ${parts[0] ?? ""}`, ...parts.slice(1)]);
}

const isBrief = (part: string): boolean => !/[.!?:;]/.test(part) && part.trim().split(/\s+/).length <= 8;

/** Returns each row with its column names: `Monday: open 9 to 5, closed for lunch 12 to 1`. */
function ofTable(sections: readonly MarkdownBlock[]): readonly Passage[] {
  const [heads = [], ...rows] = sections.flatMap((section) =>
    section.inside.map((row) => row.inside.map((cell) => cell.inside.flatMap(ofBlock).join("").trim())),
  );
  return rows.map(([name = "", ...values]) => {
    const said = values.flatMap((value, n) => (value === "" ? [] : [`${heads[n + 1] ?? ""} ${value}`.trim()]));
    return [name, said.join(", ")].filter((part) => part !== "").join(": ");
  });
}

/** Returns the text of inline spans. A link keeps its text without its URL; a bare URL is plain text. Spans may be
 *  nested without limit, so this is one loop without recursion. */
function inline(spans: readonly MarkdownToken[]): string {
  const said: string[] = [];
  let struck = 0;
  for (const { type, content } of spans) {
    if (type === "s_open") struck += 1;
    else if (type === "s_close") struck -= 1;
    else if (struck > 0 || type === "image" || type === "html_inline") continue;
    else if (type === "softbreak") said.push("\n");
    else said.push(type === "hardbreak" ? ", " : content);
  }
  return said.join("");
}

/** An unclosed comment matches to the end. Searching for its end from each further comment would take quadratic
 *  time. */
const withoutTags = (html: string): string => html.replace(/<!--[^]*?(?:-->|$)|<[^<>]*>/g, " ");
