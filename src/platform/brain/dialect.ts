// What a way of asking models is made of: OpenAI-compatible servers have two, and agree on little beyond the name.

import type { ModelDefinition } from "../definition.ts";

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** How much an endpoint is asked for: everything, a stream without its usage, or one whole answer. */
export type Manner = "stream with usage" | "stream" | "whole";

export interface Question {
  readonly model: ModelDefinition;
  readonly messages: readonly ChatMessage[];
  /** A JSON Schema that the answer must fit; null: any text. */
  readonly schema: { readonly [key: string]: unknown } | null;
}

/** What one event of a stream, or a whole answer, says. */
export interface Piece {
  /** The next words. */
  readonly text?: string | undefined;
  /** All the words, in place of those before. */
  readonly all?: string | undefined;
  readonly tokens?: number | undefined;
  /** Nothing is missing from the answer. */
  readonly whole?: boolean;
  /** Why there will be no answer. */
  readonly broken?: string;
  /** The server failed, which it may not do twice. */
  readonly again?: boolean;
}

export interface Dialect {
  /** Below the model's address. */
  readonly path: string;
  /** Only what is configured is said: many servers refuse parameters they do not know. */
  request(question: Question, manner: Manner): object;
  /** `body`: parsed JSON of unknown shape, of an event or of a whole answer. Null: nothing that concerns us. */
  read(body: unknown): Piece | null;
}

/** The fields of `given` that are not null. */
export function configured<T extends object>(given: T): Partial<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) as Partial<T>;
}
