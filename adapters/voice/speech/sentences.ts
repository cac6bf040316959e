// Splits text into sentences, so that the first one is spoken while the rest is still being sent.

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
    if (before !== undefined && goesOn(before, piece, ordinalStops))
      found[found.length - 1] = `${before} ${piece}`;
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
