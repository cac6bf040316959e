// model: the model that answers for the embedded platform.

import * as z from "zod";
import { span } from "./values.ts";

/** Margin in milliseconds between the longest answer of the model and the timeout of the request for it. */
export const answerMargin = 10_000;

/** The platform keeps a query behind the path, so that this URL may have one. */
const modelUrl = z.string().refine((text) => {
  const url = URL.parse(text);
  if (url === null || !["http:", "https:"].includes(url.protocol)) return false;
  return url.username === "" && url.password === "" && url.hash === "";
}, "must be an http(s) URL without user or fragment");

export const model = z.strictObject({
  url: modelUrl.describe(
    "What is the base URL of the OpenAI-compatible endpoint? /chat/completions or /responses is added.",
  ),
  key: z
    .string()
    .regex(/^[\x21-\x7e]+$/, "must be visible ASCII characters without spaces")
    .meta({ secret: true })
    .optional()
    .describe("What is its API key, if it requires one? Sent as a bearer token."),
  name: z.string().min(1).describe("What is the name of the model, as the endpoint calls it?"),
  api: z
    .enum(["chat", "responses"])
    .default("chat")
    .describe("Which API does the endpoint have? chat: chat completions; responses: responses."),
  temperature: z
    .number()
    .min(0)
    .max(2)
    .nullable()
    .default(0.2)
    .describe("Which temperature is requested? null: none, for models that reject the parameter."),
  reasoning_effort: z
    .enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])
    .optional()
    .describe("Which reasoning effort is requested? Default: the model's."),
  timeout: span.prefault("30s").describe("After how long without any data does a request fail?"),
  total_timeout: span.prefault("2m").describe("How long may an answer take, with all retries?"),
});
