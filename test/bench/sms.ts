// Texts: signed webhooks, each from a person who never wrote before, until the answer is taken by the provider. First as
// fast as answers come, with many people waiting at any time; then a few a second, as on an ordinary day.

import type { PhoneContestant, PhoneRig } from "./phone-rig.ts";
import { median, percentile, printFigure, printTally, sum } from "./report.ts";
import type { Tally } from "./rig.ts";
import type { TextsResult } from "./texters.ts";

const waiting = 64;
const perSecond = 25;

export async function sms(rig: PhoneRig, rounds: number, count: number): Promise<Tally> {
  const full: Results = { bare: [], ours: [] };
  const steady: Results = { bare: [], ours: [] };
  const cpu: { readonly [name in keyof Results]: number[] } = { bare: [], ours: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const name of ["bare", "ours"] as const) {
      const contestant = await rig[name]();
      try {
        await rig.texts({ url: contestant.inbound, count: 50, waiting: 8, perSecond: null });
        const before = contestant.cpu();
        full[name].push(await rig.texts({ url: contestant.inbound, count, waiting, perSecond: null }));
        cpu[name].push((contestant.cpu() - before) / count);
        steady[name].push(await calmDay(rig, contestant, Math.min(count, 250)));
      } finally {
        await contestant.stop();
      }
    }
  }
  const rate = (name: keyof Results) => median(full[name].map((one) => one.rate));
  printFigure({
    name: `texts, ${waiting} people waiting, of ${count}`,
    bare: rate("bare"),
    ours: rate("ours"),
    unit: "texts/s",
    compare: "ratio",
    goal: { text: "x 0.50", met: rate("ours") >= 0.5 * rate("bare") },
  });
  printFigure({
    name: "processor time a text at that rate",
    bare: median(cpu.bare),
    ours: median(cpu.ours),
    unit: "ms",
    compare: "ratio",
    goal: null,
  });
  times("webhook at that rate", full, (one) => one.webhooks, 2);
  times(`webhook, ${perSecond} texts a second`, steady, (one) => one.webhooks, 2);
  times(`answer, ${perSecond} texts a second`, steady, (one) => one.answers, null);
  const tally = sum([...full.ours, ...steady.ours]);
  printTally("texts", sum([...full.bare, ...steady.bare]), tally);
  return tally;
}

type Results = { readonly [name in "bare" | "ours"]: TextsResult[] };

const calmDay = (rig: PhoneRig, { inbound }: PhoneContestant, count: number): Promise<TextsResult> =>
  rig.texts({ url: inbound, count, waiting: null, perSecond });

/** Median with its goal, and the 99th percentile beside it. */
function times(
  name: string,
  results: Results,
  of: (one: TextsResult) => readonly number[],
  goal: number | null,
): void {
  const all = (side: keyof Results) => results[side].flatMap(of);
  for (const [word, share] of [
    ["median", 0.5],
    ["p99", 0.99],
  ] as const) {
    const [bare, ours] = [percentile(all("bare"), share), percentile(all("ours"), share)];
    printFigure({
      name: `${name}: ${word}`,
      bare,
      ours,
      unit: "ms",
      compare: "ratio",
      goal:
        goal !== null && word === "median"
          ? { text: `x ${goal.toFixed(2)}`, met: ours <= goal * bare }
          : null,
    });
  }
}
