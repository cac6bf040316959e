// Answers from the knowledge base: selects the passage that shares most words with the question. Full-text
// search always finds something, so a threshold decides whether the result is good enough.

import type { Hit, Passages } from "../store/passages.ts";

/** Number of search results to compare. */
const candidates = 8;
const maxWords = 24;

/** Stop words. */
const empty = new Set(
  `a about after all also am an and any are as at be because been before but by can could did do does for from get had
  has have hello hi how i if in into is it its just know like me my no not of on or our please so some tell than thank
  thanks that the their them then there they this to us want was we were what when where which who why will with would
  you your dear regards best`.split(/\s+/),
);

/** Returns the passages above the threshold, best first. */
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

/** Formats a passage as an answer with its source. */
export function quote({ title, text }: Hit): string {
  return `This is what I found about it:\n\n${text}\n\nSource: ${title}`;
}

/** Returns the distinct words of the question in lower case, without stop words. */
export function meaningfulWords(question: string): string[] {
  const words = question.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  return [...new Set(words)].filter((word) => word.length > 1 && !empty.has(word)).slice(0, maxWords);
}
