// Converts an exchange to a `CallResult`. It contains the single mapping of status codes, connection errors
// and unreadable bodies.

import { failureDetails, failureReason, notFound } from "../wire/failure.ts";
import type { Reading } from "../wire/record.ts";
import type { Exchange } from "./exchange.ts";
import type { ListSplitter, SplitList } from "./list-splitter.ts";
import { brief, discreet } from "./reason.ts";
import type { CallResult } from "./result.ts";

/** Maximum delay in milliseconds that a Retry-After header can impose before the next attempt. */
const maxRetryAfterMs = 15 * 60_000;

/** Status codes of a proxy, or of a platform during a deployment. They are temporary, and do not concern
 *  the request. */
const passing = new Set([405, 407, 408, 421, 425]);

interface Expectation<T> {
  /** Wall-clock milliseconds, for a Retry-After given as a date. */
  readonly now: number;
  /** The request names an object that may not exist. */
  readonly mayBeMissing: boolean;
  readonly answer: Content<T>;
  /** Set for content of the form `list`. */
  readonly splitter?: ListSplitter | undefined;
}

/** The content of a successful response: JSON, a JSON list parsed item by item as it arrives, the bytes
 *  of a document, or nothing that is read. */
export type Content<T> =
  | { readonly form: "json"; readonly read: (body: unknown) => Reading<T> }
  | {
      readonly form: "list";
      readonly names: readonly string[];
      readonly read: (list: SplitList) => Reading<T>;
    }
  | { readonly form: "bytes"; readonly read: (body: Buffer) => T }
  | { readonly form: "nothing"; readonly value: T };

type Answered = Exchange & { kind: "answered" };

/** Interprets the exchange for the caller. Every reason is one short line without addresses or telephone
 *  numbers. */
export function interpret<T>(result: Exchange, expected: Expectation<T>): CallResult<T> {
  const meaning = result.kind === "failed" ? interpretSilence(result) : interpretAnswer(result, expected);
  return meaning.kind === "ok" ? meaning : { ...meaning, reason: brief(meaning.reason) };
}

function interpretSilence({ crossed, reason }: Exchange & { kind: "failed" }): CallResult<never> {
  return { kind: crossed ? "unknown" : "deferred", reason };
}

function interpretAnswer<T>(result: Answered, expected: Expectation<T>): CallResult<T> {
  const { status } = result;
  if (status >= 200 && status < 300) return interpretSuccess(result, expected);
  const failure = parseJson(result.body);
  const said = failureReason(discreetly(failure));
  const reason = said ? `HTTP ${status}: ${said}` : `HTTP ${status}`;
  if (status === 401 || status === 403) return { kind: "unauthorized", reason };
  if (status === 404) {
    // A proxy in front of the platform also answers 404, for paths that it does not know at the moment.
    const kind = expected.mayBeMissing && isNotFound(failure) ? "missing" : "deferred";
    return { kind, reason };
  }
  if (status === 429)
    return { kind: "deferred", reason, limited: true, ...retryAfter(result.retryAfter, expected.now) };
  if (status >= 500) return { kind: "unknown", reason };
  if (status < 400 || passing.has(status)) return { kind: "deferred", reason };
  const details = failureDetails(failure);
  return { kind: "refused", status, reason, ...(details ? { details } : {}) };
}

/** The platform has performed the operation. When the response cannot be parsed, only a later read can
 *  determine its effect. */
function interpretSuccess<T>(result: Answered, { answer, splitter }: Expectation<T>): CallResult<T> {
  if (answer.form === "nothing") return { kind: "ok", value: answer.value };
  if (result.broken !== undefined)
    return {
      kind: "unknown",
      reason: `HTTP ${result.status}, answer cut off: ${result.broken}`,
      ...(result.tooLarge ? { tooLarge: true } : {}),
    };
  if (answer.form === "bytes") return { kind: "ok", value: answer.read(result.body) };
  const body = answer.form === "list" ? (splitter?.end() ?? undefined) : parseJson(result.body);
  if (body === undefined) return { kind: "unknown", reason: `HTTP ${result.status}, answer is not JSON` };
  const reading = answer.form === "list" ? answer.read(body as SplitList) : answer.read(body);
  if (!reading.ok)
    return {
      kind: "unknown",
      reason: `HTTP ${result.status}, answer unreadable: ${reading.reason}`,
    };
  return { kind: "ok", value: reading.value };
}

/** Returns undefined when the body is not JSON; JSON itself has no undefined. */
function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** Returns the fields of an error body with personal data removed from each. */
function discreetly(failure: unknown): unknown {
  if (typeof failure !== "object" || failure === null) return failure;
  const fields = Object.entries(failure).map(([name, value]) => [
    name,
    typeof value === "string" ? discreet(value) : value,
  ]);
  return Object.fromEntries(fields);
}

/** Recognizes the interface's own 404 (External API 7). */
function isNotFound(failure: unknown): boolean {
  return (failure as { name?: unknown } | null | undefined)?.name === notFound.name;
}

/** Parses Retry-After (RFC 9110 section 10.2.3): seconds or a date. Other values and past dates are
 *  ignored; too large values are capped. */
function retryAfter(header: string | undefined, now: number): { retryAfterMs?: number } {
  const text = header?.trim();
  if (!text) return {};
  const ms = Math.round(/^[-+]?\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now);
  return ms > 0 ? { retryAfterMs: Math.min(ms, maxRetryAfterMs) } : {};
}
