// Maps Telnyx's error codes to error classes. Source: developers.telnyx.com, messaging error codes and API
// error codes.

import { classes, type Refusal, type TextClass, withoutNumbers } from "../classes.ts";
import type { ExchangeAnswer } from "../exchange.ts";

const codes = classes<string>({
  recipient: ["10002", "10016", "40001", "40012", "40301", "40310", "40319"],
  "opted-out": ["40300"],
  login: ["10009", "10010"],
  account: ["20100", "40314", "40333"],
  "set-up": [
    "10001",
    "40010",
    "40013",
    "40100",
    "40150",
    "40151",
    "40305",
    "40306",
    "40308",
    "40311",
    "40312",
    "40313",
    "40315",
    "40320",
    "40321",
    "40329",
    "40330",
  ],
  reach: ["10039", "40309"],
  content: ["40002", "40003", "40009", "40015", "40302", "40304", "40316", "40317", "40322"],
  rate: ["10011"],
  "sender-rate": ["40011", "40318"],
  unreached: ["40004", "40006", "40008"],
  expired: ["40005", "40014"],
  ambiguous: ["10007", "10008"],
});

/** One of `errors` in a response or a webhook. */
export interface TelnyxError {
  readonly code?: string | number | undefined;
  readonly title?: string | undefined;
  readonly detail?: string | undefined;
}

/** Returns the class of an error code alone, as a webhook has it. */
export function classOfCode(code: string | undefined): TextClass | null {
  return (code === undefined ? undefined : codes.get(code)) ?? null;
}

/** Returns the class of an error response, by its first error's code, else by the HTTP status. */
export function classOf(answer: ExchangeAnswer): TextClass | null {
  // A server in front of the API returns 5xx with its own text, and may have forwarded the request.
  if (answer.status >= 500 || answer.status === 408) return "ambiguous";
  const known = classOfCode(codeOf(firstError(answer)));
  if (known !== null) return known;
  if (answer.status === 401) return "login";
  return answer.status === 429 ? "rate" : null;
}

export function refusalOf(answer: ExchangeAnswer): Refusal {
  const error = firstError(answer);
  const seconds = Number(answer.headers["retry-after"] ?? "");
  const code = codeOf(error) ?? String(answer.status);
  return {
    code,
    reason: `${codeOf(error) ?? `HTTP ${answer.status}`}: ${wordsOf(error) ?? "no words"}`,
    ...(seconds > 0 ? { retryAfterMs: Math.min(seconds, 3600) * 1000 } : {}),
  };
}

export function codeOf(error: TelnyxError | null): string | undefined {
  return error?.code === undefined ? undefined : String(error.code);
}

export function wordsOf(error: TelnyxError | null): string | undefined {
  const words = [error?.title, error?.detail].filter((one) => typeof one === "string" && one !== "");
  return words.length === 0 ? undefined : withoutNumbers(words.join(": "));
}

function firstError(answer: ExchangeAnswer): TelnyxError | null {
  try {
    const { errors } = Object(JSON.parse(answer.body)) as { errors?: unknown };
    return Array.isArray(errors) ? (Object(errors[0]) as TelnyxError) : null;
  } catch {
    return null;
  }
}
