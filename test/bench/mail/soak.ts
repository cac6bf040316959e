// A long run at a steady rate: the heap must not grow, and the event loop delay stays bounded. The heap is measured after
// a full collection once per interval; the median of the last third is compared with the median of the first third. All of
// it is after the first poll of a conversation, five minutes after its message, which runs code for the first time (about
// 2 MB with the compiled code).

import { sum, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import type { ProbeReport } from "../probe.ts";
import { median, printFigure, printTally } from "../report.ts";
import { startDaemon } from "../subject.ts";
import type { MailServers, Replies } from "./servers.ts";
import { deliverSteadily } from "./steady.ts";

const perSecond = 20;
const intervals = 12;

/** Runs for `minutes`, after a warm-up of six tenths of that time. */
export async function soak(servers: MailServers, main: string, minutes: number): Promise<Tally> {
  const around = servers.surroundings();
  const user = around.users[0] ?? "";
  const daemon = await startDaemon(around, { main, preload: "probe" });
  const reports: ProbeReport[] = [];
  const replies: Replies[] = [];
  const seconds = Math.round((minutes * 60) / intervals);
  try {
    replies.push(await deliverSteadily(servers, user, "soak-warm", perSecond, Math.round(minutes * 36)));
    await daemon.probe();
    for (let n = 0; n < intervals; n += 1) {
      replies.push(await deliverSteadily(servers, user, `soak-${n}`, perSecond, seconds));
      reports.push(await daemon.probe());
    }
    print(reports, minutes, daemon.memory());
  } finally {
    await daemon.stop();
  }
  const tally = sum(replies);
  printTally("soak", { lost: 0, duplicated: 0 }, tally);
  return tally;
}

function print(reports: readonly ProbeReport[], minutes: number, memory: number): void {
  const third = reports.length / 3;
  const heap = (part: readonly ProbeReport[]) => median(part.map((one) => one.heap)) / 1e6;
  const [first, last] = [heap(reports.slice(0, third)), heap(reports.slice(-third))];
  const name = `${minutes} min at ${perSecond} emails/s`;
  printFigure({
    name: `${name}: heap, last third against first`,
    baseline: first,
    measured: last,
    unit: "MB",
    compare: "ratio",
    goal: goalOf("heapGrowth", last / first),
  });
  const p99 = Math.max(...reports.map(({ delay }) => delay.p99));
  printFigure({
    name: `${name}: event loop delay, largest p99 of ${reports.length}`,
    baseline: null,
    measured: p99,
    unit: "ms",
    compare: "none",
    goal: goalOf("eventLoopDelay", p99),
  });
  const inform = (what: string, measured: number, unit: string) =>
    printFigure({ name: `${name}: ${what}`, baseline: null, measured, unit, compare: "none", goal: null });
  inform("event loop delay, maximum", Math.max(...reports.map(({ delay }) => delay.max)), "ms");
  inform("memory at the end", memory, "MB");
}
