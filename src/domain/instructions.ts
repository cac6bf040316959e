// Parses a responder's reply to an escalation: an acknowledgement, commands on separate lines, and text for
// the customer. The adapter has already removed quotes and marked signatures.
//
// A leading number is certainly an escalation number when it is alone ("417"), on a separate line, before a
// colon ("417: On its way"), after a sign ("#417 On its way") or next to an "ok". Before other text ("417
// On its way", "2 weeks") it is one only for a responder with several escalations, and not when it counts
// time or money. In doubtful cases the responder is asked to confirm.
//
// The end of the message (a farewell, a name, a business card) is removed. Mail clients add it to every reply, mostly
// without the line of dashes by which adapters recognize a signature. The customer talks to the agent, and must not
// receive a colleague's name and number.

import { composed } from "./machine-reply.ts";

export interface Instructions {
  /** The number of the escalation, if the responder names one. */
  readonly number: number | null;
  /** A leading number that was parsed as text and may still be an escalation number. For a responder
   *  with several escalations it may be one of theirs; for others, an escalation of another responder. */
  readonly doubt: number | null;
  /** The reply is only an "ok", or a number. */
  readonly acknowledge: boolean;
  /** The reply has no text except a number or a command. */
  readonly bare: boolean;
  /** Returns the conversation to the agent. */
  readonly resume: boolean;
  readonly close: boolean;
  /** Internal note; empty for none. */
  readonly note: string;
  /** Text for the customer; empty for none. */
  readonly text: string;
  /** The same text including the leading number, for use when that is not an escalation number. */
  readonly whole: string;
  /** The acknowledgement may have been meant as an answer to the customer. */
  readonly ambiguous: boolean;
  /** The first line that resembles a command but is invalid; null without one. */
  readonly slip: string | null;
}

/** The whole message is an acknowledgement: "ok", "OK 417!", "417 ok", a thumbs-up. Covers the languages
 *  of the opt-out keywords. */
const yes =
  /^(?:ok|okay|okey|oké|ack|yes|ja|oui|sí|si|sim|d'accord|got it|taken|mine|übernommen|vale|va bene|k|👌|✅|👍)$/iu;
/** An acknowledgement with further text: "ok thanks", "Ok 👍", "I'll take it". */
const yesAndMore =
  /^(?:(?:ok|okay|okey|oké|yes|ja|oui|sí|si|sim|👍)(?:[\s,.!]+(?:ok|okay|👍|thanks|thank you|thx|danke|merci|gracias|grazie|obrigad[oa]|bedankt|got it|on it))+|(?:(?:ok|okay|yes)[\s,.!]+)?(?:i['’]?m on it|on it|i(?:['’]ll| will)? take (?:it|this)|ich übernehme(?: das| es)?))$/iu;
/** The text that phones send for a reaction to one of our messages: the reaction, and the message. */
const reaction =
  /^[\s\u200a\u200b]*(?:(liked|loved|👍|❤)|disliked|emphasized|laughed at|questioned|[\p{Extended_Pictographic}\u200d]{1,20}(?=[\s\u200a\u200b]+to ))[\s\u200a\u200b]+(?:to )?[“"](?:(?:(?:still open: )?escalation )?(\d{1,9})[:,])?.*[”"]$/isu;
/** A leading escalation number. Amounts, times and ranges also begin with digits and must not match:
 *  "10.50", "2:30", "3-5". */
const named = /^(#?)(\d{1,9})(?:([:,.-]*)([ \t]*\n\s*|[ \t]+|$)|:(?=\D))/u;
/** Units of an amount in the languages of the opt-out keywords, optionally after a range: "2 or 3 weeks". */
const amount = new RegExp(
  `^(?:(?:-|–|to|or|bis|oder|à|ou|a|o|of)\\s*\\d+\\s*)?(?:[%€$£]|(?:${[
    "(?:working |business )?days?|weeks?|months?|years?|hours?|hrs?|minutes?|mins?|seconds?|percent|times|[ap]m|o'clock",
    "(?:Werk|Arbeits)?tage?n?|Wochen?|Monate?n?|Jahre?n?|Stunden?|Minuten?|Sekunden?|Prozent|Uhr|mal|Stück",
    "jours?|semaines?|mois|ans?|années?|heures?|fois|días?|semanas?|mes|meses|años?|horas?|minutos?|veces",
    "giorn[io]|settiman[ae]|mes[ei]|ann[io]|or[ae]|minut[io]|volt[ae]|dias?|mês|anos?|vezes",
    "dag(?:en)?|weken|maand(?:en)?|ja(?:a)?r(?:en)?|uur|uren|minuten|keer",
    "euros?|dollars?|pounds?|francs?|EUR|USD|GBP|CHF|kg|km|cm|pieces|items|x",
  ].join("|")})(?!\\p{L}))`,
  "iu",
);
const command = /^[ \t]*#[ \t]*(resume|close|note)\b[ \t]*(.*)$/iu;
/** "417 #close": a number and a command on one line. */
const namedCommand = /^([ \t]*#?\d{1,9}[:,.-]*)[ \t]+(#[ \t]*\p{L}.*)$/u;
/** A command after other text on a line. Our own notification explains the commands in such a line. */
const commandInside = /(?<![\p{L}\p{N}])#[^\p{L}\p{N}]{0,10}(?:resume|close|note)(?![\p{L}\p{N}])/iu;
const ourExplanation = "In a line of its own:";
/** Characters that are invisible, or only modify others. */
const invisible = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Co}\p{Cn}\p{Cc}\u2800]/gu;
/** Line breaks of every kind except "\n". */
const lineBreak = /\r\n?|[\v\f\u0085\u2028\u2029]/gu;

/** All characters that NFKC maps to a number sign or that look like one, and the HTML entity. */
const signs = /[#\ufe5f\uff03♯⌗&]/u;
/** Maximum length of a line with a command, in characters. */
const longestLine = 4000;

/** Normalizes a line for command matching: replaces compatibility characters and removes invisible ones. */
function typed(line: string): string {
  if (line.length > longestLine || !signs.test(line)) return line;
  return composed(line.replaceAll("\t", " "), "NFKC")
    .replace(invisible, "")
    .replace(/^(\s*)[♯⌗]/u, "$1#");
}

/** Returns true when a line resembles a command but is invalid: after punctuation, markup or other text, misspelled, or
 *  decorated. Internal notes must not reach the customer. Also called for answers given on the command line. */
export function looksLikeCommand(line: string): boolean {
  if (!signs.test(line)) return false;
  if (line.length > longestLine) return commandInside.test(line) || /^[^\p{L}\p{N}]*[#\ufe5f\uff03♯⌗]/u.test(line);
  const plain = composed(line, "NFKD")
    .replace(/\p{M}/gu, "")
    .replace(invisible, "")
    .replace(/&(?:#0{0,4}35|#x0{0,4}23|num);/giu, "#")
    .replace(/[♯⌗]/gu, "#");
  const start = plain.replace(/^[^\p{L}\p{N}#]+/u, "");
  if (/^#[^\p{L}\p{N}]*\p{L}/u.test(start)) return true;
  return !plain.includes(ourExplanation) && commandInside.test(plain);
}

/** A command without its `#`. */
const bareCommand = /^(?:resume|close)[.!]*$/iu;
/** An acknowledgement that may have been meant for the customer. */
const yesOrNo = /^(?:yes|ja|oui|sí|si|sim|d'accord|vale|va bene)$/iu;

/** Parses a reply. `names` are the writer's names, used to find the sign-off. `several`: the writer was
 *  recently notified of several escalations, so text needs a number. */
export function readInstructions(body: string, names: readonly string[] = [], several = true): Instructions {
  // A thumbs-up reaction acknowledges the escalation; other reactions are ambiguous and returned as `slip`.
  const [tapped, liked, on] = reaction.exec(uncoloured(body).trim()) ?? [];
  if (tapped !== undefined && liked !== undefined) return readInstructions(`ok ${on ?? ""}`);
  if (tapped !== undefined) return { ...readInstructions(""), slip: tapped };
  const { words: all, resume, close, note } = commands(body);
  const words = withoutSignOff(all, names);
  const { number, rest, doubt } = numbered(words, several);
  const acknowledge = takes(rest) || (rest === "" && number !== null && !resume && !close && note === "");
  return {
    number,
    doubt,
    acknowledge,
    bare: rest === "",
    resume,
    close,
    note,
    text: acknowledge ? "" : rest,
    whole: acknowledge ? "" : words,
    ambiguous: yesOrNo.test(bare(rest)) || yesAndMore.test(bare(rest)),
    slip: (bareCommand.test(words) ? words : words.split("\n").find(looksLikeCommand)) ?? null,
  };
}

/** Removes the command lines. Everything after `#note` is the note. */
function commands(body: string): Pick<Instructions, "resume" | "close" | "note"> & { readonly words: string } {
  const words: string[] = [];
  let [resume, close] = [false, false];
  const lines: string[] = [];
  for (const line of body.replace(lineBreak, "\n").split("\n")) {
    const [, number, rest = ""] = (signs.test(line) && namedCommand.exec(typed(line))) || [];
    if (number === undefined) lines.push(line);
    else lines.push(number, rest);
  }
  for (const [at, line] of lines.entries()) {
    const [, name, more = ""] = (signs.test(line) && command.exec(typed(line))) || [];
    if (name === undefined) {
      words.push(line);
      continue;
    }
    if (name.toLowerCase() === "note") {
      const note = [more, ...lines.slice(at + 1)].join("\n").trim();
      return { words: words.join("\n").trim(), resume, close, note };
    }
    // Text after the command on its line is kept as text for the customer.
    if (more.trim() !== "") words.push(more);
    if (name.toLowerCase() === "resume") resume = true;
    else close = true;
  }
  return { words: words.join("\n").trim(), resume, close, note: "" };
}

interface Numbered {
  readonly number: number | null;
  readonly rest: string;
  readonly doubt: number | null;
}

/** Parses a number at the beginning, or after an "ok". */
function numbered(words: string, several: boolean): Numbered {
  const [whole, sign, digits, mark = ":", gap = ""] = named.exec(words) ?? [];
  if (whole !== undefined) {
    const rest = words.slice(whole.length).trim();
    const certain = sign === "#" || mark.includes(":") || gap.includes("\n") || rest === "" || takes(rest);
    const number = Number(digits);
    if (certain || (several && !amount.test(rest))) return { number, rest, doubt: null };
    const doubt = several || !amount.test(rest) ? number : null;
    return { number: null, rest: words, doubt };
  }
  const [, word = "", behind] = /^(\S+(?: it)?)\s+#?(\d{1,9})\s*[.!"”]*$/u.exec(words) ?? [];
  return behind !== undefined && yes.test(bare(word))
    ? { number: Number(behind), rest: word, doubt: null }
    : { number: null, rest: words, doubt: null };
}

const takes = (text: string): boolean => yes.test(bare(text)) || yesAndMore.test(bare(text));

/** Removes surrounding quotes, spaces and punctuation. */
function bare(text: string): string {
  // No acknowledgement is longer. The limit also bounds the regular expression, which is quadratic.
  if (text.length > 200) return text;
  return uncoloured(text).replace(/^[\s"“]+|[\s.,!"”]+$/gu, "");
}

/** Removes the skin tone of an emoji. */
const uncoloured = (text: string): string => text.replace(/\p{EMod}|\ufe0f/gu, "");

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
  // One more than are examined: the line before the first of them matters.
  const filled: number[] = [];
  for (let at = lines.length - 1; at >= 0 && filled.length <= most; at--)
    if (lines[at]?.trim() !== "") filled.unshift(at);
  const shown = filled.map((at) => composed(lines[at]?.trim() ?? ""));
  const called = names.map(wordsOf).filter((words) => words.length > 0);
  // A name inside a paragraph is part of the text.
  const apart = (at: number) => at === shown.length - 1 || filled[at - 1] !== (filled[at] ?? 0) - 1;
  const isLast = (at: number) => filled.slice(at).every((line, i) => line === (filled[at] ?? 0) + i);
  const begin = shown.findIndex(
    (_, at) =>
      at >= shown.length - most &&
      (begins(shown, at, called, apart(at)) ||
        (apart(at) && isLast(at) && isCard(shown.slice(at), called, shown[at - 1] ?? ":"))),
  );
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

/** Matches a paragraph of short lines with the full name and a telephone number or an address: a business card that begins
 *  with the company. `before`: the line above it. */
function isCard(lines: readonly string[], names: Names, before: string): boolean {
  return (
    !before.endsWith(":") &&
    lines.some((line) => wordsOf(line).length > 1 && isName(line, names, true)) &&
    lines.some((line) => /\+?\d[\d ()/.-]{6,24}\d|\S@\S|www\./u.test(line)) &&
    lines.every((line) => line.length <= longest && !/[.!?:]$/u.test(line))
  );
}

const isFarewell = (line: string): boolean => {
  const parts = line.split("/").map((part) => part.replace(/^[\s*_]+|[\s*_.,!;–—-]+$/gu, ""));
  return parts.every((part) => farewell.test(part));
};

/** Matches the name alone, or before a title. On the first line a single word of it may be the addressee. */
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

/** Matches a short line that begins with a name, optionally after a title, or with the initials. */
function isNamed(line: string, names: Names): boolean {
  const words = wordsOf(line).slice(0, 2);
  const isIn = (name: readonly string[]) => [...name, initialsOf(name)].some((word) => words.includes(word));
  return line.length <= longest && names.some(isIn);
}

const initialsOf = (name: readonly string[]): string => name.map((word) => word.charAt(0)).join("");

const wordsOf = (text: string): readonly string[] =>
  composed(text)
    .toLowerCase()
    .match(/\p{L}[\p{L}\p{M}'’-]+/gu) ?? [];
