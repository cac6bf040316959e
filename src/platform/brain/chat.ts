// POST {url}/chat/completions, the dialect that nearly every model server supports.

import * as z from "zod";
import { configured, type Dialect, type Piece } from "./dialect.ts";

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

export const chat: Dialect = {
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
    if (data.error !== undefined && data.error !== null)
      return { broken: "it failed while it answered", again: true };
    const tokens = data.usage?.total_tokens;
    const first = data.choices?.find(({ index }) => index === 0);
    if (!first) return { tokens };
    const text = first.delta?.content ?? first.message?.content ?? "";
    return { text, tokens, ...ending(first.finish_reason) };
  },
};

/** Treats an answer that reached the token limit as an error, because the customer would receive
 *  truncated text. */
function ending(reason: string | null | undefined): Piece {
  if (reason === "length") return { broken: "its answer is longer than it may be" };
  if (reason === "content_filter") return { broken: "its answer was filtered" };
  return reason ? { whole: true } : {};
}
