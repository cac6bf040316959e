// The result of every operation of the client: a value that states what is certain, so that no exception has to be
// interpreted. Contains the single mapping of status codes, connection errors and unreadable bodies to failures.

import { retryAfterOf } from "bridgehead/contract";
import { type Failure, failureDetails, failureReason, modelUnavailable, notFound } from "../wire/record.ts";

/** The outcome of one call. It can be serialized as JSON if its value can. */
export type CallResult<T> =
  | { readonly kind: "ok"; readonly value: T }
  /** 401 or 403: the key was rejected. The operation was certainly not performed. */
  | { readonly kind: "unauthorized"; readonly reason: string }
  /** 404 in the interface's own format or 410, for an object that the request names. The operation was certainly
   *  not performed. */
  | { readonly kind: "missing"; readonly reason: string }
  /** Another 4xx (400, 409, 413, 422 ...): a permanent rejection. `details`: the rejected fields, if the
   *  platform names them. Unlike `reason`, they may quote the request. */
  | {
      readonly kind: "refused";
      readonly status: number;
      readonly reason: string;
      readonly details?: readonly { readonly path: string; readonly message: string }[];
    }
  /** The operation was certainly not performed, and a retry may succeed: no connection, or 429
   *  (`limited`; with `retryAfterMs` above 0 if the platform sends it). Also a response that the
   *  platform did not generate itself: a redirect, 405, 408, 425, any other 404. `lasting`: the platform's model rejects its
   *  key, name or account, and no retry succeeds before an operator has corrected them. */
  | {
      readonly kind: "deferred";
      readonly reason: string;
      readonly retryAfterMs?: number;
      readonly limited?: true;
      readonly lasting?: true;
    }
  /** The operation may have been performed: a timeout, a reset after the request was sent, 5xx, or an unreadable
   *  success. `tooLarge`: the response exceeds the client's size limit; a smaller page may not. */
  | { readonly kind: "unknown"; readonly reason: string; readonly tooLarge?: true };

/** The reason of a call whose caller aborted its signal. */
export const stopped = "stopped by the caller";

/** A result that is not `ok`, as an error. Thrown to callers that iterate over items. */
export class CallFailure extends Error {
  override readonly name = "CallFailure";
  readonly result: Exclude<CallResult<never>, { kind: "ok" }>;

  constructor(result: Exclude<CallResult<never>, { kind: "ok" }>) {
    super(result.reason);
    this.result = result;
  }
}

/** Names are in lower case. */
export type ResponseHeaders = { readonly [name: string]: string | string[] | undefined };

/** `broken`: the reason why the body is incomplete. `failed` without `crossed`: no byte was sent. */
export type Exchange =
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly headers: ResponseHeaders;
      readonly body: Buffer;
      readonly broken?: string;
      /** The body is incomplete because it exceeds `maxResponseBytes`. */
      readonly tooLarge?: true;
    }
  | { readonly kind: "failed"; readonly crossed: boolean; readonly reason: string };

type Answered = Exchange & { readonly kind: "answered" };
type Failed = Exclude<CallResult<never>, { kind: "ok" }>;

interface Expectation {
  /** Wall-clock milliseconds, for a Retry-After given as a date. */
  readonly now: number;
  /** The request names an object that may not exist. */
  readonly mayBeMissing: boolean;
  /** The parsed body of the response; undefined without one. */
  readonly body: unknown;
  /** Maximum delay in milliseconds that a Retry-After header can impose before the next attempt. */
  readonly longestRetryAfterMs: number;
}

/** Interprets an exchange that is no success. The reason is one short line without addresses or telephone numbers. */
export function failureOf(result: Exchange, expected: Expectation): Failed {
  const meaning: Failed =
    result.kind === "failed"
      ? { kind: result.crossed ? "unknown" : "deferred", reason: result.reason }
      : failedAnswer(result, expected);
  return { ...meaning, reason: brief(meaning.reason) };
}

/** The platform has performed the operation. When the response cannot be parsed, only a later read can determine its
 *  effect. */
export function unreadable({ status, headers, tooLarge }: Answered, why: string): Failed {
  const coding = headers["content-encoding"];
  const reason = `HTTP ${status}, answer ${why}${coding === undefined ? "" : ` (content-encoding: ${String(coding)})`}`;
  return { kind: "unknown", reason: brief(reason), ...(tooLarge && { tooLarge }) };
}

/** Status codes of a proxy, or of a platform during a deployment. They are temporary, and do not concern
 *  the request. */
const passing = new Set([405, 407, 408, 421, 425]);

function failedAnswer(result: Answered, expected: Expectation): Failed {
  const { mayBeMissing, body } = expected;
  const { status, headers } = result;
  const said = redirectOf(result) ?? failureReason(body, discreet);
  const reason = said ? `HTTP ${status}: ${said}` : `HTTP ${status}`;
  if (status === 401 || status === 403) return { kind: "unauthorized", reason };
  if (status === 404) {
    // A proxy in front of the platform also answers 404, for paths that it does not know at the moment.
    const kind = mayBeMissing && isNamed(body, notFound) ? "missing" : "deferred";
    return { kind, reason };
  }
  // 410 is permanent: the object will not return (RFC 9110, 15.5.11).
  if (status === 410 && mayBeMissing) return { kind: "missing", reason };
  if (status === 429) return { kind: "deferred", reason, limited: true, ...retryAfter(headers, expected) };
  if (status === 503 && isNamed(body, modelUnavailable)) {
    const lasting = failureDetails(body) === undefined ? {} : { lasting: true as const };
    return { kind: "deferred", reason, ...retryAfter(headers, expected), ...lasting };
  }
  if (status >= 500) return { kind: "unknown", reason };
  if (status < 400 || passing.has(status)) return { kind: "deferred", reason };
  const details = failureDetails(body);
  return { kind: "refused", status, reason, ...(details ? { details } : {}) };
}

/** Says where a redirect leads, up to the path of the operation: often the right base address. Null for other responses. */
function redirectOf({ status, headers }: Answered): string | null {
  const to = status < 400 ? [headers["location"]].flat()[0] : undefined;
  return to === undefined ? null : `a redirect to ${to.split(/[?#]|external\//, 1)[0]}`;
}

/** Recognizes the interface's own 404 (External API 7). */
function isNamed(failure: unknown, known: Failure): boolean {
  return (failure as { name?: unknown } | null | undefined)?.name === known.name;
}

/** A time that is missing, invalid or over gives no property. */
function retryAfter(
  headers: ResponseHeaders,
  { now, longestRetryAfterMs: longest }: Expectation,
): { retryAfterMs?: number } {
  const ms = retryAfterOf({ headers }, { now, longest });
  return ms ? { retryAfterMs: ms } : {};
}

const longest = 200;
/** Characters that are searched for personal data before the cut, so that the cut leaves no partial address. */
const looked = 1000;

/** Returns the text as one line of limited length. */
function brief(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .slice(0, longest)
    .trim();
}

/** Removes addresses and telephone numbers from a text of the platform, also when they are part of a
 *  URL. In doubt it removes more. */
function discreet(text: string): string {
  return text
    .slice(0, looked)
    .replace(/<?[^\s<>@]*(?:@|%40)[^\s<>]*>?/gi, "<address>")
    .replace(/(?:\+|%2B)?\(?\d(?:[\s()./-]{0,3}\d){6,}/gi, "<number>");
}
