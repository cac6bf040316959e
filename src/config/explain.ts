// Converts zod's issues to messages with a fix.

import type * as z from "zod";
import { wrongTypeText } from "../ops/type-text.ts";
import type { Path } from "./document.ts";
import { descriptionAt, knownKeys, type Shape, unitAt } from "./json-schema.ts";
import { didYouMean, nearest } from "./nearest.ts";

/** A problem at a path whose position in the file is not resolved yet. */
export interface SchemaFinding {
  readonly path: Path;
  readonly of: "key" | "value";
  readonly message: string;
  readonly fix: string;
}

/** Returns a finding; most are about the value. */
export const findingAt = (path: Path, message: string, fix: string, of: "key" | "value" = "value"): SchemaFinding => ({
  path,
  of,
  message,
  fix,
});

type Issue = z.core.$ZodIssue;

export interface ExplainScope {
  readonly input: unknown;
  readonly shape: Shape;
  /** Known keys in addition to those of the shape's top block. */
  readonly otherKeys?: readonly string[];
}

/** One issue may yield several findings: an object can have many unknown keys. */
export function explain(issue: Issue, scope: ExplainScope): readonly SchemaFinding[] {
  const path = issue.path.map((step) => (typeof step === "number" ? step : String(step)));
  const describe = descriptionAt(scope.shape, path);
  const at = (message: string, fix: string, of: "key" | "value" = "value"): readonly SchemaFinding[] => [
    { path, of, message, fix },
  ];
  switch (issue.code) {
    case "unrecognized_keys":
      return issue.keys.map((key) => unknownKey(key, path, scope));
    case "invalid_type": {
      const given = valueAt(scope.input, path);
      const unit = unitAt(scope.shape, path);
      if (typeof given === "number" && unit !== undefined)
        return at(`has no unit: ${given}`, unitRemedy(unit, given) ?? "give it a unit");
      if (issue.expected === "object" && given !== undefined && given !== null) {
        const known = knownKeys(scope.shape, path).join(", ");
        if (known !== "") return at(wrongTypeText("object", given), `write its keys in lines below it: ${known}`);
      }
      // The author of a schema may know the form that the text must have.
      if (!standardType.test(issue.message) && given !== undefined && given !== null)
        return at(issue.message, describe ?? "correct the value");
      return at(...wrongType(issue.expected, given, path, describe));
    }
    case "invalid_value": {
      const given = valueAt(scope.input, path);
      const choices = issue.values.map(String);
      if (given === undefined) return at("is missing", `add it: one of ${choices.join(", ")}`, "key");
      const word = typeof given === "string" ? given : "";
      return at(`must be one of ${choices.join(", ")}`, didYouMean(word, choices, "use one of these"));
    }
    case "invalid_union":
      return closestBranch(issue.errors, valueAt(scope.input, path)).flatMap((inner) =>
        explain({ ...inner, path: [...issue.path, ...inner.path] }, scope),
      );
    case "invalid_key":
      return at(issue.issues[0]?.message ?? "is not a possible name", "choose another name", "key");
    case "too_small":
    case "too_big":
      return at(...wrongSize(issue, describe));
    case "custom":
      return at(issue.message, String(issue.params?.["fix"] ?? describe ?? "correct the value"));
    case "invalid_format": {
      const unit = unitAt(scope.shape, path);
      const remedy = unit && unitRemedy(unit, valueAt(scope.input, path));
      return at(issue.message, remedy ?? describe ?? "correct the value");
    }
    case "not_multiple_of":
    case "invalid_element":
      return at(issue.message, describe ?? "correct the value");
  }
}

const unitsOf: Readonly<Record<string, readonly string[]>> = {
  duration: ["ms", "s", "m", "h", "d"],
  size: ["B", "KB", "MB", "GB"],
};

/** Suggests the notation of the quantity that was probably meant. */
function unitRemedy(unit: string, given: unknown): string | undefined {
  const known = unitsOf[unit];
  if (known === undefined) return undefined;
  const amount = /^\s*(\d+(?:\.\d+)?)\s*$/.exec(String(given))?.[1];
  if (amount === undefined) return `write a number and one of ${known.join(", ")}, without a space`;
  const shown = known.slice(1).map((name) => `${amount}${name}`);
  return `give it a unit: ${shown.slice(0, -1).join(", ")} or ${shown.at(-1)}`;
}

function unknownKey(key: string, path: Path, scope: ExplainScope): SchemaFinding {
  const known = [...knownKeys(scope.shape, path), ...(path.length === 0 ? (scope.otherKeys ?? []) : [])];
  const fix = didYouMean(key, known, `remove it; known here: ${known.join(", ")}`);
  return { path: [...path, key], of: "key", message: "is not a known key", fix };
}

function wrongType(expected: string, value: unknown, path: Path, describe?: string): [string, string, "key" | "value"] {
  const key = path.at(-1);
  if (value === undefined) return ["is missing", `add ${key}${describe === undefined ? "" : ` (${describe})`}`, "key"];
  if (value === null) return ["is empty", "give it a value, or remove the key", "key"];
  const message = wrongTypeText(expected, value);
  // An unquoted phone number has lost its plus sign in YAML.
  if (expected === "string" && typeof value === "number" && value > 999_999)
    return [message, `put it in quotes, as it was written: "${value}", or "+${value}"`, "value"];
  if (expected === "string" && typeof value !== "object")
    return [message, `put it in quotes: "${JSON.stringify(value)}"`, "value"];
  if (["number", "int"].includes(expected) && typeof value === "string" && /^\d+$/.test(value))
    return [message, "remove the quotes", "value"];
  if (expected === "boolean") return [message, "write true or false, without quotes", "value"];
  if (expected === "array") return [message, "write it as a list: [ ... ]", "value"];
  return [message, describe ?? "correct the value", "value"];
}

/** The author of a schema may give a limit or a type its own message, which takes precedence over ours: zod's begin like this. */
const standardSize = /^Too (?:small|big)\b/;
const standardType = /^Invalid input\b/;

function wrongSize(
  issue: z.core.$ZodIssueTooSmall | z.core.$ZodIssueTooBig,
  describe = "correct the value",
): [string, string] {
  if (!standardSize.test(issue.message)) return [issue.message, describe];
  const unit = { string: " characters", array: " entries" }[issue.origin as string];
  const least = issue.code === "too_small";
  if (least && issue.minimum === 1 && unit !== undefined)
    return ["is empty", issue.origin === "array" ? "give it at least one entry" : describe];
  const limit = `${least ? "least" : "most"} ${least ? issue.minimum : issue.maximum}`;
  if (unit !== undefined) return [`must have at ${limit}${unit}`, describe];
  return [`must be at ${limit}`, least ? "raise it" : "lower it"];
}

/** Selects the alternative that matches best: same type first, then the deepest failure, then the fewest issues. */
function closestBranch(branches: readonly (readonly Issue[])[], value: unknown): readonly Issue[] {
  const depth = (issues: readonly Issue[]): number => Math.max(0, ...issues.map((issue) => issue.path.length));
  const misfit = (issues: readonly Issue[]): number => Math.max(0, ...issues.map((issue) => misfitOf(issue, value)));
  if (value === undefined) return branches[0] ?? [];
  const ranked = [...branches].sort((a, b) => misfit(a) - misfit(b) || depth(b) - depth(a) || a.length - b.length);
  return ranked[0] ?? [];
}

/** Distance of a value from an alternative: 2 for another type, 1 for an unrelated string, otherwise 0. */
function misfitOf(issue: Issue, value: unknown): number {
  if (issue.path.length > 0) return 0;
  if (issue.code === "invalid_type") return 2;
  const related =
    typeof value === "string" && issue.code === "invalid_value" && nearest(value, issue.values.map(String));
  return issue.code === "invalid_value" && !related ? 1 : 0;
}

function valueAt(root: unknown, path: Path): unknown {
  let value = root;
  for (const step of path) value = (value as Record<string | number, unknown> | null | undefined)?.[step];
  return value;
}
