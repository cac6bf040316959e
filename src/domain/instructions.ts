// What a person who was told of an escalation writes back: a word that takes it, commands in lines of their own, and
// words for the customer. Quotes and marked signatures are gone already: the adapter trims them.
//
// A number in front is certainly an escalation's name where it stands alone ("417"), in a line of its own, before a colon
// ("417: On its way"), after a sign ("#417 On its way") or beside an "ok". Before other words ("417 On its way", "2 weeks")
// it is one only for somebody who was told of several, and not when it counts time or money: then we ask rather than guess.

import { withoutSignOff } from "./sign-off.ts";
import { composed } from "./squeeze.ts";

export interface Instructions {
  /** Which escalation is meant, where the person says so. */
  readonly number: number | null;
  /** A number in front that was taken for a part of the words, and may be a name all the same: to somebody who was told of
   *  several, one of theirs; to others, somebody else's. */
  readonly doubt: number | null;
  /** Nothing but "ok", or a number. */
  readonly acknowledge: boolean;
  /** No word but a number, or a command. */
  readonly bare: boolean;
  /** The conversation goes back to the agent. */
  readonly resume: boolean;
  readonly close: boolean;
  /** What is kept among us; empty for none. */
  readonly note: string;
  /** What goes to the customer; empty for nothing. */
  readonly text: string;
  /** The same, with the number that it began with: where that was no escalation's. */
  readonly whole: string;
  /** The word may have been an answer to the customer. */
  readonly ambiguous: boolean;
  /** The first line that looks like a command and is none; null when there is none. */
  readonly slip: string | null;
}

/** "ok", "OK 417!", "417 ok", a thumb: the whole message. In the languages of the opt-out words. */
const yes =
  /^(?:ok|okay|okey|oké|ack|yes|ja|oui|sí|si|sim|d'accord|got it|taken|mine|übernommen|vale|va bene|k|👌|✅|👍)$/iu;
/** The same with more than that one word: "ok thanks", "Ok 👍", "I'll take it". */
const yesAndMore =
  /^(?:(?:ok|okay|okey|oké|yes|ja|oui|sí|si|sim|👍)(?:[\s,.!]+(?:ok|okay|👍|thanks|thank you|thx|danke|merci|gracias|grazie|obrigad[oa]|bedankt|got it|on it))+|(?:(?:ok|okay|yes)[\s,.!]+)?(?:i['’]?m on it|on it|i(?:['’]ll| will)? take (?:it|this)|ich übernehme(?: das| es)?))$/iu;
/** What phones make of a tap on a message of ours: the reaction, and the message. */
const reaction =
  /^[\s\u200a\u200b]*(?:(liked|loved|👍|❤)|disliked|emphasized|laughed at|questioned)[\s\u200a\u200b]+(?:to )?[“"](?:(?:(?:still open: )?escalation )?(\d{1,9})[:,])?.*[”"]$/isu;
/** Amounts, times and ranges begin with digits, too: "10.50", "2:30", "3-5". */
const named = /^(#?)(\d{1,9})(?:([:,.-]*)([ \t]*\n\s*|[ \t]+|$)|:(?=\D))/u;
/** What is counted, in the languages of the opt-out words; perhaps as a range: "2 or 3 weeks". */
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
/** "417 #close": a name and a command in one line. */
const namedCommand = /^([ \t]*#?\d{1,9}[:,.-]*)[ \t]+(#[ \t]*\p{L}.*)$/u;
/** A command behind other words of a line; our own notification explains the commands in such a line. */
const commandInside = /(?<![\p{L}\p{N}])#[^\p{L}\p{N}]{0,10}(?:resume|close|note)(?![\p{L}\p{N}])/iu;
const ourExplanation = "In a line of its own:";
/** Characters that are not seen, or only decorate others. */
const invisible = /[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Co}\p{Cn}\p{Cc}\u2800]/gu;
/** Line breaks of every kind. */
const lineBreak = /\r\n?|[\n\v\f\u0085\u2028\u2029]/u;

/** Everything that NFKC or the eye makes a number sign of, and HTML's spelling of it. */
const signs = /[#\ufe5f\uff03♯⌗&]/u;
/** Nobody types a longer line around a command. */
const longestLine = 4000;

/** A line as a command may be typed: compatibility characters are what they look like, invisible ones are left out. */
function typed(line: string): string {
  if (line.length > longestLine || !signs.test(line)) return line;
  return composed(line.replaceAll("\t", " "), "NFKC")
    .replace(invisible, "")
    .replace(/^(\s*)[♯⌗]/u, "$1#");
}

/** Whether a line looks like a command and is none: behind punctuation, markup or other words, misspelled, or decorated. What
 *  was meant as a note must not reach the customer. Also called for answers that are given on the command line. */
export function looksLikeCommand(line: string): boolean {
  if (!signs.test(line)) return false;
  if (line.length > longestLine)
    return commandInside.test(line) || /^[^\p{L}\p{N}]*[#\ufe5f\uff03♯⌗]/u.test(line);
  const plain = composed(line, "NFKD")
    .replace(/\p{M}/gu, "")
    .replace(invisible, "")
    .replace(/&(?:#0{0,4}35|#x0{0,4}23|num);/giu, "#")
    .replace(/[♯⌗]/gu, "#");
  const start = plain.replace(/^[^\p{L}\p{N}#]+/u, "");
  if (/^#[^\p{L}\p{N}]*\p{L}/u.test(start)) return true;
  return !plain.includes(ourExplanation) && commandInside.test(plain);
}

/** One that lacks its sign. */
const bareCommand = /^(?:resume|close)[.!]*$/iu;
/** A word that takes it, and may have been meant for the customer. */
const yesOrNo = /^(?:yes|ja|oui|sí|si|sim|d'accord|vale|va bene)$/iu;

/** `names`: of the writer, so that it is known where they sign. `several`: the writer was told of more than one lately, so
 *  that words need a name. */
export function readInstructions(body: string, names: readonly string[] = [], several = true): Instructions {
  // A thumb takes what it is put on; what anything else means, nobody knows.
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

/** Takes the command lines out; what follows `#note`, to the end, is the note. */
function commands(
  body: string,
): Pick<Instructions, "resume" | "close" | "note"> & { readonly words: string } {
  const words: string[] = [];
  let [resume, close] = [false, false];
  const lines = body.split(lineBreak).flatMap((line) => namedCommand.exec(typed(line))?.slice(1) ?? [line]);
  for (const [at, line] of lines.entries()) {
    const [, name, more = ""] = command.exec(typed(line)) ?? [];
    if (name === undefined) {
      words.push(line);
      continue;
    }
    if (name.toLowerCase() === "note") {
      const note = [more, ...lines.slice(at + 1)].join("\n").trim();
      return { words: words.join("\n").trim(), resume, close, note };
    }
    // Words behind the command in its line are not lost: they are the customer's.
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

/** A number at the beginning, or behind an "ok". */
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

/** Without what stands around a word. */
function bare(text: string): string {
  // No word that takes an escalation is longer; and the search for what stands at the end is quadratic.
  if (text.length > 200) return text;
  return uncoloured(text).replace(/^[\s"“]+|[\s.,!"”]+$/gu, "");
}

/** A thumb of any colour is a thumb. */
const uncoloured = (text: string): string => text.replace(/\p{EMod}|\ufe0f/gu, "");
