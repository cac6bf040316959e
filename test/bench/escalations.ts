// A storm: ten thousand escalations that nobody takes, against a hundred. What each costs, what those cost that look at
// them, and what a daemon costs that has them and does nothing.

import { monitorEventLoopDelay } from "node:perf_hooks";
import { lookForAlarm } from "../../src/escalation/alarm.ts";
import { listEscalations } from "../../src/store/tables/escalations.ts";
import { overview } from "../../src/store/tables/overview.ts";
import { median, printFigure, printTally, sum } from "./report.ts";
import { clock, sleep, type Tally } from "./rig.ts";
import { groupMs, repeatMs, type Storm, startStorm } from "./storm.ts";

const few = 100;
const goal = 1.5;
const idleMs = 10_000;

/** Milliseconds. What is done to each of them, for one; what looks at all of them, also for one; what must not depend on
 *  how many there are. */
const measures = {
  raised: "raised, each",
  told: "told, each",
  again: "told again, each",
  alarm: "readyz, metrics, status, each open",
  list: "escalation list",
  overview: "overview of the channels",
  looked: "looked at on the platform, each",
  taken: 'taken by one "ok", each',
} as const;
type Measured = { readonly [name in keyof typeof measures]: number };

export async function escalations(many: number, rounds: number): Promise<Tally> {
  const tallies: Tally[] = [];
  // The first one is not counted: everything is done for the first time in it.
  await measure(few, tallies);
  const small: Measured[] = [];
  const large: Measured[] = [];
  for (let round = 0; round < rounds; round += 1) {
    small.push(await measure(few, tallies));
    large.push(await measure(many, tallies, round === 0));
  }
  for (const [name, title] of Object.entries(measures) as [keyof Measured, string][]) {
    const [bare, ours] = [small, large].map((all) => median(all.map((one) => one[name])));
    if (bare === undefined || ours === undefined) continue;
    const verdict = { text: `x ${goal.toFixed(2)}`, met: ours <= goal * bare };
    printFigure({ name: title, bare, ours, unit: "ms", compare: "ratio", goal: verdict });
  }
  const tally = sum(tallies);
  printTally("escalations", { lost: 0, duplicated: 0 }, tally);
  return tally;
}

async function measure(count: number, tallies: Tally[], telling = false): Promise<Measured> {
  const storm = await startStorm(count);
  const policy = () => storm.policy;
  try {
    const raised = await timed(() => storm.raise());
    const told = (await timed(() => storm.settle())) + (await after(storm, groupMs));
    const again = (await after(storm, repeatMs)) + (await after(storm, groupMs));
    const alarm = await typical(() => lookForAlarm({ db: storm.db, policy, isDown: () => false }));
    const list = await typical(() => storm.db.read((q) => listEscalations(q, { state: "open", limit: 50 })));
    const seen = await typical(() => storm.db.read(overview));
    const { open } = await storm.counts();
    if (telling) await idle(storm, count);
    const looked = await timed(() => storm.look());
    const taken = await timed(() => storm.says("ok"));
    const end = await storm.counts();
    tallies.push({ lost: count - open + (count - end.taken) + (count - end.looked), duplicated: 0 });
    const whole = { raised, told, again, alarm, looked, taken };
    const each = Object.fromEntries(Object.entries(whole).map(([name, ms]) => [name, ms / count]));
    return { ...(each as typeof whole), list, overview: seen };
  } finally {
    await storm.close();
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = clock();
  await work();
  return clock() - began;
}

async function after(storm: Storm, ms: number): Promise<number> {
  storm.forward(ms + 1000);
  return timed(() => storm.settle());
}

async function typical(look: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < 11; n += 1) times.push(await timed(look));
  return median(times);
}

/** What the loop costs while nothing is due. */
async function idle(storm: Storm, count: number): Promise<void> {
  const over = new AbortController();
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const before = { statements: storm.statements(), cpu: process.cpuUsage() };
  delay.enable();
  const running = storm.scheduler.run(over.signal);
  await sleep(idleMs);
  over.abort();
  await running;
  delay.disable();
  const { user, system } = process.cpuUsage(before.cpu);
  const figure = (name: string, ours: number, unit: string) =>
    printFigure({
      name: `idle with ${count} open: ${name}`,
      bare: null,
      ours,
      unit,
      compare: "none",
      goal: null,
    });
  figure("statements", ((storm.statements() - before.statements) * 1000) / idleMs, "a second");
  figure("processor time", (user + system) / idleMs, "ms a second");
  figure("event loop delay, p99", delay.percentile(99) / 1e6, "ms");
  figure("event loop delay, most", delay.max / 1e6, "ms");
}
