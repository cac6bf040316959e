// One line of the table of operations, as far as a request needs it. The table itself is only looked at by the compiler:
// with it the client would load the platform's half of every record, which an idle daemon has no use for.

import type * as z from "zod";
import type { operations } from "../wire/operations/index.ts";

type Table = typeof operations;
/** The operations of the interface, by their names in its description. */
export type OperationId = keyof Table;

/** What the table says of the operation: a wrong path or method does not compile. */
export interface Line<Id extends OperationId> {
  readonly method: Table[Id]["method"];
  readonly path: Table[Id]["path"];
  readonly key: Table[Id]["key"];
  /** The interface's own 404 tells that something named by the request is not there. */
  readonly mayBeMissing: 404 extends Table[Id]["errors"][number] ? true : false;
}

/** Any line. */
export interface AnyLine {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly key: "agent" | "organization";
  readonly mayBeMissing: boolean;
}

/** The operation's body as a caller may write it. */
export type BodyOf<Id extends OperationId> = Table[Id] extends { readonly body: infer B extends z.ZodType }
  ? z.input<B>
  : never;

/** The operation's query parameters; those left out, or undefined, are not sent. */
export type QueryOf<Id extends OperationId> = Table[Id] extends { readonly query: infer Q extends z.ZodType }
  ? z.input<Q>
  : never;

type Query = { readonly [name: string]: string | number | undefined };

/** Path and query of one request; null when an id is none (it would change the path). */
export function addressOf(
  path: string,
  names: { readonly [name: string]: string } = {},
  query: Query = {},
): string | null {
  for (const value of Object.values(names)) if (value === "" || value === "." || value === "..") return null;
  const full = path.replace(/\{(\w+)\}/g, (_whole, name: string) => encoded(names[name] ?? ""));
  let separator = "?";
  let search = "";
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    search += `${separator}${name}=${encoded(String(value))}`;
    separator = "&";
  }
  return full + search;
}

/** Half a character, as a text cut in the middle has, is no reason to throw. */
const encoded = (value: string): string => encodeURIComponent(value.toWellFormed());
