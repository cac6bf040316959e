import { describe, expect, test } from "vitest";
import { atLeast, atMost, type Figure } from "../report.ts";
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
  processors: 2,
  syncMs: 0.2,
  conversations: 32,
  connections: 10,
  ...others,
});

const ratio = (name: string, baseline: number, measured: number, goal: Figure["goal"], unit = "ms"): Figure => ({
  name,
  baseline,
  measured,
  unit,
  compare: "ratio",
  goal,
});
const count = (name: string, measured: number, limit: number): Figure => ({
  name,
  baseline: null,
  measured,
  unit: "",
  compare: "none",
  goal: atMost(measured, limit, String(limit)),
});
const row = (figure: Figure, others: Partial<Run> = {}) => limitsOf(run([figure], others))?.rows[0];

const burst = ratio("SMS burst of 2000, 64 customers waiting", 3000, 750, atLeast(0.25, 0.5, "x 0.5"));

/** A figure without a goal. */
const plain = (name: string, measured: number): Figure => ({
  name,
  baseline: null,
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
    const figure = ratio("single SMS, webhook to answer, median", 1, 5, atMost(5, 2.5, "x 2.5"));
    expect(row(figure)?.slice(2, 5)).toEqual(["x 5.00", "x 2.50", "yes"]);
    expect(row(figure)?.[5]).toContain("Baseline, 3 x 200 us of fdatasync, and SQLite");
    expect(row(figure, { syncMs: 0.3 })?.slice(3, 5)).toEqual(["x 2.80", "no"]);
  });

  test("compare a single email by its difference", () => {
    const figure: Figure = {
      name: "single email, median of 40",
      baseline: 500,
      measured: 510.5,
      unit: "ms",
      compare: "difference",
      goal: atMost(10.5, 10, "+10 ms"),
    };
    expect(row(figure)?.slice(2, 5)).toEqual(["+10.50 ms", "+1.50 ms", "yes"]);
  });

  test("add the SQLite time of one turn to the p99 of calls", () => {
    const figure = ratio("voice, 500 calls, a turn per 10 s, p99", 0.6, 1.8, atMost(3, 2, "x 2"));
    expect(row(figure)?.slice(2, 5)).toEqual(["x 3.00", "x 2.50", "no"]);
  });

  test("share the commits that an email needs among the conversations and the SMTP connections of a burst", () => {
    expect(row(count("commits per email, single", 6, 5))?.slice(3, 5)).toEqual(["4.00", "yes"]);
    const burst = count("commits per email, burst, later", 0.45, 0.1);
    expect(row(burst)?.slice(3, 5)).toEqual(["0.20", "no"]);
    expect(row(burst, { conversations: 16 })?.slice(3, 5)).toEqual(["0.25", "no"]);
    expect(row(burst, { conversations: 64, connections: 64 })?.slice(3, 5)).toEqual(["0.06", "yes"]);
  });

  test("divide the processors' time by the CPU time of an email on PostgreSQL", () => {
    const figures = [
      ratio("1 node, 500 emails, agent 0 ms", 400, 160, atLeast(0.4, 0.5, "x 0.5")),
      plain("  CPU of the nodes per email", 6),
      plain("  CPU of PostgreSQL per email", 3.5),
      plain("  CPU of mail server and platform per email", 0.5),
    ];
    expect(limitsOf(run(figures))?.rows.map((cells) => cells.slice(3, 5))).toEqual([["x 0.50", "yes"]]);
  });

  test("take the baseline's memory and CPU time with durability", () => {
    const memory = ratio("memory, peak in the burst", 365, 385, atMost(385, 300, "300 MB"), "MB");
    expect(row(memory)?.slice(2, 5)).toEqual(["385 MB", "365 MB", "no"]);
    const cpu = ratio("CPU per email at 20/s", 0.3, 5.5, atMost(5.5, 5, "5 ms"));
    expect(row(cpu)?.slice(3, 5)).toEqual(["0.55 ms", "yes"]);
  });

  test("state that a count of files has no physical limit", () => {
    expect(row(count("email: files executed", 67, 45))?.slice(3, 5)).toEqual(["-", "yes"]);
    const joined = [
      plain("email: files executed, joined", 47),
      plain("email: transitions between joined files", 198.4),
    ];
    const table = limitsOf(run([count("email: files executed", 67, 45), ...joined]));
    expect(table?.rows).toHaveLength(1);
    expect(table?.rows[0]?.at(-1)).toContain("47 files, 198 transitions");
  });

  test("are only those of goals whose costs the run has measured", () => {
    const memory = ratio("memory, peak in the burst", 365, 385, atMost(385, 300, "300 MB"), "MB");
    const table = limitsOf(run([burst, memory, count("agents/users", 2, 1)], { cpu: new Map() }));
    expect(table?.rows.map(([name]) => name)).toEqual(["memory, peak in the burst"]);
    expect(limitsOf(run([burst], { cpu: new Map() }))).toBeNull();
    expect(limitsOf(run([count("agents/users", 2, 1)]))).toBeNull();
  });
});
