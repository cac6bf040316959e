// Calls: from what the caller has said to the first words of the answer, with one call, a hundred, five hundred at once.
// The platform answers at once, so what is left is ours, the machine's and the store's.

import type { CallsResult } from "./callers.ts";
import type { PhoneRig } from "./phone-rig.ts";
import { percentile, printFigure, printTally, sum } from "./report.ts";
import type { Tally } from "./rig.ts";

const sizes = [
  { name: "one call", calls: 1, turns: 60, everyMs: 100 },
  { name: "100 calls", calls: 100, turns: 5, everyMs: 5000 },
  { name: "500 calls", calls: 500, turns: 4, everyMs: 5000 },
];
const goal = 2;

type Size = (typeof sizes)[number];
type Measured = CallsResult & { readonly cpu: number };

export async function voice(rig: PhoneRig, quick: boolean): Promise<Tally> {
  const tallies: { [name in "bare" | "ours"]: Tally[] } = { bare: [], ours: [] };
  for (const full of sizes) {
    const size = quick ? { ...full, turns: Math.ceil(full.turns / 4) } : full;
    const bare = await measure(rig, "bare", size);
    const ours = await measure(rig, "ours", size);
    printTimes(size, bare, ours);
    tallies.bare.push(bare);
    tallies.ours.push(ours);
  }
  const tally = sum(tallies.ours);
  printTally("calls", sum(tallies.bare), tally);
  return tally;
}

async function measure(rig: PhoneRig, who: "bare" | "ours", size: Size): Promise<Measured> {
  const contestant = await rig[who]();
  try {
    const { calls, turns, everyMs } = size;
    const before = contestant.cpu();
    const result = await rig.calls({ url: contestant.call, calls, turns, everyMs });
    return { ...result, cpu: (contestant.cpu() - before) / (calls * (turns + 1)) };
  } finally {
    await contestant.stop();
  }
}

function printTimes({ name }: Size, bare: Measured, ours: Measured): void {
  for (const [word, share] of [
    ["median", 0.5],
    ["p99", 0.99],
  ] as const) {
    const [theirs, mine] = [percentile(bare.turns, share), percentile(ours.turns, share)];
    printFigure({
      name: `prompt to first words, ${name}: ${word}`,
      bare: theirs,
      ours: mine,
      unit: "ms",
      compare: word === "p99" ? "ratio" : "difference",
      goal: word === "p99" ? { text: `x ${goal.toFixed(2)}`, met: mine <= goal * theirs } : null,
    });
  }
  printFigure({
    name: `processor time a turn, ${name}`,
    bare: bare.cpu,
    ours: ours.cpu,
    unit: "ms",
    compare: "ratio",
    goal: null,
  });
}
