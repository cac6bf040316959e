// The table of CPU time per component, and the ratio that would remain if a part of the daemon cost nothing.

import type { Tally } from "../clock.ts";
import { printTable } from "../report.ts";
import { type Kind, kindOf, ownStore } from "./components.ts";
import { type CostReport, mainThread } from "./profiler.ts";

export type Side = "baseline" | "daemon";
export type Sides<One> = { readonly [side in Side]: One };

/** A load that has run once. */
export interface Pass extends Tally {
  readonly messages: number;
  readonly report: CostReport;
}

/** A load that has run without and with the profiler. */
export interface Cost extends Tally {
  readonly plain: Pass;
  readonly profiled: Pass;
}

interface Part {
  readonly kind: Kind;
  /** Work of the main thread. */
  readonly isMain: boolean;
}

/** Microseconds per message. */
interface Row extends Part, Sides<number> {
  readonly name: string;
}

/** CPU time in microseconds per message. */
export interface CpuParts {
  /** SQLite, and the threads that write to the disk. */
  readonly durability: number;
  /** With src/store. */
  readonly own: number;
  readonly package: number;
  /** With V8's threads. */
  readonly node: number;
  readonly total: number;
  /** Work of the main thread, and the part of SQLite in it. */
  readonly main: number;
  readonly mainDurability: number;
}

/** Other threads are workers of the daemon, with names of their own. */
const threadNames: readonly (readonly [RegExp, string, Kind])[] = [
  [/^V8Worker|^DelayedTask|^SignalInsp/, "V8 threads: garbage collector, compiler", "node"],
  [/^libuv/, "libuv threads: fdatasync", "store"],
  [/^checkpoint/, "checkpoint thread", "store"],
];
/** Rows below this part of the daemon's time are added up by kind. */
const smallest = 0.01;
const kindNames: Readonly<Record<Kind, string>> = {
  store: "store",
  own: "own code",
  package: "packages",
  node: "Node",
};

export function printCosts(title: string, unit: string, sides: Sides<Cost>): Sides<CpuParts> {
  const parts = { baseline: partsOf(sides.baseline), daemon: partsOf(sides.daemon) };
  const names = new Set([...parts.daemon.keys(), ...parts.baseline.keys()]);
  const all = [...names].map((name): Row => {
    const [daemon, baseline] = [parts.daemon.get(name), parts.baseline.get(name)];
    return {
      name,
      ...(daemon ?? baseline ?? { kind: "node", isMain: true }),
      baseline: baseline?.us ?? 0,
      daemon: daemon?.us ?? 0,
    };
  });
  const total = totalOf(sides, ({ process }) => process);
  const rest = (side: Side) => total[side] - all.reduce((sum, row) => sum + row[side], 0);
  const rows = withoutSmall(all, total.daemon * smallest).sort((a, b) => b.daemon - a.daemon);
  const cells = (name: string, kind: string, { baseline, daemon }: Sides<number>) => [
    name,
    kind,
    ...[daemon, baseline, daemon - baseline].map((us) => us.toFixed(0)),
  ];
  printTable({
    title: `${title}: CPU time in microseconds per ${unit}`,
    columns: ["component", "part of", "daemon", "bare", "difference"],
    rows: [
      ...rows.map((row) => cells(row.name, kindNames[row.kind], row)),
      cells("not attributed", "", { baseline: rest("baseline"), daemon: rest("daemon") }),
      cells("sum, as measured by the kernel", "", total),
    ],
    notes: [
      `Not attributed: ${percent(rest("daemon"), total.daemon)} of the daemon's time, ${percent(rest("baseline"), total.baseline)} of the bare script's.`,
      `The samples cover ${coverage(sides.daemon)} and ${coverage(sides.baseline)} of the main thread's CPU time, which they divide. Less than 100 %: the profiler waited for a processor; more: the main thread did. Work of libuv between callbacks (polling, system calls that read) has no samples and is divided among the components.`,
      `Limits, as CPU time of the bare script divided by the daemon's. ${limits(all, total)}.`,
      `On the main thread alone, which bounds the rate: ${limits(
        all.filter(({ isMain }) => isMain),
        { baseline: mainOf(sides.baseline), daemon: mainOf(sides.daemon) },
      )}.`,
    ],
  });
  printFunctions(sides.daemon);
  const summary = (side: Side): CpuParts => ({
    ...summaryOf(all, side),
    total: total[side],
    main: mainOf(sides[side]),
  });
  return { baseline: summary("baseline"), daemon: summary("daemon") };
}

function summaryOf(rows: readonly Row[], side: Side): Omit<CpuParts, "total" | "main"> {
  const isDurability = ({ kind, name }: Row) => kind === "store" && name !== ownStore;
  const sum = (isCounted: (row: Row) => boolean) => add(rows.filter(isCounted).map((row) => row[side]));
  return {
    durability: sum(isDurability),
    own: sum((row) => row.kind === "own" || (row.kind === "store" && !isDurability(row))),
    package: sum(({ kind }) => kind === "package"),
    node: sum(({ kind }) => kind === "node"),
    mainDurability: sum((row) => isDurability(row) && row.isMain),
  };
}

/** Lists where the daemon's main thread spends its time, with BENCH_FILES=1. */
function printFunctions({ profiled: { report, messages } }: Cost): void {
  for (const [name, us] of report.functions)
    process.stdout.write(`${(us / messages).toFixed(1).padStart(8)}  ${name}\n`);
}

const percent = (part: number, all: number): string => `${((part / all) * 100).toFixed(1)} %`;
const add = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);
const sampled = ({ profiled }: Cost): number => add(Object.values(profiled.report.components)) / profiled.messages;
const mainOf = ({ plain }: Cost): number => (plain.report.threads[mainThread] ?? 0) / plain.messages;
const coverage = (cost: Cost): string => percent(sampled(cost), mainOf(cost));
const totalOf = (sides: Sides<Cost>, of: (report: CostReport) => number): Sides<number> => ({
  baseline: of(sides.baseline.plain.report) / sides.baseline.plain.messages,
  daemon: of(sides.daemon.plain.report) / sides.daemon.plain.messages,
});

/** The ratio of the CPU times if parts of the daemon cost nothing. */
function limits(rows: readonly Row[], total: Sides<number>): string {
  const store = add(rows.filter(({ kind }) => kind === "store").map(({ daemon }) => daemon));
  // Packages that the bare script does without are a choice of our own code.
  const isOwn = ({ kind, baseline }: Row) => kind === "own" || (kind === "package" && baseline === 0);
  const own = add(rows.filter(isOwn).map(({ daemon }) => daemon));
  const ratio = (saved: number) => `x ${(total.baseline / (total.daemon - saved)).toFixed(2)}`;
  return (
    `Now ${ratio(0)}; if the store cost nothing ${ratio(store)}; ` +
    `if own code and the packages that it alone uses cost nothing ${ratio(own)}; both ${ratio(store + own)}`
  );
}

function withoutSmall(rows: readonly Row[], least: number): Row[] {
  const isSmall = (row: Row) => Math.max(row.baseline, row.daemon) < least;
  const added = (Object.keys(kindNames) as Kind[]).map((kind): Row => {
    const small = rows.filter((row) => row.kind === kind && isSmall(row));
    const sum = (side: Side) => add(small.map((row) => row[side]));
    const name = `${kindNames[kind]}, other`;
    return { name, kind, isMain: true, baseline: sum("baseline"), daemon: sum("daemon") };
  });
  return [...rows.filter((row) => !isSmall(row)), ...added.filter((row) => row.daemon + row.baseline > 0)];
}

/** Microseconds per message. The profile divides the CPU time of the main thread in the pass without profiler. V8 considers
 *  the thread idle between callbacks, so the work of libuv has no samples; by `perf` it is about 5 % of a burst of texts. */
function partsOf(cost: Cost): Map<string, Part & { readonly us: number }> {
  const { report, messages } = cost.plain;
  const scale = mainOf(cost) / sampled(cost) / cost.profiled.messages;
  const parts = new Map<string, Part & { readonly us: number }>();
  for (const [name, us] of Object.entries(cost.profiled.report.components))
    parts.set(name, { kind: kindOf(name), isMain: true, us: us * scale });
  for (const [thread, us] of Object.entries(report.threads)) {
    if (thread === mainThread) continue;
    const [, name, kind] = threadNames.find(([pattern]) => pattern.test(thread)) ?? [
      null,
      `${thread} thread`,
      "own" as const,
    ];
    parts.set(name, { kind, isMain: false, us: (parts.get(name)?.us ?? 0) + us / messages });
  }
  return parts;
}
