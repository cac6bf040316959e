// From what an agent writes to what a voice can say. Order matters: letters' ends, then Markdown, then what is left of
// addresses, pictures and marks inside the words.

import { passages } from "./prose.ts";
import { allClosings, type Words, wordsOf } from "./words.ts";

/** More than anybody listens to; bounds the work for one answer. */
const longest = 12_000;

/** The text of an answer (Markdown) as it can be spoken, on one line, in whole sentences; empty when nothing of it can.
 *  - code blocks, pictures, rules, tags, emoji, citations (`[1]`, `[^1]`) and a closing signature are left out;
 *  - a link keeps its words; a bare URL becomes its host, an e-mail address its spoken form, both pronounced in the
 *    language: "support at example dot com";
 *  - short list items become one enumeration, long ones and table rows sentences.
 *  Never contains characters that a voice would take for markup. */
export function speakable(text: string, lang: string): string {
  const words = wordsOf(lang);
  const plain = withoutSignature(bulletsAsMarkdown(visible(text.slice(0, longest))));
  return passages(plain)
    .map((passage) => tidy(withoutMarks(pronounced(withoutCitations(entities(passage)), words))))
    .filter((passage) => /[\p{L}\p{N}]/u.test(passage))
    .map(ended)
    .join(" ");
}

/** Without what is there but not seen: control characters, zero widths, soft hyphens, direction marks. */
function visible(text: string): string {
  return text
    .replace(/\r\n?/g, "\n")
    .replace(/\p{Cf}|\p{Co}|\p{Cn}|\p{Cs}/gu, "")
    .replace(/[^\P{Cc}\n\t]/gu, " ");
}

/** Bullets that Markdown does not know, and footnotes, which nobody can look down to. */
function bulletsAsMarkdown(text: string): string {
  return text.replace(/^[ \t]*[•▪◦‣●○–—][ \t]+/gm, "- ").replace(/^\[\^[^\]\n]*\]:.*$/gm, "");
}

/** Cuts at the signature mark of mail, and a closing formula with the few short lines under it. */
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

/** Addresses as one says them. */
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

/** Without pictures and without what would be read out as a mark, or taken for one by a speech synthesiser. */
function withoutMarks(text: string): string {
  return text
    .replace(picture, (found) => (/^[0-9]/.test(found) ? (found[0] ?? "") : " "))
    .replace(face, "")
    .replace(/(?<!\s)\s*(?:[→⇒➜»«]|[-=]>|\s[–—-]\s|—)\s*/g, ", ")
    .replace(/[*_`#|~<>{}\\^[\]▪•●■◆]+/g, " ");
}

/** One line, one space, no mark that lost its words. */
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
