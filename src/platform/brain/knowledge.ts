// Answers without a model: the first rule whose pattern matches the question, or a passage of the knowledge.

import type { Hit, KnowledgePassage, Passages } from "../store/files.ts";

/** The operator writes the pattern and a customer writes the text, so both lengths are limited. */
const maxPatternLength = 200;
const maxTextLength = 4_000;
/** Rejects nested quantifiers such as `(a+)+`, which take exponential time on a crafted text. */
const nestedRepeat = /\([^()]*[*+{][^()]*\)[*+{]/;

export interface Rule {
  readonly pattern: RegExp;
  readonly answer: string;
}

/** Validates a rule's `when`. Returns the error message, or null. */
export function ruleProblem(when: string): string | null {
  const source = expression(when);
  if (source === null) {
    return phrases(when).length === 0 ? "no words to look for" : null;
  }
  if (source.length > maxPatternLength) return `longer than ${maxPatternLength} characters`;
  if (nestedRepeat.test(source)) return "a repeated group that repeats inside may take for ever";
  try {
    return new RegExp(source, "iu").test("") ? "it matches everything" : null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

interface RuleDefinition {
  /** `refund|money back`: whole words or phrases, case-insensitive; or `/a regular expression/`. */
  readonly when: string;
  readonly answer: string;
}

/** Throws on a `when` that `ruleProblem` rejects. */
export function compileRules(rules: readonly RuleDefinition[]): Rule[] {
  return rules.map(({ when, answer }) => ({ pattern: patternOf(when), answer }));
}

export function answerByRule(rules: readonly Rule[], question: string): string | null {
  return rules.find((rule) => matches(rule, question))?.answer ?? null;
}

/** Returns whether the rule's pattern matches the text. Only the first part of a long text is searched. */
export function matches({ pattern }: Rule, text: string): boolean {
  return pattern.test(text.slice(0, maxTextLength).replace(/\s+/g, " "));
}

function patternOf(when: string): RegExp {
  const source = expression(when);
  if (source !== null) return new RegExp(source, "iu");
  const words = phrases(when).map((phrase) => phrase.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&"));
  return new RegExp(`(?<![\\p{L}\\p{N}])(?:${words.join("|")})(?![\\p{L}\\p{N}])`, "iu");
}

function expression(when: string): string | null {
  return /^\/(.+)\/$/s.exec(when.trim())?.[1] ?? null;
}

function phrases(when: string): string[] {
  return when
    .split("|")
    .map((phrase) => phrase.trim().replace(/\s+/g, " "))
    .filter(Boolean);
}

// Splits knowledge into passages that read well as an answer: by headings, then by paragraphs.

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
