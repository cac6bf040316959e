// Validates a YAML text with a schema and reports all errors at once: file, line, key and problem.

import { LineCounter, parseDocument } from "yaml";
import type * as z from "zod";
import { locate, type Problem } from "./locate.ts";

export interface Read<T> {
  readonly value: T;
  /** The parsed value before validation. */
  readonly written: unknown;
  /** Throws when there are problems. */
  readonly refuse: (problems: readonly Problem[]) => void;
}

/** Throws one Error whose message has a line for each problem. */
export function readYaml<S extends z.ZodType>(schema: S, text: string, file: string): Read<z.output<S>> {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const broken = document.errors.map(
    (error) => `${file}:${lines.linePos(error.pos[0]).line}: ${error.message}`,
  );
  if (broken.length > 0) throw new Error(broken.join("\n"));
  const refuse = (problems: readonly Problem[]) => {
    if (problems.length > 0)
      throw new Error(problems.map((problem) => locate(document, lines, file, problem)).join("\n"));
  };
  const written: unknown = document.toJS({ maxAliasCount: 100 });
  const result = schema.safeParse(written);
  if (!result.success) refuse(result.error.issues.flatMap(problemsOf));
  return { value: result.data as z.output<S>, written, refuse };
}

function problemsOf(issue: z.core.$ZodIssue): Problem[] {
  if (issue.code !== "unrecognized_keys") return [{ path: issue.path, message: issue.message }];
  return issue.keys.map((key) => ({ path: [...issue.path, key], message: "no such key" }));
}
