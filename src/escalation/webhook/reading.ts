// What a receiver's answer means: what became of the delivery, and whether a person has said something with it. Pure.

import type { SendOutcome } from "bridgehead/contract";
import type { Answer } from "./exchange.ts";

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

/** Before each further try, as Standard Webhooks has it. */
const schedule = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
] as const;
const longestWait = 24 * hour;

/** How long after the `attempt`-th try (from 1) the next one comes, in ms. */
const waitAfter = (attempt: number): number =>
  schedule[Math.min(Math.max(attempt, 1), schedule.length) - 1] ?? longestWait;

/** Not yet, for a reason that passes. `atLeast`: what the receiver asks for. */
export const deferred = (reason: string, attempt: number, atLeast = 0): SendOutcome => ({
  kind: "deferred",
  reason,
  retryAfterMs: Math.max(waitAfter(attempt), Math.min(atLeast, longestWait)),
});

/** Null for a success. `nowMs`: for a Retry-After that is a date. */
export function failureIn(answer: Answer, attempt: number, nowMs: number): SendOutcome | null {
  const { status } = answer;
  const reason = `the receiver answered ${status}`;
  if (status >= 200 && status < 300) return null;
  if (status >= 500 || [408, 425, 429].includes(status))
    return deferred(reason, attempt, retryAfter(answer, nowMs));
  if (status === 410)
    return { kind: "refused", code: "gone", reason: `${reason}: it wants no more`, scope: "recipient" };
  if (status < 400)
    return { kind: "refused", code: "redirect", reason: `${reason}: redirects are not followed` };
  return { kind: "refused", code: `http-${status}`, reason };
}

/** RFC 9110 10.2.3: seconds, or a date. */
function retryAfter({ headers }: Answer, nowMs: number): number {
  const value = String(headers["retry-after"] ?? "").trim();
  const ms = /^\d+$/.test(value) ? Number(value) * second : Date.parse(value) - nowMs;
  return Number.isFinite(ms) ? ms : 0;
}

export interface Said {
  /** As a person would write it in answer to a notice. */
  readonly text: string;
  readonly by: string | null;
}

/** What of an escalation can be answered: with a word that takes it, and with words for the customer. News that somebody
 *  has it, or that something did not work, are no questions: two machines would go on for ever. */
const answerable: { readonly [type: string]: { readonly acknowledge: boolean } } = {
  "escalation.opened": { acknowledge: true },
  "escalation.open": { acknowledge: true },
  "escalation.message": { acknowledge: false },
};

/** What the receiver's answer to `body` says to us; null when it is a mere receipt. Only JSON that says so counts. */
export function saidIn({ headers, text }: Answer, body: string): Said | null {
  const about = answerable[String(objectIn(body)?.["type"])];
  if (!about || text === null || !/^application\/(.+\+)?json\b/i.test(String(headers["content-type"])))
    return null;
  const answer = objectIn(text);
  const { reply, acknowledge } = answer ?? {};
  const by = oneLine(answer?.["by"]);
  if (typeof reply === "string" && reply.trim() !== "") return { text: reply, by };
  return acknowledge === true && about.acknowledge ? { text: "ok", by } : null;
}

function objectIn(text: string): { readonly [key: string]: unknown } | null {
  try {
    const value: unknown = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value)
      ? (value as { readonly [key: string]: unknown })
      : null;
  } catch {
    return null;
  }
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
