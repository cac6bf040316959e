// Where a sentence ends: the first one is spoken while the rest is still on its way.

import { primary } from "./phrases.ts";
import { allAbbreviations, numbered, wordsOf } from "./words.ts";

const segmenters = new Map<string, Intl.Segmenter>();

function segmenterFor(lang: string): Intl.Segmenter {
  const known = segmenters.get(lang);
  if (known !== undefined) return known;
  const made = new Intl.Segmenter(lang, { granularity: "sentence" });
  segmenters.set(lang, made);
  return made;
}

/** The sentences of a text, in order, trimmed, none empty; joined with a space they are the text again (but for white
 *  space). Abbreviations, initials, ordinals and numbers do not end one. */
export function sentences(text: string, lang = "en"): readonly string[] {
  const tag = primary(lang);
  const pieces = [...segmenterFor(/^[a-z]{2,3}$/.test(tag) ? tag : "en").segment(text)];
  const { ordinalStops } = wordsOf(lang);
  const found: string[] = [];
  for (const { segment } of pieces) {
    const piece = segment.trim().replace(/\s+/g, " ");
    const before = found.at(-1);
    if (piece === "") continue;
    if (before !== undefined && goesOn(before, piece, ordinalStops))
      found[found.length - 1] = `${before} ${piece}`;
    else found.push(piece);
  }
  return found;
}

/** Longer than any abbreviation with what stands before it. */
const longestWord = 200;

/** Whether what looks like a sentence's end is inside one. */
function goesOn(whole: string, next: string, ordinalStops: boolean): boolean {
  // Abbreviations follow each other: looking at all of them each time would be quadratic.
  const before = whole.slice(-longestWord);
  if (!/[\p{L}\p{N}]/u.test(next) || !/[\p{L}\p{N}]/u.test(before)) return true;
  const word = /(?:^|[\s(„“"'])([\p{L}\p{N}.]*[\p{L}\p{N}])\.$/u.exec(before)?.[1]?.toLowerCase();
  if (word === undefined) return false;
  if (/^\p{L}$/u.test(word) && /(?:^|\s)\p{Lu}\.$/u.test(before)) return true; // an initial: J. Smith
  if (/^\p{L}$/u.test(word) && /^\p{L}\./u.test(next)) return true; // written apart: z. B.
  if (/^(?:\p{L}\.)+\p{L}$/u.test(word)) return true; // U.S., e.g.
  if (/^\d{1,2}$/.test(word)) return ordinalStops && /^\p{L}/u.test(next);
  if (numbered.has(word)) return /^\p{N}/u.test(next);
  return allAbbreviations.has(word);
}

/** The first `most` (at least 1) sentences, to be said now, and what is kept for when the caller asks to hear more. */
export function limit(
  all: readonly string[],
  most: number,
): { readonly now: readonly string[]; readonly rest: readonly string[] } {
  const kept = Math.max(1, most);
  return { now: all.slice(0, kept), rest: all.slice(kept) };
}
