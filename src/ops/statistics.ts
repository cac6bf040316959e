// Counters and histograms of the daemon, kept without prom-client, which is loaded at the first scrape only. metrics.ts
// exposes them. All definitions are in one table, from which docs/logs-and-metrics.md is generated. Counts and logs the
// hops of each commit.

import type { Log, LogFields } from "bridgehead/contract";
import { type CommitReport, type Hop, type HopName, hopLines } from "./hops.ts";

export interface Measure {
  readonly type: "counter" | "histogram";
  readonly help: string;
  readonly labels: readonly string[];
  /** Upper bounds of a histogram, in its unit. */
  readonly buckets?: readonly number[];
}

const fast = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const slow = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600];
const whole = [0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400];

/** All counters and histograms, by name without the prefix `bridgehead_`. */
export const measures = {
  messages_received_total: counter("Messages from customers and responders that were stored.", ["channel"]),
  messages_refused_total: counter(
    "Messages that are not answered, by reason: see `bridgehead inbox list --code`. Duplicates are counted in `duplicates_total`.",
    ["channel", "code"],
  ),
  messages_held_total: counter("Messages that wait for an operator, by reason.", ["channel", "code"]),
  messages_failed_total: counter("Messages whose processing failed for good, by reason.", ["channel", "code"]),
  messages_released_total: counter(
    "Messages that an operator has released: they are routed and asked in spite of the guards.",
    ["channel"],
  ),
  duplicates_total: counter(
    "Deliveries of a message that was stored before: repeated webhooks, and mail that was read again.",
    ["channel"],
  ),
  caps_reached_total: counter("Times that a rate cap held or delayed a message.", ["channel", "cap"]),
  ask_attempts_total: counter("Requests to the platform with a question, by outcome.", ["channel", "outcome"]),
  send_attempts_total: counter("Attempts to send a reply, by outcome.", ["channel", "outcome"]),
  retries_total: counter("Work that is tried again after a failure, by stage (ask, send).", ["channel", "stage"]),
  replies_held_total: counter("Replies that wait for an operator.", ["channel"]),
  replies_failed_total: counter("Replies that cannot be delivered.", ["channel"]),
  replies_dropped_total: counter("Replies that were dropped before they were sent.", ["channel"]),
  replies_released_total: counter(
    "Replies that an operator sends now or again, and the parts of a reply that follow a released part.",
    ["channel"],
  ),
  delivery_receipts_total: counter("Delivery receipts and bounces that match a reply, by state.", ["channel", "state"]),
  connections_lost_total: counter("Times that the connection of a channel was lost.", ["channel"]),
  heartbeats_total: counter("Requests to the heartbeat URL, by outcome.", ["outcome"]),
  response_duration_seconds: histogram(
    "Time from the receipt of a message to the acceptance of its answer by the provider, with the configured delay.",
    ["channel"],
    whole,
  ),
  hop_duration_seconds: histogram(
    "Duration of one hop: wait (receipt to question), ask (question to answer), send (attempt to send).",
    ["channel", "hop"],
    slow,
  ),
  store_commit_duration_seconds: histogram("Duration of a commit of the store, without its sync.", [], fast),
  store_sync_duration_seconds: histogram("Duration of a sync (fdatasync) of the SQLite store.", [], fast),
} as const satisfies Record<string, Measure>;

export type MeasureName = keyof typeof measures;
type Labels<Name extends MeasureName> = {
  readonly [Label in (typeof measures)[Name]["labels"][number]]: string;
};

function counter<const Label extends readonly string[]>(help: string, labels: Label) {
  return { type: "counter", help, labels } as const;
}

function histogram<const Label extends readonly string[]>(help: string, labels: Label, buckets: readonly number[]) {
  return { type: "histogram", help, labels, buckets } as const;
}

/** The values of one measure with one combination of labels. */
interface Series {
  readonly labels: Readonly<Record<string, string>>;
  /** The count of a counter, or the sum of a histogram. */
  sum: number;
  /** Observations per bucket; the last one is above all bounds. Empty for a counter. */
  readonly buckets: number[];
}

export interface Sample {
  readonly metricName?: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

export class Statistics {
  readonly #series = new Map<MeasureName, Map<string, Series>>();

  count<Name extends MeasureName>(name: Name, labels: Labels<Name>, by = 1): void {
    this.#of(name, labels).sum += by;
  }

  /** Adds an observation to a histogram, in its unit. */
  observe<Name extends MeasureName>(name: Name, labels: Labels<Name>, value: number): void {
    const series = this.#of(name, labels);
    const bounds = (measures[name] as Measure).buckets ?? [];
    const found = bounds.findIndex((bound) => value <= bound);
    const at = found < 0 ? bounds.length : found;
    series.sum += value;
    series.buckets[at] = (series.buckets[at] ?? 0) + 1;
  }

  /** Returns the values of a measure. A measure without labels always has one, so that it can be alerted on. */
  samples(name: MeasureName): Sample[] {
    const { type, labels: names, buckets: bounds = [] } = measures[name] as Measure;
    if (names.length === 0) this.#of(name, {});
    const all = [...(this.#series.get(name)?.values() ?? [])];
    if (type === "counter") return all.map(({ labels, sum }) => ({ labels, value: sum }));
    return all.flatMap(({ labels, sum, buckets }) => {
      let total = 0;
      const steps = [...bounds, "+Inf"].map((le, at) => {
        total += buckets[at] ?? 0;
        return { metricName: `${prefix}${name}_bucket`, labels: { ...labels, le }, value: total };
      });
      return [
        ...steps,
        { metricName: `${prefix}${name}_sum`, labels, value: sum },
        { metricName: `${prefix}${name}_count`, labels, value: total },
      ];
    });
  }

  #of(name: MeasureName, labels: Readonly<Record<string, string>>): Series {
    const key = Object.values(labels).join("\0");
    let all = this.#series.get(name);
    if (!all) this.#series.set(name, (all = new Map()));
    let series = all.get(key);
    if (!series) all.set(key, (series = { labels, sum: 0, buckets: [] }));
    return series;
  }
}

/** The prefix of every metric of the daemon. */
export const prefix = "bridgehead_";

/** Counts a commit and its hops, then writes the log lines of the hops. */
export function reportCommit({ hops, commitMs, syncMs }: CommitReport, log: Log, statistics: Statistics): void {
  statistics.observe("store_commit_duration_seconds", {}, commitMs / 1000);
  if (syncMs !== null) statistics.observe("store_sync_duration_seconds", {}, syncMs / 1000);
  const lines: [level: "info" | "warn", fields: LogFields, message: string][] = [];
  for (const hop of hops) {
    counts[hop.name]?.(hop, statistics);
    const line = hopLines[hop.name];
    if (line !== null) lines.push([line[0], fieldsOf(hop), line[1]]);
  }
  for (const [level, fields, message] of lines) log[level](fields, message);
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
    if (typeof tookMs === "number") statistics.observe("hop_duration_seconds", { channel, hop }, tookMs / 1000);
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
