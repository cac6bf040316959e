import { describe, expect, test } from "vitest";
import { type GoalName, goalOf, goals } from "../goals.ts";
import type { Figure } from "../report.ts";
import type { CpuParts } from "./breakdown.ts";
import { limitsOf, type Run } from "./limits.ts";
import type { Waits } from "./timeline.ts";

const bare: CpuParts = {
  durability: 0,
  own: 0,
  package: 200,
  node: 100,
  total: 300,
  main: 200,
  mainDurability: 0,
};
const daemon: CpuParts = {
  durability: 250,
  own: 400,
  package: 300,
  node: 500,
  total: 1450,
  main: 1000,
  mainDurability: 200,
};
const waits: Waits = { syncs: 3, disk: 1700, sqlite: 900, peers: 500, thread: 0, rest: 1900 };
const noWaits: Waits = { syncs: 0, disk: 0, sqlite: 0, peers: 400, thread: 0, rest: 200 };

const run = (figures: readonly Figure[], others: Partial<Run> = {}): Run => ({
  figures,
  cpu: new Map(
    (["email burst", "emails at a steady rate", "SMS burst", "voice turns"] as const).map((load) => [
      load,
      { baseline: bare, daemon },
    ]),
  ),
  waits: new Map(
    (["single email", "single SMS", "voice turn"] as const).map((message) => [
      message,
      { baseline: noWaits, daemon: waits },
    ]),
  ),
  pages: new Map(),
  processors: 2,
  syncMs: 0.2,
  conversations: 32,
  connections: 10,
  ...others,
});

const ratio = (name: string, baseline: number, measured: number, goal: GoalName, unit = "ms"): Figure => ({
  name,
  baseline,
  measured,
  unit,
  compare: "ratio",
  goal: goalOf(goal, measured / baseline),
});
/** A goal about the measured value itself. */
const value = (name: string, measured: number, goal: GoalName, baseline: number | null = null): Figure => ({
  name,
  baseline,
  measured,
  unit: "",
  compare: "ratio",
  goal: goalOf(goal, measured),
});
const row = (figure: Figure, others: Partial<Run> = {}) => limitsOf(run([figure], others))?.rows[0];

const burst = ratio("SMS burst of 2000, 64 customers waiting", 3000, 750, "smsBurst");

/** A figure without a goal. */
const plain = (name: string, measured: number, baseline: number | null = null): Figure => ({
  name,
  baseline,
  measured,
  unit: "",
  compare: "none",
  goal: null,
});

describe("the limits of the benchmark's goals", () => {
  test("add SQLite to the main thread of the baseline in a burst", () => {
    expect(row(burst)).toEqual([
      "SMS burst of 2000, 64 customers waiting",
      ">= x 0.5",
      "x 0.25",
      "x 0.50",
      "yes",
      "Baseline 300 us; daemon 1450 us: durability 250 us, own code 400 us, packages 300 us, Node 500 us. Main thread: baseline 200 us, durability 200 us, all 1000 us. 200 us / 400 us of the slower of main thread and 2 processors",
    ]);
  });

  test("bound a burst by all threads on a single processor", () => {
    expect(row(burst, { processors: 1 })?.slice(3, 5)).toEqual(["x 0.55", "yes"]);
  });

  test("add the syncs in sequence and SQLite to the baseline of a single text", () => {
    const figure = ratio("single SMS, webhook to answer, median", 2, 8, "singleSms");
    expect(row(figure)?.slice(2, 5)).toEqual(["x 4.00", "x 1.75", "yes"]);
    expect(row(figure)?.[5]).toContain("Baseline, 3 x 200 us of fdatasync, and SQLite");
    expect(row(figure, { syncMs: 0.4 })?.slice(3, 5)).toEqual(["x 2.05", "no"]);
  });

  test("add the pages that only a large store reads and writes to the time of the small one", () => {
    const name = "store with 10 messages, returning customers: all steps";
    const figure = ratio(name, 200, 400, "largeStore", "us");
    const pages = new Map([[name, { read: 10, write: 5, readUs: 2, writeUs: 4 }]]);
    expect(row(figure, { pages })?.slice(2)).toEqual([
      "x 2.00",
      "x 1.20",
      "no",
      "Baseline, and the system's time for pages of old rows, which the small store has in memory: 10.0 to read (2.0 us each), 5.0 more to write (4.0 us each)",
    ]);
    expect(row(figure)?.slice(3, 5), "mails that touch no old row").toEqual(["x 1.00", "yes"]);
  });

  test("compare a single email by its difference", () => {
    const figure: Figure = {
      name: "single email, median of 40",
      baseline: 500,
      measured: 510.5,
      unit: "ms",
      compare: "difference",
      goal: goalOf("singleEmail", 10.5),
    };
    expect(row(figure)?.slice(2, 5)).toEqual(["+10.50 ms", "+1.50 ms", "yes"]);
  });

  test("add the SQLite time of one turn to the p99 of calls", () => {
    const figure = ratio("voice, 500 calls, a turn per 10 s, p99", 0.6, 1.8, "calls");
    expect(row(figure)?.slice(2, 5)).toEqual(["x 3.00", "x 2.50", "no"]);
  });

  test("share the commits that an email needs among the conversations and the SMTP connections of a burst", () => {
    expect(row(value("commits per email, single", 6, "singleCommits"))?.slice(3, 5)).toEqual(["4.00", "yes"]);
    const burst = value("commits per email, burst, later", 0.45, "burstCommits");
    expect(row(burst)?.slice(3, 5)).toEqual(["0.20", "no"]);
    expect(row(burst, { conversations: 16 })?.slice(3, 5)).toEqual(["0.25", "no"]);
    expect(row(burst, { conversations: 64, connections: 64 })?.slice(3, 5)).toEqual(["0.06", "yes"]);
  });

  test("divide the processors' time by the CPU time of an email on PostgreSQL", () => {
    const figures = [
      ratio("1 node, 500 emails, agent 0 ms", 400, 160, "oneNode"),
      plain("  CPU of the nodes per email", 6),
      plain("  CPU of PostgreSQL per email", 3.5),
      plain("  CPU of mail server and platform per email", 0.5),
      ratio("2 nodes, 500 emails, agent 300 ms", 60, 80, "twoNodes"),
      plain("  CPU of the nodes per email", 10),
      plain("  CPU of PostgreSQL per email", 9),
      plain("  CPU of mail server and platform per email", 1),
    ];
    const rows = (processors: number) => limitsOf(run(figures, { processors }))?.rows.map((cells) => cells.slice(3, 5));
    expect(rows(2)).toEqual([
      ["x 0.50", "yes"],
      ["x 1.67", "no"],
    ]);
    expect(rows(8)?.[1]).toEqual(["x 2.00", "yes"]);
  });

  test("add durability to the CPU time of the baseline", () => {
    expect(row(value("CPU per email at 20/s", 5.5, "emailCpu", 0.3))?.slice(2, 5)).toEqual(["5.50", "0.55", "yes"]);
  });

  test("take the idle daemon for the memory of a burst, and no baseline with other settings of V8", () => {
    const peak = value("memory, peak in the burst", 385, "burstMemory", 365);
    const idle = value("memory, idle with one mailbox", 110, "idleMemory", 90);
    expect(limitsOf(run([peak, idle]))?.rows.map((cells) => cells.slice(2, 5))).toEqual([
      ["385", "110", "yes"],
      ["110", "-", "-"],
    ]);
  });

  test("take the start of a process that loads the same packages", () => {
    const start = value("start to first reply, median of 15", 1500, "start", 1100);
    const cpu = plain("start to first reply, CPU time", 1490, 1050);
    const cells = limitsOf(run([start, cpu]))?.rows[0];
    expect(cells?.slice(2, 5)).toEqual(["1500", "1100", "no"]);
    expect(cells?.[5]).toContain("Node, packages and connections 1050 ms, own code, store and worker threads 440 ms");
  });

  test("state that a count of files has no physical limit", () => {
    const files = value("email: files executed", 67, "pathFiles");
    expect(row(files)?.slice(3, 5)).toEqual(["-", "yes"]);
    const joined = [
      plain("email: files executed, joined", 47),
      plain("email: transitions between joined files", 198.4),
      plain("email: lines of the executed files", 16_401),
    ];
    const table = limitsOf(run([files, ...joined]));
    expect(table?.rows).toHaveLength(1);
    expect(table?.rows[0]?.at(-1)).toContain("at least 42 files of 400 lines");
    expect(table?.rows[0]?.at(-1)).toContain("47 files, 198 transitions");
  });

  test("have no row for goals that are met", () => {
    const memory = value("memory, peak in the burst", 282, "burstMemory", 375);
    expect(limitsOf(run([memory, burst]))?.rows.map(([name]) => name)).toEqual([burst.name]);
    expect(limitsOf(run([memory, plain("SMS burst, CPU per text", 2)]))).toBeNull();
  });

  test("state when the run lacks the costs that a limit follows from", () => {
    expect(row(burst, { cpu: new Map() })?.slice(2)).toEqual([
      "x 0.25",
      "-",
      "-",
      "This run has not measured the figures that the limit follows from",
    ]);
  });

  test("do not take a value that the daemon exceeds for a limit", () => {
    const figure = ratio("SMS burst of 2000, 64 customers waiting", 3000, 1470, "smsBurst");
    expect(row(figure, { processors: 1, syncMs: 9 })?.slice(2, 5)).toEqual(["x 0.49", "x 0.55", "yes"]);
    const slow = { ...daemon, mainDurability: 600 };
    const cpu = new Map([["SMS burst", { baseline: bare, daemon: slow }]] as const);
    expect(row(figure, { cpu })?.slice(2, 5)).toEqual(["x 0.49", "-", "-"]);
    expect(row(figure, { cpu })?.[5]).toContain("x 0.25, which the daemon exceeds");
  });

  test.each(Object.keys(goals) as GoalName[])("have a row for a missed goal: %s", (name) => {
    const { at, value: limit } = goals[name];
    const missed = at === "most" ? 2 * limit + 1 : limit / 2;
    const figure: Figure = { ...ratio("a measure", 1, missed, name), goal: goalOf(name, missed) };
    const others = [
      plain("  CPU of the nodes per email", 6),
      plain("  CPU of PostgreSQL per email", 3.5),
      plain("  CPU of mail server and platform per email", 0.5),
      plain("memory, idle with one mailbox", 90),
      plain("start to first reply, CPU time", 1490, 1050),
    ];
    const cells = row(figure, { figures: [figure, ...others] });
    expect(cells?.[0]).toBe("a measure");
    expect(cells?.[4]).toMatch(/^(?:yes|no|-)$/);
    expect(cells?.[5]).not.toContain("not measured");
  });
});
