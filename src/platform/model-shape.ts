// Schema of an agent's `model` block.

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

/** Rejects characters that a header cannot carry: the HTTP client's error would quote the key in the
 *  log. */
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
  /** Name that the API reports when the model's own name is not in its list. */
  listed_as: z
    .string()
    .regex(listedModel, "a name of the interface's list, such as <model_family>-5-mini or o3-mini")
    .optional(),
  /** Null leaves the parameter out. Some models reject it. */
  temperature: z.number().min(0).max(2).nullable().default(0.2),
  top_p: z.number().min(0).max(1).optional(),
  reasoning_effort: z.enum(reasoningEfforts).optional(),
  /** Supported by `responses` only. */
  reasoning_mode: z.enum(reasoningModes).optional(),
  /** JSON Schema as YAML or as a JSON string. The model's answers must then be JSON that matches it. */
  output_json_schema: outputSchema.optional(),
  output_json_schema_enabled: z.boolean().default(true),
  /** Idle timeout in seconds. */
  timeout: z.number().positive().max(600).default(30),
  /** Total timeout in seconds, including retries. */
  total_timeout: z.number().positive().max(3600).default(300),
});
