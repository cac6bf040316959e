// Texts: signed webhooks, each from a new customer, until the provider has accepted the answer. Measured at the full rate
// with 64 waiting customers, one at a time, and at a fixed rate.

import { sum, type Tally } from "../clock.ts";
import { type GoalName, goalOf } from "../goals.ts";
import { median, percentile, printFigure, printTally } from "../report.ts";
import type { PhoneFixture } from "./fixture.ts";
import type { TextsResult } from "./texters.ts";

const waiting = 64;
const perSecond = 25;

type Results = { readonly [name in "baseline" | "daemon"]: TextsResult[] };
const results = (): Results => ({ baseline: [], daemon: [] });

export async function sms(fixture: PhoneFixture, rounds: number, count: number): Promise<Tally> {
  const [full, single, steady] = [results(), results(), results()];
  const cpu: { readonly [name in keyof Results]: number[] } = { baseline: [], daemon: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const name of ["baseline", "daemon"] as const) {
      const subject = await fixture[name]();
      const texts = (order: { count: number; waiting: number | null; perSecond: number | null }) =>
        fixture.texts({ url: subject.inbound, ...order });
      try {
        await texts({ count: 50, waiting: 8, perSecond: null });
        const before = subject.cpu();
        full[name].push(await texts({ count, waiting, perSecond: null }));
        cpu[name].push((subject.cpu() - before) / count);
        single[name].push(await texts({ count: 100, waiting: 1, perSecond: null }));
        steady[name].push(await texts({ count: Math.min(count, 150), waiting: null, perSecond }));
      } finally {
        await subject.stop();
      }
    }
  }
  const rate = (name: keyof Results) => median(full[name].map((one) => one.rate));
  printFigure({
    name: `SMS burst of ${count}, ${waiting} customers waiting`,
    baseline: rate("baseline"),
    measured: rate("daemon"),
    unit: "texts/s",
    compare: "ratio",
    goal: goalOf("smsBurst", rate("daemon") / rate("baseline")),
  });
  printFigure({
    name: "SMS burst, CPU per text",
    baseline: median(cpu.baseline),
    measured: median(cpu.daemon),
    unit: "ms",
    compare: "ratio",
    goal: null,
  });
  printTimes("SMS burst, webhook", full, (one) => one.webhooks, null);
  printTimes("single SMS, webhook to answer", single, (one) => one.answers, "singleSms");
  printTimes(`SMS at ${perSecond}/s, webhook`, steady, (one) => one.webhooks, null);
  printTimes(`SMS at ${perSecond}/s, webhook to answer`, steady, (one) => one.answers, null);
  const tally = sum([...full.daemon, ...single.daemon, ...steady.daemon]);
  printTally("SMS", sum([...full.baseline, ...single.baseline, ...steady.baseline]), tally);
  return tally;
}

/** Prints the median, with its goal as a ratio, and the 99th percentile. */
function printTimes(
  name: string,
  measured: Results,
  of: (one: TextsResult) => readonly number[],
  goal: GoalName | null,
): void {
  const all = (side: keyof Results) => measured[side].flatMap(of);
  for (const [word, share] of [
    ["median", 0.5],
    ["p99", 0.99],
  ] as const) {
    const [baseline, daemon] = [percentile(all("baseline"), share), percentile(all("daemon"), share)];
    printFigure({
      name: `${name}, ${word}`,
      baseline,
      measured: daemon,
      unit: "ms",
      compare: "ratio",
      goal: goal !== null && word === "median" ? goalOf(goal, daemon / baseline) : null,
    });
  }
}
