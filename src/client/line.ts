// One entry of the operation table, reduced to the fields that a request needs. Only the compiler uses the
// table itself. Loading it would load the platform's half of every record, which an idle daemon does not
// need.

import type * as z from "zod";
import type { operations } from "../wire/operations/index.ts";

type Table = typeof operations;
/** The names of the interface's operations in its description. */
export type OperationId = keyof Table;

/** The fields of the table for one operation. A wrong path or method does not compile. */
export interface Line<Id extends OperationId> {
  readonly method: Table[Id]["method"];
  readonly path: Table[Id]["path"];
  readonly key: Table[Id]["key"];
  /** True when the interface's own 404 means that an object named by the request does not exist. */
  readonly mayBeMissing: 404 extends Table[Id]["errors"][number] ? true : false;
}

/** An entry of any operation. */
export interface AnyLine {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly key: "agent" | "organization";
  readonly mayBeMissing: boolean;
}

/** The operation's request body, as a caller writes it. */
export type BodyOf<Id extends OperationId> = Table[Id] extends { readonly body: infer B extends z.ZodType }
  ? z.input<B>
  : never;

/** The operation's query parameters. Omitted or undefined ones are not sent. */
export type QueryOf<Id extends OperationId> = Table[Id] extends { readonly query: infer Q extends z.ZodType }
  ? z.input<Q>
  : never;

type Query = { readonly [name: string]: string | number | undefined };

/** Returns path and query of one request. Null when an id is invalid, because it would change the path. */
export function addressOf(
  path: string,
  names: { readonly [name: string]: string } = {},
  query: Query = {},
): string | null {
  for (const value of Object.values(names)) if (value === "" || value === "." || value === "..") return null;
  const full = path.includes("{")
    ? path.replace(/\{(\w+)\}/g, (_whole, name: string) => encoded(names[name] ?? ""))
    : path;
  let separator = "?";
  let search = "";
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    search += `${separator}${name}=${encoded(String(value))}`;
    separator = "&";
  }
  return full + search;
}

/** A lone surrogate, as in a text cut in the middle of a character, must not throw. */
const encoded = (value: string): string => encodeURIComponent(value.toWellFormed());
