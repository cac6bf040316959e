// Interface of the two OpenAI-compatible dialects, chat completions and responses.

import type { ModelDefinition } from "../definition.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** What to request from the endpoint: a stream with usage, a stream without usage, or one complete
 *  response. */
export type Manner = "stream with usage" | "stream" | "whole";

export interface Question {
  readonly model: ModelDefinition;
  readonly messages: readonly ChatMessage[];
  /** JSON Schema that the answer must match; null allows any text. */
  readonly schema: { readonly [key: string]: unknown } | null;
}

/** Content of one stream event, or of a complete response. */
export interface Piece {
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

export interface Dialect {
  /** Path relative to the model's address. */
  readonly path: string;
  /** Builds the request body. Sends only configured parameters, because many servers reject unknown
   *  ones. */
  request(question: Question, manner: Manner): object;
  /** Parses one event or one complete response. `body` is JSON of unknown shape; null means the event is
   *  irrelevant. */
  read(body: unknown): Piece | null;
}

/** Returns the fields of `given` that are not null. */
export function configured<T extends object>(given: T): Partial<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) as Partial<T>;
}
