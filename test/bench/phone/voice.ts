// Calls: from the caller's prompt to the first token of the reply. The platform answers at once, so the daemon, the
// machine and the store remain.

import { sum, type Tally } from "../clock.ts";
import { type GoalName, goalOf } from "../goals.ts";
import { percentile, printFigure, printTally } from "../report.ts";
import type { CallsResult } from "./callers.ts";
import type { PhoneFixture } from "./fixture.ts";

interface Load {
  readonly name: string;
  readonly calls: number;
  /** Measured turns per call and round. */
  readonly turns: number;
  readonly everyMs: number;
  readonly rounds: number;
  /** For the ratio of the 99th percentiles. */
  readonly goal: GoalName | null;
}

const loads: readonly Load[] = [
  { name: "one call", calls: 1, turns: 60, everyMs: 100, rounds: 1, goal: null },
  { name: "500 calls, a turn per 10 s", calls: 500, turns: 3, everyMs: 10_000, rounds: 1, goal: "calls" },
  { name: "500 calls, a turn per 1 s", calls: 500, turns: 10, everyMs: 1000, rounds: 2, goal: "busyCalls" },
];

type Measured = CallsResult & { readonly cpu: number };
type Results = { readonly [name in "baseline" | "daemon"]: Measured[] };

export async function voice(fixture: PhoneFixture, quick: boolean): Promise<Tally> {
  const tallies: { readonly [name in keyof Results]: Tally[] } = { baseline: [], daemon: [] };
  for (const full of loads) {
    const load = quick ? { ...full, turns: Math.ceil(full.turns / 4), rounds: 1 } : full;
    const results: Results = { baseline: [], daemon: [] };
    for (let round = 0; round < load.rounds; round += 1)
      for (const name of ["baseline", "daemon"] as const) results[name].push(await measure(fixture, name, load));
    print(load, results);
    tallies.baseline.push(...results.baseline);
    tallies.daemon.push(...results.daemon);
  }
  const tally = sum(tallies.daemon);
  printTally("voice", sum(tallies.baseline), tally);
  return tally;
}

async function measure(fixture: PhoneFixture, name: keyof Results, load: Load): Promise<Measured> {
  const subject = await fixture[name]();
  try {
    const { calls, turns, everyMs } = load;
    const before = subject.cpu();
    const result = await fixture.calls({ url: subject.call, calls, turns, everyMs });
    return { ...result, cpu: (subject.cpu() - before) / (calls * (turns + 1)) };
  } finally {
    await subject.stop();
  }
}

function print({ name, goal }: Load, results: Results): void {
  for (const [word, share] of [
    ["median", 0.5],
    ["p99", 0.99],
  ] as const) {
    const of = (side: keyof Results) =>
      percentile(
        results[side].flatMap(({ turns }) => turns),
        share,
      );
    const [baseline, measured] = [of("baseline"), of("daemon")];
    printFigure({
      name: `voice, ${name}, ${word}`,
      baseline,
      measured,
      unit: "ms",
      compare: word === "p99" ? "ratio" : "difference",
      goal: goal !== null && word === "p99" ? goalOf(goal, measured / baseline) : null,
    });
  }
  const cpu = (side: keyof Results) => results[side].reduce((all, one) => all + one.cpu, 0) / results[side].length;
  printFigure({
    name: `voice, ${name}, CPU per turn`,
    baseline: cpu("baseline"),
    measured: cpu("daemon"),
    unit: "ms",
    compare: "ratio",
    goal: null,
  });
}
