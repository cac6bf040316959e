// From an exchange to a `CallResult`: the one table of what a status, a broken line or an unreadable body means.

import { failureReason } from "../wire/failure.ts";
import type { Reading } from "../wire/record.ts";
import type { CallResult } from "./calls.ts";
import type { Exchange } from "./exchange.ts";

/** No platform's word makes us wait longer than this before the next try. */
const maxRetryAfterMs = 15 * 60_000;

/** `now`: wall-clock milliseconds, for a Retry-After given as a date. `readBody` gets the parsed JSON of a success. */
export function interpret<T>(
  result: Exchange,
  now: number,
  readBody: (body: unknown) => Reading<T>,
): CallResult<T> {
  if (result.kind === "failed")
    return { kind: result.crossed ? "unknown" : "deferred", reason: result.reason };
  const { status } = result;
  if (status >= 200 && status < 300) return interpretSuccess(result, readBody);
  const said = failureReason(parseJson(result.body));
  const reason = said ? `HTTP ${status}: ${said}` : `HTTP ${status}`;
  if (status === 401 || status === 403) return { kind: "unauthorized", reason };
  if (status === 404) return { kind: "missing", reason };
  if (status === 429)
    return { kind: "deferred", reason, limited: true, ...retryAfter(result.retryAfter, now) };
  if (status >= 500) return { kind: "unknown", reason };
  return { kind: "refused", status, reason };
}

/** The platform did it; when what it says about it cannot be read, only a look can tell what. */
function interpretSuccess<T>(
  result: Exchange & { kind: "answered" },
  readBody: (body: unknown) => Reading<T>,
): CallResult<T> {
  if (result.broken !== undefined)
    return { kind: "unknown", reason: `HTTP ${result.status}, answer cut off: ${result.broken}` };
  const body = parseJson(result.body);
  if (body === undefined) return { kind: "unknown", reason: `HTTP ${result.status}, answer is not JSON` };
  const reading = readBody(body);
  if (!reading.ok)
    return { kind: "unknown", reason: `HTTP ${result.status}, answer unreadable: ${reading.reason}` };
  return { kind: "ok", value: reading.value };
}

/** Undefined when it is not JSON; JSON itself has no undefined. */
function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

/** RFC 9110 section 10.2.3: seconds or a date. What is neither says nothing; what is absurd is capped. */
function retryAfter(header: string | undefined, now: number): { retryAfterMs?: number } {
  const text = header?.trim();
  if (!text) return {};
  const ms = /^[-+]?\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  if (Number.isNaN(ms)) return {};
  return { retryAfterMs: Math.round(Math.min(Math.max(ms, 0), maxRetryAfterMs)) };
}
