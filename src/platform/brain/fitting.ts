// Retries once when an answer does not match the schema, and sends the validation errors to the model.

import type { ModelDefinition } from "../definition.ts";
import { type Asking, type ChatMessage, type Completion, complete } from "./model.ts";
import type { Fit } from "./schema.ts";

/** Throws for the same reasons as `complete`, and when the second answer does not match the schema
 *  either. */
export async function completeFitting(
  model: ModelDefinition,
  messages: readonly ChatMessage[],
  asking: Asking,
  fit: Fit,
): Promise<Completion> {
  const first = await complete(model, messages, asking);
  const misfit = fit(first.text);
  if (!misfit) return first;
  const again: ChatMessage[] = [
    ...messages,
    { role: "assistant", content: first.text },
    {
      role: "user",
      content: `Your answer does not fit its JSON schema: ${misfit.complaint}. Answer again, with nothing but JSON that fits.`,
    },
  ];
  const second = await complete(model, again, asking);
  const still = fit(second.text);
  if (still) throw new Error(`asking the model: its answer does not fit the schema (${still.rule})`);
  return { text: second.text, tokens: first.tokens + second.tokens };
}
