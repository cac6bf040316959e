// A model behind an OpenAI-compatible address: POST {url}/chat/completions.

import * as z from "zod";
import type { ModelDefinition } from "../definition.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

const maxAnswerBytes = 1024 * 1024;
const completion = z.looseObject({
  choices: z.array(z.looseObject({ message: z.looseObject({ content: z.string().min(1) }) })).min(1),
  usage: z.looseObject({ total_tokens: z.number().nonnegative() }).optional().catch(undefined),
});

/** The model's words, and how many tokens it says they took. Throws when it is not reached in time, refuses, or says nothing readable. */
export async function complete(
  model: ModelDefinition,
  messages: readonly ChatMessage[],
  signal: AbortSignal,
): Promise<{ readonly text: string; readonly tokens: number }> {
  const response = await fetch(`${model.url.replace(/\/+$/, "")}/chat/completions`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      ...(model.key === null ? {} : { authorization: `Bearer ${model.key}` }),
    },
    body: JSON.stringify(requestOf(model, messages)),
    signal: AbortSignal.any([signal, AbortSignal.timeout(model.timeoutMs)]),
    redirect: "error",
  });
  const body = await bounded(response);
  if (!response.ok) throw new Error(`asking the model: HTTP ${response.status}`);
  const answer = completion.safeParse(parsed(body));
  const text = answer.success ? answer.data.choices[0]?.message.content.trim() : "";
  if (!text) throw new Error("asking the model: its answer has no text");
  return { text, tokens: Math.round((answer.success && answer.data.usage?.total_tokens) || 0) };
}

/** Only what is configured is said: many servers refuse parameters they do not know. */
function requestOf(model: ModelDefinition, messages: readonly ChatMessage[]): object {
  const { name, temperature, topP, reasoningEffort, outputSchema } = model;
  const schema = { name: "answer", strict: true, schema: outputSchema };
  return {
    model: name,
    temperature,
    ...(topP === null ? {} : { top_p: topP }),
    ...(reasoningEffort === null ? {} : { reasoning_effort: reasoningEffort }),
    ...(outputSchema === null ? {} : { response_format: { type: "json_schema", json_schema: schema } }),
    messages,
  };
}

/** Undefined when it is not JSON: the parser's own complaint would quote the answer, and end up in a log. */
function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

async function bounded(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.byteLength;
    if (bytes > maxAnswerBytes)
      throw new Error(`asking the model: its answer exceeds ${maxAnswerBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
