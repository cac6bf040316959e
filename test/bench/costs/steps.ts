// What happens to one text, and in one turn of a call, step by step: microseconds from its arrival to its answer. Shows
// which part of the latency the guarantees cost (records that are on disk before the first byte), and what is left for
// code to save.

import { median, printTable } from "../report.ts";
import type { Sides } from "./breakdown.ts";
import type { Span } from "./profiler.ts";
import type { Timed } from "./timeline.ts";

/** An instant of a message. */
interface Mark {
  readonly name: string;
  readonly at: number;
}

/** Where a message goes, in its usual order. */
export interface StepNames {
  /** What each transaction writes. */
  readonly transactions: readonly string[];
  /** What each request to the agent does. */
  readonly requests: readonly string[];
  /** False for calls, whose records do not wait for the disk (`src/calls/power-failure-rows.ts`). */
  readonly waitsForDisk: boolean;
}

export const textSteps: StepNames = {
  transactions: [
    "store and route the text, claim its turn",
    "record the opening",
    "record the question",
    "store the answer, compose, claim its draft",
    "record the send",
  ],
  requests: ["open the conversation", "ask the question"],
  waitsForDisk: true,
};

export const callSteps: StepNames = {
  transactions: [
    "store and route the utterance, claim and record its turn",
    "store the answer, compose, claim its draft",
    "record the reply",
  ],
  requests: ["ask the question"],
  waitsForDisk: false,
};

/** Who takes the time of a step. */
type StepKind = "disk" | "peer" | "SQLite" | "own code";

interface Step {
  readonly label: string;
  readonly kind: StepKind;
}

/** Prints the median of each step over the messages with the most frequent order of marks. */
export function printSteps(title: string, { daemon, baseline }: Sides<Timed>, names: StepNames): void {
  const marked = daemon.messages.map(([from, to]) => marksOf(daemon.report.spans, [from, to], names));
  const orders = Map.groupBy(marked, (marks) => marks.map(({ name }) => name).join(" "));
  const [usual = []] = [...orders.values()].sort((a, b) => b.length - a.length);
  const [first = []] = usual;
  const count = { BEGIN: 0, agent: 0 };
  const rows = first.slice(1).map(({ name }, index) => {
    const before = first[index]?.name ?? "";
    if (name === "BEGIN" || name === "agent") count[name] += 1;
    const { label, kind } = stepOf(before, name, {
      transaction: names.transactions[count.BEGIN - 1] ?? "another transaction",
      request: names.requests[count.agent - 1] ?? "another request",
    });
    const us = median(usual.map((marks) => ((marks[index + 1]?.at ?? 0) - (marks[index]?.at ?? 0)) * 1000));
    return { label, kind, us };
  });
  const sum = (kinds: readonly StepKind[]) =>
    rows.reduce((all, { kind, us }) => all + (kinds.includes(kind) ? us : 0), 0);
  const bare = median(baseline.messages.map(([from, to]) => (to - from) * 1000));
  const ratio = (us: number) => `x ${(us / bare).toFixed(1)}`;
  const all = sum(["disk", "peer", "SQLite", "own code"]);
  printTable({
    title: `${title}, step by step: median microseconds`,
    columns: ["step", "time of", "daemon"],
    rows: [...rows.map(({ label, kind, us }) => [label, kind, us.toFixed(0)]), ["all", "", all.toFixed(0)]],
    notes: [
      `${usual.length} of ${daemon.messages.length} messages took these steps. The bare relay took ${bare.toFixed(0)} in all.`,
      `Disk and peers alone: ${sum(["disk", "peer"]).toFixed(0)} (${ratio(sum(["disk", "peer"]))}). With SQLite: ${sum(["disk", "peer", "SQLite"]).toFixed(0)} (${ratio(sum(["disk", "peer", "SQLite"]))}). All: ${ratio(all)}.`,
    ],
  });
}

/** The marks between the arrival of a message and its answer, in order. */
function marksOf(
  spans: readonly Span[],
  [from, to]: Timed["messages"][number],
  { transactions, waitsForDisk }: StepNames,
): Mark[] {
  const marks: Mark[] = [];
  for (const [what, begin, end] of spans) {
    const add = (name: string, at: number) => {
      if (at > from && at < to) marks.push({ name, at });
    };
    if (what === "BEGIN") add(what, begin);
    else if (what === "COMMIT" || what === "caller") add(what, end);
    else if (what === "agent" || what === "SMS provider" || (what === "disk" && waitsForDisk)) {
      add(what, begin);
      add(`${what} end`, end);
    }
  }
  marks.sort((a, b) => a.at - b.at);
  // What the previous message still writes is no step of this one.
  const arrived = Math.max(
    0,
    marks.findIndex(({ name }) => name === "caller"),
  );
  let begun = 0;
  // Neither is what is written after the answer has left.
  const own = marks.slice(arrived).filter(({ name }) => (name === "BEGIN" ? ++begun : begun) <= transactions.length);
  return [{ name: "from", at: from }, ...own, { name: "to", at: to }];
}

function stepOf(
  before: string,
  name: string,
  { transaction, request }: { readonly transaction: string; readonly request: string },
): Step {
  if (name === "caller") return { label: "arrival", kind: "peer" };
  if (name === "BEGIN")
    return before === "caller"
      ? { label: "verify and parse the request", kind: "own code" }
      : { label: `prepare: ${transaction}`, kind: "own code" };
  if (name === "COMMIT") return { label: transaction, kind: "SQLite" };
  if (name === "disk") return { label: "wait for a commit that follows", kind: "own code" };
  if (name === "disk end") return { label: "fdatasync", kind: "disk" };
  if (name === "agent") return { label: `write the request: ${request}`, kind: "own code" };
  if (name === "agent end") return { label: `agent: ${request}`, kind: "peer" };
  if (before === "SMS provider") return { label: "request on its way to the provider", kind: "peer" };
  if (name === "SMS provider") return { label: "write the request: send", kind: "own code" };
  return { label: "the answer on its way", kind: "peer" };
}
