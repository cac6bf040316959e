// The outcome of a delivery, and a responder's reply in the response.

import { type ExchangeAnswer, parsedJson, retryAfterOf, type SendOutcome } from "bridgehead/contract";
import { delayAfter } from "../../domain/retry.ts";
import type { Timing } from "../../ops/timing.ts";

/** Returns a temporary failure. `atLeast`: minimum delay that the receiver requested. */
export const deferred = (reason: string, attempt: number, { retry }: Timing["webhook"], atLeast = 0): SendOutcome => ({
  kind: "deferred",
  reason,
  retryAfterMs: Math.max(delayAfter(attempt, retry), atLeast),
});

/** Returns null for a success. `nowMs` is the current time, for a Retry-After header that is a date. */
export function failureIn(
  answer: Pick<ExchangeAnswer, "status" | "headers">,
  attempt: number,
  nowMs: number,
  timing: Timing["webhook"],
): SendOutcome | null {
  const { status } = answer;
  const reason = `the receiver answered ${status}`;
  if (status >= 200 && status < 300) return null;
  if (status >= 500 || [408, 425, 429].includes(status)) {
    const asked = retryAfterOf(answer, { now: nowMs, longest: timing.longestRetryAfter });
    return deferred(reason, attempt, timing, asked ?? 0);
  }
  if (status === 410)
    return { kind: "refused", code: "gone", reason: `${reason}: it wants no more`, scope: "recipient" };
  if (status < 400) return { kind: "refused", code: "redirect", reason: `${reason}: redirects are not followed` };
  return { kind: "refused", code: `http-${status}`, reason };
}

export interface WebhookReply {
  /** The text of the reply, in the form of a reply to a notification. */
  readonly text: string;
  readonly by: string | null;
}

/** Notification types that accept a reply: an acknowledgement, and text for the customer. Notifications about an
 *  acknowledgement or an error accept none, because two programs could answer each other endlessly. */
const answerable: { readonly [type: string]: { readonly acknowledge: boolean } } = {
  "escalation.opened": { acknowledge: true },
  "escalation.open": { acknowledge: true },
  "escalation.message": { acknowledge: false },
};

/** Returns the reply in the receiver's response to `body`; null for a plain confirmation. Only JSON with
 *  the documented fields counts. */
export function replyIn(
  { headers, json }: Pick<ExchangeAnswer, "headers" | "json">,
  body: string,
): WebhookReply | null {
  const about = answerable[String(objectIn(parsedJson(body))?.["type"])];
  if (!about || !/^application\/(.+\+)?json\b/i.test(String(headers["content-type"]))) return null;
  const answer = objectIn(json);
  const { reply, acknowledge } = answer ?? {};
  const by = oneLine(answer?.["by"]);
  if (typeof reply === "string" && reply.trim() !== "") return { text: reply, by };
  return acknowledge === true && about.acknowledge ? { text: "ok", by } : null;
}

function objectIn(value: unknown): { readonly [key: string]: unknown } | null {
  return value !== null && typeof value === "object" && !Array.isArray(value)
    ? (value as { readonly [key: string]: unknown })
    : null;
}

const longestName = 100;

function oneLine(value: unknown): string | null {
  if (typeof value !== "string") return null;
  const line = value
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
    .slice(0, longestName);
  return line === "" ? null : line;
}
