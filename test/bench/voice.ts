// Calls: from what the caller has said to the first words of the answer, with one call, a hundred, five hundred at once.
// The platform answers at once, so what is left is ours, the machine's and the store's.

import type { PhoneRig } from "./phone-rig.ts";
import { percentile, printFigure, printTally, sum } from "./report.ts";
import type { Tally } from "./rig.ts";

const sizes = [
  { calls: 1, turns: 60, everyMs: 100 },
  { calls: 100, turns: 5, everyMs: 5000 },
  { calls: 500, turns: 4, everyMs: 5000 },
];
const goal = 2;

export async function voice(rig: PhoneRig, quick: boolean): Promise<Tally> {
  const tallies: { [name in "bare" | "ours"]: Tally[] } = { bare: [], ours: [] };
  for (const size of sizes) {
    const times: { [name in "bare" | "ours"]: readonly number[] } = { bare: [], ours: [] };
    for (const name of ["bare", "ours"] as const) {
      const contestant = await rig[name]();
      try {
        const turns = quick ? Math.ceil(size.turns / 4) : size.turns;
        const result = await rig.calls({ url: contestant.call, ...size, turns });
        times[name] = result.turns;
        tallies[name].push(result);
      } finally {
        await contestant.stop();
      }
    }
    const name = size.calls === 1 ? "one call" : `${size.calls} calls`;
    for (const [word, share] of [
      ["median", 0.5],
      ["p99", 0.99],
    ] as const) {
      const [bare, ours] = [percentile(times.bare, share), percentile(times.ours, share)];
      printFigure({
        name: `prompt to first words, ${name}: ${word}`,
        bare,
        ours,
        unit: "ms",
        compare: "difference",
        goal: word === "p99" ? { text: `x ${goal.toFixed(2)}`, met: ours <= goal * bare } : null,
      });
    }
  }
  const tally = sum(tallies.ours);
  printTally("calls", sum(tallies.bare), tally);
  return tally;
}
