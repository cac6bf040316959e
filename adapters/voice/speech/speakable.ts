// Converts a reply of the agent into speakable text. The order matters: first the signature is removed, then Markdown,
// then the remaining addresses, pictures and markup characters inside the text.

import { passages } from "./prose.ts";
import { allClosings, type Words, wordsOf } from "./words.ts";

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
  const plain = withoutSignature(bulletsAsMarkdown(visible(text.slice(0, longest))));
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
function pronounced(text: string, words: Words): string {
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

function letters(address: string, words: Words): string {
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
    .replace(/(?<!\s)\s*(?:[→⇒➜»«]|[-=]>|\s[–—-]\s|—)\s*/g, ", ")
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
  /[.!?…:;。！？]["')”’»]?$/.test(passage) ? passage : `${passage.replace(/,$/, "")}.`;
