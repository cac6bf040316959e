// Answers by rule: the first rule whose words occur in the question.

import type { RuleDefinition } from "../definition.ts";

/** A regular expression is the operator's, the text it meets is a stranger's: both are bounded. */
const maxPatternLength = 200;
const maxTextLength = 4_000;
/** `(a+)+` and its kin take exponential time on a text made for it. */
const nestedRepeat = /\([^()]*[*+{][^()]*\)[*+{]/;

export interface Rule {
  readonly pattern: RegExp;
  readonly answer: string;
}

/** What is wrong with a rule's `when`; null when nothing is. */
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

/** Throws on a `when` that `ruleProblem` would refuse. */
export function compileRules(rules: readonly RuleDefinition[]): Rule[] {
  return rules.map(({ when, answer }) => ({ pattern: patternOf(when), answer }));
}

export function answerByRule(rules: readonly Rule[], question: string): string | null {
  return rules.find((rule) => matches(rule, question))?.answer ?? null;
}

/** Does the text contain what the rule looks for? */
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
