// What a person who was told of an escalation writes back: a word that takes it, commands in lines of their own, and
// words for the customer. Quotes and marked signatures are gone already: the adapter trims them.

import { withoutSignOff } from "./sign-off.ts";

export interface Instructions {
  /** Which escalation is meant, where the person says so. */
  readonly number: number | null;
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
const named = /^#?(\d{1,9})(?:[:,.-]*(?:\s+|$)|:(?=\D))/u;
const command = /^[ \t]*#[ \t]*(resume|close|note)\b[ \t]*(.*)$/iu;
/** Looks like a command, and is none: what was meant to stay among us must not go out for a slip of the finger. */
const slip = /^[ \t]*#[ \t]*\p{L}/u;
/** One that lacks its sign. */
const bareCommand = /^(?:resume|close)[.!]*$/iu;
/** A word that takes it, and may have been meant for the customer. */
const yesOrNo = /^(?:yes|ja|oui|sí|si|sim|d'accord|vale|va bene)$/iu;

/** `names`: of the writer, so that it is known where they sign. */
export function readInstructions(body: string, names: readonly string[] = []): Instructions {
  // A thumb takes what it is put on; what anything else means, nobody knows.
  const [tapped, liked, on] = reaction.exec(uncoloured(body).trim()) ?? [];
  if (tapped !== undefined && liked !== undefined) return readInstructions(`ok ${on ?? ""}`);
  if (tapped !== undefined) return { ...readInstructions(""), slip: tapped };
  const { words: all, resume, close, note } = commands(body);
  const words = withoutSignOff(all, names);
  const [number, rest] = numbered(words);
  const acknowledge = takes(rest) || (rest === "" && number !== null && !resume && !close && note === "");
  return {
    number,
    acknowledge,
    bare: rest === "",
    resume,
    close,
    note,
    text: acknowledge ? "" : rest,
    whole: acknowledge ? "" : words,
    ambiguous: yesOrNo.test(bare(rest)) || yesAndMore.test(bare(rest)),
    slip: (bareCommand.test(words) ? words : words.split("\n").find((line) => slip.test(line))) ?? null,
  };
}

/** Takes the command lines out; what follows `#note`, to the end, is the note. */
function commands(
  body: string,
): Pick<Instructions, "resume" | "close" | "note"> & { readonly words: string } {
  const words: string[] = [];
  let [resume, close] = [false, false];
  const lines = body.replace(/\r\n?/g, "\n").split("\n");
  for (const [at, line] of lines.entries()) {
    const [, name, more = ""] = command.exec(line) ?? [];
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

/** A number at the beginning, or behind an "ok". */
function numbered(words: string): [number | null, string] {
  const [whole, digits] = named.exec(words) ?? [];
  if (whole !== undefined) return [Number(digits), words.slice(whole.length).trim()];
  const [, word = "", behind] = /^(\S+(?: it)?)\s+#?(\d{1,9})\s*[.!"”]*$/u.exec(words) ?? [];
  return behind !== undefined && yes.test(bare(word)) ? [Number(behind), word] : [null, words];
}

const takes = (text: string): boolean => yes.test(bare(text)) || yesAndMore.test(bare(text));

/** Without what stands around a word. */
const bare = (text: string): string => uncoloured(text).replace(/^[\s"“]+|[\s.,!"”]+$/gu, "");

/** A thumb of any colour is a thumb. */
const uncoloured = (text: string): string => text.replace(/\p{EMod}|\ufe0f/gu, "");
