// Interface of the two OpenAI-compatible dialects, chat completions and responses.

import * as z from "zod";
import type { ModelDefinition } from "../agents/definition.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** What to request from the endpoint: a stream with usage, a stream without usage, or one complete response. */
export type Manner = "stream with usage" | "stream" | "whole";

export interface ModelQuestion {
  readonly model: ModelDefinition;
  readonly messages: readonly ChatMessage[];
  /** JSON Schema that the answer must match; null allows any text. */
  readonly schema: { readonly [key: string]: unknown } | null;
}

/** Content of one stream event, or of a complete response. */
export interface ModelPiece {
  /** Text to append to the answer. */
  readonly text?: string | undefined;
  /** Text that replaces everything received before. */
  readonly all?: string | undefined;
  readonly tokens?: number | undefined;
  /** True when the answer is complete. */
  readonly whole?: boolean;
  /** Reason why the answer failed. */
  readonly broken?: string;
  /** True when the server failed and one retry is allowed. */
  readonly again?: boolean;
}

export interface ModelDialect {
  /** Path relative to the model's address. */
  readonly path: string;
  /** Builds the request body. Sends only configured parameters, because many servers reject unknown ones. */
  request(question: ModelQuestion, manner: Manner): object;
  /** Parses one event or one complete response. `body` is JSON of unknown shape; null means the event is irrelevant. */
  read(body: unknown): ModelPiece | null;
}

/** Returns the fields of `given` that are not null. */
function configured<T extends object>(given: T): Partial<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) as Partial<T>;
}

// POST {url}/chat/completions, the dialect that nearly every model server supports.

const said = z.looseObject({ content: z.string().nullish().catch(null) });
const choice = z.looseObject({
  index: z.number().default(0).catch(0),
  /** Field of a streamed response. */
  delta: said.nullish().catch(null),
  /** Field of a response that is not streamed. */
  message: said.nullish().catch(null),
  finish_reason: z.string().nullish().catch(null),
});
const chunk = z.looseObject({
  choices: z.array(choice).nullish().catch(null),
  usage: z.looseObject({ total_tokens: z.number().nonnegative() }).nullish().catch(null),
  error: z.unknown().optional(),
});

export const chat: ModelDialect = {
  path: "/chat/completions",
  request({ model, messages, schema }, manner) {
    return {
      model: model.name,
      ...configured({
        temperature: model.temperature,
        top_p: model.topP,
        reasoning_effort: model.reasoningEffort,
        response_format: schema && {
          type: "json_schema",
          json_schema: { name: "answer", strict: true, schema },
        },
      }),
      messages,
      ...(manner === "whole" ? {} : { stream: true }),
      ...(manner === "stream with usage" ? { stream_options: { include_usage: true } } : {}),
    };
  },
  read(body) {
    const { success, data } = chunk.safeParse(body);
    if (!success) return null;
    if (data.error !== undefined && data.error !== null) return { broken: "it failed while it answered", again: true };
    const tokens = data.usage?.total_tokens;
    const first = data.choices?.find(({ index }) => index === 0);
    if (!first) return { tokens };
    const text = first.delta?.content ?? first.message?.content ?? "";
    return { text, tokens, ...ending(first.finish_reason) };
  },
};

/** Treats an answer that reached the token limit as an error, because the customer would receive truncated text. */
function ending(reason: string | null | undefined): ModelPiece {
  if (reason === "length") return { broken: "its answer is longer than it may be" };
  if (reason === "content_filter") return { broken: "its answer was filtered" };
  return reason ? { whole: true } : {};
}

// POST {url}/responses, the newer dialect with reasoning modes.

const response = z.looseObject({
  status: z.string().nullish().catch(null),
  incomplete_details: z.looseObject({ reason: z.string() }).nullish().catch(null),
  output: z
    .array(
      z.looseObject({
        content: z
          .array(z.looseObject({ type: z.string(), text: z.string().optional().catch(undefined) }))
          .optional()
          .catch(undefined),
      }),
    )
    .default([])
    .catch([]),
  usage: z.looseObject({ total_tokens: z.number().nonnegative() }).nullish().catch(null),
});
const event = z.looseObject({
  type: z.string().optional().catch(undefined),
  delta: z.string().optional().catch(undefined),
  response: response.optional().catch(undefined),
});

export const responses: ModelDialect = {
  path: "/responses",
  request({ model, messages, schema }, manner) {
    const reasoning = configured({ effort: model.reasoningEffort, mode: model.reasoningMode });
    return {
      model: model.name,
      input: messages,
      // The endpoint must not store the conversation; this database does.
      store: false,
      ...configured({
        temperature: model.temperature,
        top_p: model.topP,
        reasoning: Object.keys(reasoning).length > 0 ? reasoning : null,
        text: schema && { format: { type: "json_schema", name: "answer", strict: true, schema } },
      }),
      // This dialect reports usage in every stream without a request parameter.
      ...(manner === "whole" ? {} : { stream: true }),
    };
  },
  read(body) {
    const { success, data } = event.safeParse(body);
    if (!success) return null;
    if (data.type === undefined) return ended(response.safeParse(body).data);
    if (data.type === "response.output_text.delta") return { text: data.delta };
    if (data.type === "error") return { broken: "it failed while it answered", again: true };
    return /^response\.(completed|failed|incomplete)$/.test(data.type) ? ended(data.response) : null;
  },
};

function ended(given: z.output<typeof response> | undefined): ModelPiece | null {
  if (!given?.status) return null;
  const { status, output, usage, incomplete_details } = given;
  const tokens = usage?.total_tokens;
  if (status === "completed") {
    const parts = output.flatMap(({ content }) => content ?? []);
    const all = parts.flatMap(({ type, text }) => (type === "output_text" && text ? [text] : [])).join("");
    return { ...(all === "" ? {} : { all }), tokens, whole: true };
  }
  if (status === "failed") return { broken: "it failed while it answered", again: true };
  if (incomplete_details?.reason === "content_filter") return { broken: "its answer was filtered" };
  return { broken: "its answer is longer than it may be" };
}
