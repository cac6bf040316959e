// Removes the end of a human's message: a farewell, a name, a business card. Mail clients add it to every
// reply, mostly without the line of dashes by which adapters recognize a signature. The customer talks to
// the agent, and must not receive a colleague's name and number.

import { composed } from "./squeeze.ts";

/** Number of non-empty lines at the end of a message that are examined; no business card is longer. */
const most = 25;
/** The name follows a farewell within this many non-empty lines. */
const near = 3;
/** Maximum length in characters of a farewell or a name line. */
const longest = 80;

/** Matches a whole line. */
const farewell = new RegExp(
  `^(?:${[
    "(?:with )?(?:(?:my |our )?(?:best|kind|kindest|warm|warmest|many) )?(?:regards|wishes)",
    "best|all the best|cheers|sincerely|yours(?: \\w+)?|sincerely yours|br|kr|rgds|cordially|respectfully",
    "thanks|many thanks|thank you|thx|thanks and (?:best |kind )?regards",
    "(?:mit )?(?:(?:vielen |den )?(?:freundlich|best|viel|lieb|herzlich|schön|schoen)\\w* )?gr(?:ü|ue|u)(?:ß|ss)e?n?(?: aus \\p{L}+)?",
    "mfg|lg|vg|bg|danke|(?:vielen|besten|herzlichen) dank|hochachtungsvoll",
    "(?:(?:bien|très) )?cordialement|(?:(?:sincères|meilleures|cordiales) )?salutations|bien à (?:vous|toi)|cdlt|merci|bonne journée",
    "(?:un )?(?:cordial )?saludos?(?: cordial(?:es)?)?|atentamente|cordialmente|gracias|(?:(?:cordiali|distinti) )?saluti|grazie",
    "atenciosamente|(?:com os melhores )?cumprimentos|abraços?|obrigad[oa]|z poważaniem|(?:serdecznie )?pozdrawiam",
    "(?:met )?(?:vriendelijke )?groet(?:en|jes)?|mvg|bedankt|(?:med )?(?:venlig|vennlig|vänlig)\\w* h(?:i|ä)ls(?:en|ning|ningar)|mvh",
  ].join("|")})$`,
  "iu",
);

/** Returns the message without its sign-off; a postscript stays. The sign-off is recognized by the
 *  writer's `names`. Returns an empty string when there is no other text. */
export function withoutSignOff(text: string, names: readonly string[]): string {
  const lines = text.split("\n");
  const filled = [...lines.keys()].filter((at) => lines[at]?.trim() !== "");
  const shown = filled.map((at) => composed(lines[at]?.trim() ?? ""));
  const called = names.map(wordsOf).filter((words) => words.length > 0);
  // A name inside a paragraph is part of the text.
  const apart = (at: number) => at === shown.length - 1 || filled[at - 1] !== (filled[at] ?? 0) - 1;
  const begin = shown.findIndex((_, at) => at >= shown.length - most && begins(shown, at, called, apart(at)));
  if (begin < 0) return text;
  const start = filled[begin] ?? 0;
  const more = lines.findIndex((line, at) => at > start && /^\s*p\.?\s?s\.?[:\s]/iu.test(line));
  return [...lines.slice(0, start), ...(more < 0 ? [] : lines.slice(more))].join("\n").trim();
}

type Names = readonly (readonly string[])[];

function begins(lines: readonly string[], at: number, names: Names, apart: boolean): boolean {
  const line = lines[at] ?? "";
  // The adapters already cut text below dashes, unless there is no text above them.
  if (/^(?:--+|—|__+)$/u.test(line)) return at === 0;
  if (line.length > longest) return false;
  if (at > 0 && isSigned(line, names)) return true;
  if (isFarewell(line)) return lines.slice(at + 1, at + 1 + near).some((next) => isNamed(next, names));
  return apart && isName(line, names, at === 0) && !lines[at - 1]?.endsWith(":");
}

const isFarewell = (line: string): boolean => {
  const parts = line.split("/").map((part) => part.replace(/^[\s*_]+|[\s*_.,!;–—-]+$/gu, ""));
  return parts.every((part) => farewell.test(part));
};

/** Matches the name alone, or before a title. On the first line a single word of it may be the
 *  addressee. */
function isName(line: string, names: Names, first: boolean): boolean {
  // "Anna," starts a message.
  if (/[,:;?]$/u.test(line)) return false;
  const [own = ""] = line.split(/\s+[|·•/–-]+\s+/u);
  const words = wordsOf(own);
  return names.some((name) =>
    words.length === 1
      ? !first && name.includes(words[0] ?? "")
      : words.length === name.length && name.every((word) => words.includes(word)),
  );
}

/** Matches a farewell and a name on one line: "Cheers, Anna". */
function isSigned(line: string, names: Names): boolean {
  const said = line.split(/\s+/u);
  return [1, 2].some((count) => {
    const tail = wordsOf(said.slice(-count).join(" "));
    const named = tail.length === count && names.some((name) => tail.every((word) => name.includes(word)));
    return named && isFarewell(said.slice(0, -count).join(" "));
  });
}

/** Matches a short line that begins with a name, optionally after a title. */
function isNamed(line: string, names: Names): boolean {
  const words = wordsOf(line).slice(0, 2);
  return line.length <= longest && names.some((name) => name.some((word) => words.includes(word)));
}

const wordsOf = (text: string): readonly string[] =>
  composed(text)
    .toLowerCase()
    .match(/\p{L}[\p{L}\p{M}'’-]+/gu) ?? [];
