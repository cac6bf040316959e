// Ten thousand open escalations compared with a hundred: the cost of each, of the commands and probes that read them, and
// of an idle daemon that has them.

import { monitorEventLoopDelay } from "node:perf_hooks";
import { readAlarm } from "../../../src/escalation/alarm/stage.ts";
import { overview } from "../../../src/store/operators/overview.ts";
import { listEscalations } from "../../../src/store/tables/escalations.ts";
import { clock, sleep, sum, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { median, printFigure, printTally } from "../report.ts";
import { groupMs, repeatMs, type Storm, startStorm } from "./storm.ts";

const few = 100;
const idleMs = 10_000;

/** In milliseconds: work per escalation, and reads that must not depend on the number of escalations. */
const measures = {
  raised: "escalation opened, each",
  told: "responder notified, each",
  again: "notified again, each",
  alarm: "readyz, metrics, status, each open",
  list: "escalation list",
  overview: "overview of the channels",
  looked: "conversation polled, each",
  taken: 'acknowledged by one "ok", each',
} as const;
type Measured = { readonly [name in keyof typeof measures]: number };

export async function escalations(many: number, rounds: number): Promise<Tally> {
  const tallies: Tally[] = [];
  // The first one is not counted: code is compiled.
  await measure(few, tallies);
  const small: Measured[] = [];
  const large: Measured[] = [];
  for (let round = 0; round < rounds; round += 1) {
    small.push(await measure(few, tallies));
    large.push(await measure(many, tallies, round === 0));
  }
  for (const [name, title] of Object.entries(measures) as [keyof Measured, string][]) {
    const [baseline, measured] = [small, large].map((all) => median(all.map((one) => one[name])));
    if (baseline === undefined || measured === undefined) continue;
    const goal = goalOf("openEscalations", measured / baseline);
    printFigure({ name: title, baseline, measured, unit: "ms", compare: "ratio", goal });
  }
  const tally = sum(tallies);
  printTally("escalations", { lost: 0, duplicated: 0 }, tally);
  return tally;
}

async function measure(count: number, tallies: Tally[], printsIdle = false): Promise<Measured> {
  const storm = await startStorm(count);
  const policy = () => storm.policy;
  try {
    const raised = await timed(() => storm.raise());
    const told = (await timed(() => storm.settle())) + (await after(storm, groupMs));
    const again = (await after(storm, repeatMs)) + (await after(storm, groupMs));
    const alarm = await typical(() => readAlarm({ db: storm.db, policy, isDown: () => false }));
    const list = await typical(() => storm.db.read((q) => listEscalations(q, { state: "open", limit: 50 })));
    const seen = await typical(() => storm.db.read(overview));
    const { open } = await storm.counts();
    if (printsIdle) await idle(storm, count);
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

/** Measures the scheduler while nothing is due. */
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
  const figure = (name: string, measured: number, unit: string) =>
    printFigure({
      name: `idle with ${count} open: ${name}`,
      baseline: null,
      measured,
      unit,
      compare: "none",
      goal: null,
    });
  figure("statements", ((storm.statements() - before.statements) * 1000) / idleMs, "a second");
  figure("processor time", (user + system) / idleMs, "ms a second");
  figure("event loop delay, p99", delay.percentile(99) / 1e6, "ms");
  figure("event loop delay, most", delay.max / 1e6, "ms");
}
