// Where the time of a single message goes: the waits for each peer and for the disk between its arrival and its answer.

import type { Tally } from "../clock.ts";
import { median, printTable } from "../report.ts";
import type { Sides } from "./breakdown.ts";
import type { CostReport, Span } from "./profiler.ts";

/** Messages that passed one at a time. */
export interface Timed extends Tally {
  /** From the arrival of each message to its answer, in `clock` milliseconds. */
  readonly messages: readonly (readonly [from: number, to: number])[];
  readonly report: CostReport;
}

const announced = "until the server announces the email";
const rest = "none of these: own code, packages, Node";
const cpu = "CPU time of the main thread in that time";
/** A span counts for the first of these that covers it, so that a sync during a request counts for the request. */
const order = ["SQLite", "SMS provider", "SMTP server", "agent", "IMAP server", "thread", "disk"];
const labels: Readonly<Record<string, string>> = {
  SQLite: "SQLite statements",
  thread: "worker thread (parsing)",
  disk: "only waiting for fdatasync",
};

/** Where the time between arrival and answer goes, in microseconds per message. */
export interface Waits {
  /** Syncs that end in that time, and the time in which the message only waits for them. */
  readonly syncs: number;
  readonly disk: number;
  readonly sqlite: number;
  readonly peers: number;
  readonly thread: number;
  /** Own code, packages and Node. */
  readonly rest: number;
}

/** Prints and returns the mean of each part. */
export function printTimeline(title: string, sides: Sides<Timed>): Sides<Waits> {
  const parts = { baseline: partsOf(sides.baseline), daemon: partsOf(sides.daemon) };
  const of = (side: keyof typeof sides, name: string) => parts[side].get(name) ?? 0;
  const cells = (label: string, baseline: number, daemon: number) => [
    label,
    ...[daemon, baseline, daemon - baseline].map((ms) => ms.toFixed(2)),
  ];
  const row = (name: string) => cells(labels[name] ?? name, of("baseline", name), of("daemon", name));
  const names = [announced, ...order, rest].filter((name) => parts.daemon.has(name) || parts.baseline.has(name));
  const total = (side: keyof typeof sides) => names.reduce((sum, name) => sum + of(side, name), 0);
  printTable({
    title: `${title}: mean milliseconds from its arrival to its answer`,
    columns: ["waiting for", "daemon", "bare", "difference"],
    rows: [...names.map(row), cells("all", total("baseline"), total("daemon")), row(cpu)],
    notes: [`Mean of ${sides.daemon.messages.length} messages, one at a time.`],
  });
  const waits = (side: keyof typeof sides) => waitsOf(sides[side], parts[side]);
  return { baseline: waits("baseline"), daemon: waits("daemon") };
}

function waitsOf({ messages, report }: Timed, parts: ReadonlyMap<string, number>): Waits {
  const us = (...names: readonly string[]) => names.reduce((sum, name) => sum + (parts.get(name) ?? 0), 0) * 1000;
  const syncs = messages.map(
    ([from, to]) => report.spans.filter(([what, , end]) => what === "disk" && end > from && end < to).length,
  );
  return {
    syncs: median(syncs),
    disk: us("disk"),
    sqlite: us("SQLite"),
    peers: us(...order.filter((name) => !["SQLite", "thread", "disk"].includes(name))),
    thread: us("thread"),
    rest: us(rest),
  };
}

function partsOf({ messages, report }: Timed): Map<string, number> {
  const parts = new Map<string, number>();
  const add = (name: string, ms: number) => parts.set(name, (parts.get(name) ?? 0) + ms / messages.length);
  for (const [arrived, to] of messages) {
    // The IMAP server announces new mail unasked.
    const news = report.spans.find(([what, , end]) => what === "IMAP server" && end > arrived && end < to)?.[2];
    if (news !== undefined) add(announced, news - arrived);
    const from = news ?? arrived;
    const spans = report.spans.filter(([, begin, end]) => end > from && begin < to);
    const clipped = spans.map(([what, begin, end]) => ({
      what: what === "BEGIN" || what === "COMMIT" ? "SQLite" : what,
      begin: Math.max(begin, from),
      end: Math.min(end, to),
    }));
    const edges = [...new Set([from, to, ...clipped.flatMap(({ begin, end }) => [begin, end])])];
    edges.sort((a, b) => a - b);
    for (const [index, edge] of edges.slice(0, -1).entries()) {
      const next = edges[index + 1] ?? edge;
      const open = clipped.filter(({ begin, end }) => begin <= edge && end >= next);
      add(order.find((what) => open.some((span) => span.what === what)) ?? rest, next - edge);
    }
    add(cpu, (lastBefore(report.spans, to)?.[3] ?? 0) - (lastBefore(report.spans, from)?.[3] ?? 0));
  }
  return parts;
}

/** Spans are in the order of their ends. */
const lastBefore = (spans: readonly Span[], time: number): Span | undefined =>
  spans.findLast(([, , end]) => end <= time);
