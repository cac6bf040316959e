// Classifies a response other than 200: whether a retry is allowed, after which delay, and in which
// response mode.

import type { Dispatcher } from "undici";
import type { Manner } from "./dialect.ts";
import { parsed } from "./json.ts";

export interface Refusal {
  readonly kind: "refused";
  readonly reason: string;
  readonly again: boolean;
  /** Milliseconds from Retry-After; null when the header is absent. */
  readonly afterMs: number | null;
  /** A simpler response mode to retry with; null when the mode is not the cause. */
  readonly less: Manner | null;
}

const maxLength = 64 * 1024;

/** `manner` is the response mode of the request; `now` is epoch milliseconds. */
export async function readRefusal(
  { statusCode: status, headers, body }: Dispatcher.ResponseData,
  manner: Manner,
  now: number,
): Promise<Refusal> {
  const text = await beginningOf(body);
  const later = status === 408 || status === 425 || status === 429 || (status >= 500 && status !== 501);
  const code = codeIn(text);
  return {
    kind: "refused",
    reason: `HTTP ${status}${code ? ` (${code})` : ""}`,
    again: later,
    afterMs: retryAfter(headers["retry-after"], now),
    less: later ? null : lessThan(manner, status, text),
  };
}

/** An error that mentions the stream, or that gives no reason, may be caused by the response mode. Any
 *  other error concerns the request itself and would repeat. */
function lessThan(manner: Manner, status: number, text: string): Manner | null {
  if (manner === "whole" || ![400, 415, 422, 501].includes(status)) return null;
  if (manner === "stream with usage" && /stream_options|include_usage/.test(text)) return "stream";
  return /stream/i.test(text) || text.trim() === "" || status === 501 ? "whole" : null;
}

/** Parses Retry-After as seconds or as a date (RFC 9110, section 10.2.3). */
function retryAfter(header: string | string[] | undefined, now: number): number | null {
  const value = Array.isArray(header) ? header[0] : header;
  if (value === undefined) return null;
  if (/^\s*\d+(\.\d+)?\s*$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

/** Extracts an error code such as `context_length_exceeded`. Rejects digits and capitals, because a
 *  server may quote the API key. */
function codeIn(text: string): string | null {
  const body = parsed(text) as { readonly error?: { readonly code?: unknown } | null } | null | undefined;
  const code = typeof body === "object" ? body?.error?.code : undefined;
  return typeof code === "string" && /^[a-z_]{1,60}$/.test(code) ? code : null;
}

async function beginningOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > maxLength) break;
    }
  } catch {
    // The body is unreadable; the status code is sufficient.
  }
  return text;
}
