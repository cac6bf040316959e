// Rule-based answers: the first rule whose pattern matches the question.

import type { RuleDefinition } from "../agents/definition.ts";

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
