// An answer that must fit a schema is asked for a second time when it does not, with what is wrong with it; no third time.

import type { ModelDefinition } from "../definition.ts";
import { type Asking, type ChatMessage, type Completion, complete } from "./model.ts";
import type { Fit } from "./schema.ts";

/** Throws as `complete` does, and when the second answer does not fit either. */
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
