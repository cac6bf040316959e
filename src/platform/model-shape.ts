// An agent's model in its definition.

import * as z from "zod";
import { listedModel, reasoningEfforts, reasoningModes } from "../wire/agent.ts";
import { parsed } from "./brain/json.ts";
import { schemaProblem } from "./brain/schema.ts";

const address = z.url({ protocol: /^https?$/ }).superRefine((given, context) => {
  if (!URL.canParse(given)) return;
  const { username, password } = new URL(given);
  if (username || password)
    context.addIssue({ code: "custom", message: "a key stands under `key`, not in the URL" });
});

/** What a header cannot carry would be quoted in the error's message, and so in the log. */
const key = z.string().regex(/^[\x21-\x7e]+$/, "a key has visible ASCII characters alone");

const outputSchema = z.union([z.record(z.string(), z.unknown()), z.string()]).transform((given, context) => {
  const text = typeof given === "string" ? given : JSON.stringify(given);
  const schema = parsed(text);
  const isObject = typeof schema === "object" && schema !== null && !Array.isArray(schema);
  const problem = isObject
    ? schemaProblem(schema as { [key: string]: unknown })
    : "a JSON Schema is an object";
  if (problem === null) return { text, schema: schema as { [key: string]: unknown } };
  context.addIssue({ code: "custom", message: problem });
  return z.NEVER;
});

export const modelBlock = z.strictObject({
  url: address,
  /** `chat`: /chat/completions; `responses`: /responses. */
  api: z.enum(["chat", "responses"]).default("chat"),
  key: key.optional(),
  name: z.string().min(1),
  /** What the interface shows in place of a name that it does not list. */
  listed_as: z
    .string()
    .regex(listedModel, "a name of the interface's list, such as <model_family>-5-mini or o3-mini")
    .optional(),
  /** Null: the model's own. Some refuse any. */
  temperature: z.number().min(0).max(2).nullable().default(0.2),
  top_p: z.number().min(0).max(1).optional(),
  reasoning_effort: z.enum(reasoningEfforts).optional(),
  /** Only `responses` has it. */
  reasoning_mode: z.enum(reasoningModes).optional(),
  /** A JSON Schema, as YAML or as a string of JSON; the model's answers are then JSON that fits it. */
  output_json_schema: outputSchema.optional(),
  output_json_schema_enabled: z.boolean().default(true),
  /** Seconds without a sign of life. */
  timeout: z.number().positive().max(600).default(30),
  /** Seconds for an answer with everything. */
  total_timeout: z.number().positive().max(3600).default(300),
});
