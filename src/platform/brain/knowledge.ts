// Splits knowledge into passages that read well as an answer: by headings, then by paragraphs.

import type { Hit, KnowledgePassage, Passages } from "../store/files.ts";

/** Maximum length of a passage in characters. */
const passageLength = 1_200;

/** `file` names the source when the text has neither a title nor a heading. */
export function passagesOf(title: string | undefined, text: string, file: string | null): KnowledgePassage[] {
  const passages: KnowledgePassage[] = [];
  for (const section of sections(text)) {
    const heading = [title, section.heading].filter(Boolean).join(": ");
    const name = heading || file || firstWords(section.body);
    for (const part of parts(section.body)) passages.push({ title: name, text: part });
  }
  return passages;
}

/** Splits at Markdown headings. A text without headings is one section. */
function sections(text: string): { readonly heading: string; readonly body: string }[] {
  const found: { heading: string; lines: string[] }[] = [{ heading: "", lines: [] }];
  for (const line of text.split(/\r?\n/)) {
    const heading = /^#{1,6}\s+(\S.*)$/.exec(line)?.[1];
    if (heading) found.push({ heading: heading.trim(), lines: [] });
    else found.at(-1)?.lines.push(line);
  }
  return found
    .map(({ heading, lines }) => ({ heading, body: lines.join("\n").trim() }))
    .filter(({ body }) => body !== "");
}

/** Packs whole paragraphs up to the maximum length. Splits a longer paragraph between words. */
function parts(body: string): string[] {
  const out: string[] = [];
  let part = "";
  for (const paragraph of body.split(/\n\s*\n/).flatMap(pieces)) {
    if (part && part.length + paragraph.length > passageLength) {
      out.push(part);
      part = "";
    }
    part = part ? `${part}\n\n${paragraph}` : paragraph;
  }
  return part ? [...out, part] : out;
}

function pieces(paragraph: string): string[] {
  const out: string[] = [];
  let rest = paragraph.trim();
  while (rest.length > passageLength) {
    const space = rest.lastIndexOf(" ", passageLength);
    const end = space > 0 ? space : passageLength;
    out.push(rest.slice(0, end).trim());
    rest = rest.slice(end).trim();
  }
  return rest ? [...out, rest] : out;
}

function firstWords(text: string): string {
  const words = text.split(/\s+/).slice(0, 8).join(" ");
  return words.length < text.trim().length ? `${words} …` : words;
}

// Answers from the knowledge base: selects the passage that shares most words with the question. Full-text
// search always finds something, so a threshold decides whether the result is good enough.

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
