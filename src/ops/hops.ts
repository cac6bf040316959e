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
  released: ["info", "message released by an operator"],
  call: ["info", "call state changed"],
  asked: ["info", "question asked"],
  answered: ["info", "question answered"],
  queued: ["info", "reply queued"],
  sent: ["info", "reply sent"],
  dropped: ["info", "reply dropped"],
  replyHeld: ["warn", "reply held"],
  replyFailed: ["warn", "reply failed"],
  replyReleased: ["info", "reply released"],
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

/** One commit of the store that is on disk. */
export interface CommitReport {
  /** The hops of its transactions, in their order. */
  readonly hops: readonly Hop[];
  readonly commitMs: number;
  /** Duration of the sync of an SQLite store; null when an earlier report has it, and when nothing was synced. */
  readonly syncMs: number | null;
}

/** Writes the log lines of a commit's hops, and counts commit and hops. */
export function reportCommit(
  { hops, commitMs, syncMs }: CommitReport,
  log: Log,
  statistics: Statistics,
): void {
  const entries = hops.map((hop) => ({ line: lines[hop.name], fields: fieldsOf(hop) }));
  for (const { line, fields } of entries) if (line !== null) log[line[0]](fields, line[1]);
  statistics.observe("store_commit_duration_seconds", {}, commitMs / 1000);
  if (syncMs !== null) statistics.observe("store_sync_duration_seconds", {}, syncMs / 1000);
  for (const hop of hops) counts[hop.name]?.(hop, statistics);
}

type Count = (hop: Hop, statistics: Statistics) => void;

/** Counts messages that get no answer, by reason. */
const ended =
  (state: "refused" | "held" | "failed"): Count =>
  ({ channel, code }, statistics) =>
    statistics.count(`messages_${state}_total`, { channel, code: code ?? "none" });

/** Observes the duration of a hop. */
const took =
  (hop: "wait" | "ask" | "send"): Count =>
  ({ channel, tookMs }, statistics) => {
    if (typeof tookMs === "number")
      statistics.observe("hop_duration_seconds", { channel, hop }, tookMs / 1000);
  };

const attempted =
  (stage: "ask" | "send"): Count =>
  ({ channel, outcome = "unknown", isRetried }, statistics) => {
    statistics.count(`${stage}_attempts_total`, { channel, outcome });
    if (isRetried) statistics.count("retries_total", { channel, stage });
  };

const counts: { readonly [name in HopName]?: Count } = {
  received: ({ channel }, statistics) => statistics.count("messages_received_total", { channel }),
  refused: ended("refused"),
  held: ended("held"),
  failed: ended("failed"),
  asked: took("wait"),
  answered: took("ask"),
  sent: (hop, statistics) => {
    took("send")(hop, statistics);
    const { channel, ageMs, trace } = hop;
    if (typeof ageMs === "number" && trace !== "")
      statistics.observe("response_duration_seconds", { channel }, ageMs / 1000);
  },
  receipt: ({ channel, state = "unknown" }, statistics) =>
    statistics.count("delivery_receipts_total", { channel, state }),
  replyHeld: ({ channel }, statistics) => statistics.count("replies_held_total", { channel }),
  replyFailed: ({ channel }, statistics) => statistics.count("replies_failed_total", { channel }),
  dropped: ({ channel }, statistics) => statistics.count("replies_dropped_total", { channel }),
  released: ({ channel }, statistics) => statistics.count("messages_released_total", { channel }),
  replyReleased: ({ channel }, statistics) => statistics.count("replies_released_total", { channel }),
  duplicate: ({ channel }, statistics) => statistics.count("duplicates_total", { channel }),
  capped: ({ channel, code }, statistics) =>
    statistics.count("caps_reached_total", { channel, cap: code ?? "channel" }),
  askAttempt: attempted("ask"),
  sendAttempt: attempted("send"),
};

/** Fields that have a place of their own in the line, or none. */
const named = new Set(["name", "trace", "channel", "dueAt", "tookMs", "ageMs", "isRetried"]);

function fieldsOf(hop: Hop): LogFields {
  const { trace, channel, dueAt, tookMs, ageMs } = hop;
  const fields: Record<string, unknown> = trace === "" ? { channel } : { trace, channel };
  for (const [name, value] of Object.entries(hop))
    if (value !== undefined && value !== null && !named.has(name)) fields[name] = value;
  if (dueAt !== undefined) fields["due"] = new Date(dueAt).toISOString();
  if (typeof tookMs === "number") fields["duration_ms"] = Math.round(tookMs);
  if (typeof ageMs === "number") fields["age_ms"] = Math.round(ageMs);
  return fields;
}
