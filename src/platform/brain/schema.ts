// Validates answers against an agent's JSON schema.

import { createRequire } from "node:module";
import { parsed } from "./response.ts";

type JsonSchema = { readonly [key: string]: unknown };

export interface Misfit {
  /** Error message for the model; may quote its answer. */
  readonly complaint: string;
  /** Location in the schema for the log, which must not quote the answer. */
  readonly rule: string;
}

const require = createRequire(import.meta.url);
/** Loads ajv on first use, which saves its memory when no agent has a schema. */
const newest = () => require("ajv/dist/2020.js") as typeof import("ajv/dist/2020.js");
const seventh = () => require("ajv") as typeof import("ajv");

/** Validates an answer; null means it matches. Throws when the schema itself is invalid. */
export type Fit = (answer: string) => Misfit | null;

export function fitOf(schema: JsonSchema): Fit {
  const old = /\/draft-0[67]\//.test(String(schema["$schema"]));
  const options = { strict: false, validateFormats: false, logger: false } as const;
  const ajv = old ? new (seventh().Ajv)(options) : new (newest().Ajv2020)(options);
  const validate = ajv.compile(schema);
  return (answer) => {
    const value = parsed(answer);
    if (value === undefined) return { complaint: "it is not JSON", rule: "it is not JSON" };
    if (validate(value)) return null;
    const [first] = validate.errors ?? [];
    return {
      complaint: ajv.errorsText(validate.errors, { dataVar: "answer" }).slice(0, 1_000),
      rule: first?.schemaPath ?? "#",
    };
  };
}

/** Returns the reason why the schema is invalid, or null. */
export function schemaProblem(schema: JsonSchema): string | null {
  try {
    fitOf(schema);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
