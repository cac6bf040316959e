// Answers from knowledge: the passage that shares most of the question's words, or none. Full-text search alone always
// finds something; being honest needs a threshold.

import type { Hit, Passages } from "../store/passages.ts";

/** At least so many are compared. */
const candidates = 8;
const maxWords = 24;

/** Words that say nothing about the subject. */
const empty = new Set(
  `a about after all also am an and any are as at be because been before but by can could did do does for from get had
  has have hello hi how i if in into is it its just know like me my no not of on or our please so some tell than thank
  thanks that the their them then there they this to us want was we were what when where which who why will with would
  you your dear regards best`.split(/\s+/),
);

/** Passages worth answering from, best first. */
export function findPassages(passages: Passages, agentId: string, question: string, limit: number): Hit[] {
  const words = meaningfulWords(question);
  const needed = words.length <= 2 ? 1 : words.length <= 8 ? 2 : 3;
  return passages
    .search(agentId, words, Math.max(candidates, limit))
    .map((hit, rank) => ({
      hit,
      rank,
      shared: words.filter((word) => passages.contains(hit.rowid, word)).length,
    }))
    .filter(({ shared }) => shared >= needed)
    .sort((a, b) => b.shared - a.shared || a.rank - b.rank)
    .slice(0, limit)
    .map(({ hit }) => hit);
}

/** The passage as an answer: what it says, and where it is from. */
export function quote({ title, text }: Hit): string {
  return `This is what I found about it:\n\n${text}\n\nSource: ${title}`;
}

/** The distinct words of the question that carry meaning, in lower case. */
export function meaningfulWords(question: string): string[] {
  const words = question.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return [...new Set(words)].filter((word) => word.length > 1 && !empty.has(word)).slice(0, maxWords);
}
