// POST {url}/responses, the newer dialect with reasoning modes.

import * as z from "zod";
import { configured, type Dialect, type Piece } from "./dialect.ts";

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

export const responses: Dialect = {
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

function ended(given: z.output<typeof response> | undefined): Piece | null {
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
