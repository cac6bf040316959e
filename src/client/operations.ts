// The types of the operations' parameters. They come from the description of the interface, whose schemas are not loaded.

import type * as z from "zod";
import type { operations } from "../wire/operations/index.ts";

type OperationTable = typeof operations;
/** The names of the interface's operations in its description. */
export type OperationId = keyof OperationTable;

/** The operation's request body, as a caller writes it. */
export type BodyOf<Id extends OperationId> = OperationTable[Id] extends {
  readonly body: infer B extends z.ZodType;
}
  ? z.input<B>
  : never;

/** The operation's query parameters. Omitted or undefined ones are not sent. */
export type QueryOf<Id extends OperationId> = OperationTable[Id] extends {
  readonly query: infer Q extends z.ZodType;
}
  ? z.input<Q>
  : never;
