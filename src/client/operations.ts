// The methods of operations, and the types of their parameters. The types come from the description of the interface, whose
// schemas are not loaded.

import type * as z from "zod";
import type { operations } from "../wire/operations/index.ts";
import type { OperationCaller, QueryParameters } from "./caller.ts";
import type { CallOptions } from "./options.ts";
import type { BodyContent } from "./reading.ts";

type OperationTable = typeof operations;
/** The names of the interface's operations in its description. */
export type OperationId = keyof OperationTable;

/** The operation's request body, as a caller writes it. */
export type BodyOf<Id extends OperationId> = OperationTable[Id] extends {
  readonly body: infer B extends z.ZodType<unknown, object>;
}
  ? z.input<B>
  : never;

/** The operation's query parameters. Omitted or undefined ones are not sent. */
export type QueryOf<Id extends OperationId> = OperationTable[Id] extends {
  readonly query: infer Q extends z.ZodType<unknown, QueryParameters>;
}
  ? z.input<Q>
  : never;

export type Methods = ReturnType<typeof methodsOf>;

/** Builds the method of an operation by its parameters: none, a query, a body, the id in its path, or the id and one of
 *  them. */
export function methodsOf({ call }: OperationCaller) {
  return {
    plain:
      <T>(operation: OperationId, answer: BodyContent<T>) =>
      (options?: CallOptions) =>
        call(operation, { answer }, options),
    queried:
      <Id extends OperationId, T>(operation: Id, answer: BodyContent<T>) =>
      (query?: QueryOf<Id>, options?: CallOptions) =>
        call(operation, { query, answer }, options),
    posted:
      <Id extends OperationId, T>(operation: Id, answer: BodyContent<T>) =>
      (body: BodyOf<Id>, options?: CallOptions) =>
        call(operation, { body, answer }, options),
    byId:
      <T>(operation: OperationId, answer: BodyContent<T>) =>
      (id: string, options?: CallOptions) =>
        call(operation, { names: { id }, answer }, options),
    queriedById:
      <Id extends OperationId, T>(operation: Id, answer: BodyContent<T>) =>
      (id: string, query?: QueryOf<Id>, options?: CallOptions) =>
        call(operation, { names: { id }, query, answer }, options),
    postedById:
      <Id extends OperationId, T>(operation: Id, answer: BodyContent<T>) =>
      (id: string, body: BodyOf<Id>, options?: CallOptions) =>
        call(operation, { names: { id }, body, answer }, options),
  };
}
