// Shared by all routes: the authenticated caller, request parsing, and error responses in the format of the
// API.

import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import type * as z from "zod";
import { badRequest, type Failure, type FailureDetail } from "../../wire/record.ts";
import type { AgentDefinition } from "../definition.ts";
import { readJson } from "./json.ts";

/** The authenticated caller, set by the gate: the agent of an agent's key, or all agents of an
 *  organization's key. */
type Caller = { agent: AgentDefinition; agents: readonly AgentDefinition[]; key: string };
/** `base` is the public URL of the platform without a trailing slash; returned URLs start with it. */
export type Env = { Bindings: HttpBindings; Variables: Caller & { base: string } };
export type Exchange = Context<Env>;

export function fail(c: Context, failure: Failure, headers: { [name: string]: string } = {}): Response {
  return c.json(failure, failure.status as 400, headers);
}

/** Maximum number of details in an error response; a body can contain thousands of errors. */
const detailsAtMost = 20;

export type Parsed<T> = { readonly value: T } | { readonly response: Response };

/** Parses the JSON body with `schema`, or returns the 400 response with all errors. An empty body counts
 *  as `{}`. */
export async function readBody<S extends z.ZodType>(c: Exchange, schema: S): Promise<Parsed<z.output<S>>> {
  const encoding = c.req.header("content-encoding") ?? "identity";
  if (encoding.toLowerCase() !== "identity")
    return refused(c, [{ path: "", message: "a body is read as it is, without a content-encoding" }]);
  const bytes = await c.req.arrayBuffer();
  const reading = readJson(new Uint8Array(bytes));
  return reading.ok ? check(c, schema, reading.value) : refused(c, [{ path: "", message: reading.reason }]);
}

/** The request's query parameters by `schema`, or the 400. */
export function readQuery<S extends z.ZodType>(c: Exchange, schema: S): Parsed<z.output<S>> {
  return check(c, schema, c.req.query());
}

export function refused(c: Exchange, details: readonly FailureDetail[]): { readonly response: Response } {
  return { response: fail(c, badRequest(details)) };
}

function check<S extends z.ZodType>(c: Exchange, schema: S, input: unknown): Parsed<z.output<S>> {
  const result = schema.safeParse(input);
  if (result.success) return { value: result.data };
  const { issues } = result.error;
  const details = issues
    .slice(0, detailsAtMost)
    .map(({ path, message }) => ({ path: path.join("."), message }));
  const more = issues.length - details.length;
  return refused(c, more === 0 ? details : [...details, { path: "", message: `and ${more} more` }]);
}
