// The hops of a message through the daemon: one log line and one count per hop, written when its transaction is on disk.
// `Query.hop` reports them. The field `trace` is the same in all lines about one message, from its receipt to the delivery
// receipt of its answer: `grep -w m42` finds the history of the message that `inbox list` shows as 42.

import type { Log, LogFields } from "bridgehead/contract";
import type { Statistics } from "./statistics.ts";

/** The log lines of the hops. */
const lines = {
  received: ["info", "message received"],
  refused: ["info", "message refused"],
  handled: ["info", "message handled without a question"],
  held: ["warn", "message held"],
  failed: ["warn", "message failed"],
  call: ["info", "call state changed"],
  asked: ["info", "question asked"],
  answered: ["info", "question answered"],
  queued: ["info", "reply queued"],
  sent: ["info", "reply sent"],
  dropped: ["info", "reply dropped"],
  replyHeld: ["warn", "reply held"],
  replyFailed: ["warn", "reply failed"],
  receipt: ["info", "delivery receipt"],
  // Counted only: failed attempts have a line of their own, with the reason.
  duplicate: null,
  capped: null,
  askAttempt: null,
  sendAttempt: null,
} as const;

export type HopName = keyof typeof lines;

/** One hop. All fields are safe to log: no addresses, no message text. */
export interface Hop {
  readonly name: HopName;
  readonly channel: string;
  /** The messages that the hop is about: `m42`, or `m42 m43` for a question that consists of several. Empty for work that no
   *  message caused, such as a notification. */
  readonly trace: string;
  readonly event?: number;
  readonly conversation?: string | null;
  readonly turn?: string;
  readonly draft?: string;
  readonly session?: string | null;
  readonly code?: string | null;
  /** Result of an attempt. */
  readonly outcome?: string;
  /** True when the work is tried again after this attempt. */
  readonly isRetried?: boolean;
  /** State that a delivery receipt or an event of a call reports. */
  readonly state?: string;
  /** Number of the attempt, from 1 on. */
  readonly attempt?: number;
  /** Epoch milliseconds at which a reply becomes due. */
  readonly dueAt?: number;
  /** Milliseconds that the hop itself took. */
  readonly tookMs?: number | null;
  /** Milliseconds since the first of its messages was accepted. */
  readonly ageMs?: number | null;
}

/** Returns the token of an event in `trace`. */
export const traceOf = (event: number): string => `m${event}`;

/** Joins the traces of messages that are asked together. */
export const joinTraces = (...traces: readonly string[]): string =>
  [...new Set(traces.join(" ").split(" "))].filter((one) => one !== "").join(" ");

/** Writes the log line of a hop, and counts it. */
export function reportHop(hop: Hop, log: Log, statistics: Statistics): void {
  const line = lines[hop.name];
  if (line !== null) log[line[0]](fieldsOf(hop), line[1]);
  const { channel, tookMs, ageMs } = hop;
  const took = (stage: string) => {
    if (tookMs !== undefined && tookMs !== null)
      statistics.observe("hop_duration_seconds", { channel, hop: stage }, tookMs / 1000);
  };
  switch (hop.name) {
    case "received":
      statistics.count("messages_received_total", { channel });
      return;
    case "refused":
    case "held":
    case "failed":
      statistics.count(`messages_${hop.name}_total`, { channel, code: hop.code ?? "none" });
      return;
    case "asked":
      took("wait");
      return;
    case "answered":
      took("ask");
      return;
    case "queued":
      return;
    case "sent":
      took("send");
      if (ageMs !== undefined && ageMs !== null && hop.trace !== "")
        statistics.observe("response_duration_seconds", { channel }, ageMs / 1000);
      return;
    case "receipt":
      statistics.count("delivery_receipts_total", { channel, state: hop.state ?? "unknown" });
      return;
    case "replyHeld":
      statistics.count("replies_held_total", { channel });
      return;
    case "replyFailed":
      statistics.count("replies_failed_total", { channel });
      return;
    case "dropped":
      statistics.count("replies_dropped_total", { channel });
      return;
    case "duplicate":
      statistics.count("duplicates_total", { channel });
      return;
    case "capped":
      statistics.count("caps_reached_total", { channel, cap: hop.code ?? "channel" });
      return;
    case "askAttempt":
    case "sendAttempt": {
      const stage = hop.name === "askAttempt" ? "ask" : "send";
      statistics.count(`${stage}_attempts_total`, { channel, outcome: hop.outcome ?? "unknown" });
      if (hop.isRetried) statistics.count("retries_total", { channel, stage });
      return;
    }
    case "handled":
    case "call":
      return;
  }
}

/** Fields that have a place of their own in the line, or none. */
const named = new Set(["name", "trace", "channel", "dueAt", "tookMs", "ageMs", "isRetried"]);

function fieldsOf(hop: Hop): LogFields {
  const { trace, channel, dueAt, tookMs, ageMs } = hop;
  const given = Object.entries(hop).filter(
    ([name, value]) => !named.has(name) && value !== undefined && value !== null,
  );
  return {
    ...(trace === "" ? {} : { trace }),
    channel,
    ...Object.fromEntries(given),
    ...(dueAt === undefined ? {} : { due: new Date(dueAt).toISOString() }),
    ...(tookMs === undefined || tookMs === null ? {} : { duration_ms: Math.round(tookMs) }),
    ...(ageMs === undefined || ageMs === null ? {} : { age_ms: Math.round(ageMs) }),
  };
}
