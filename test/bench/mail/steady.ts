// CPU time per email at a steady rate. Both subjects run all the time and take turns in short windows; in its own window
// all CPU time of a subject counts, with all its threads and the kernel's work for it.

import { clock, sleep, sum, type Tally } from "../clock.ts";
import { atMost, printFigure, printTally } from "../report.ts";
import { type Subject, startBare, startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers, Replies } from "./servers.ts";

const perSecond = 20;
const windowSeconds = 5;
const goalMs = 5;

interface Window extends Tally {
  readonly cpu: number;
  readonly mails: number;
}

/** `windows` of five seconds for each subject. */
export async function steady(servers: MailServers, main: string, windows: number): Promise<Tally> {
  const around = { baseline: servers.surroundings(), daemon: servers.surroundings() };
  const bare = await startBare(around.baseline);
  const daemon = await startDaemon(around.daemon, { main });
  const subjects = { baseline: bare, daemon };
  const counted: { [name in keyof typeof subjects]: Window[] } = { baseline: [], daemon: [] };
  const all: { [name in keyof typeof subjects]: Window[] } = { baseline: [], daemon: [] };
  try {
    // The first window of each is not counted: code is read from disk and compiled.
    for (let n = 0; n <= windows; n += 1) {
      for (const name of ["baseline", "daemon"] as const) {
        const measured = await window(servers, subjects[name], around[name].users[0] ?? "", `steady-${name}-${n}`);
        all[name].push(measured);
        if (n > 0) counted[name].push(measured);
      }
    }
  } finally {
    await Promise.all([bare.stop(), daemon.stop()]);
  }
  const [baseline, measured] = [perMail(counted.baseline), perMail(counted.daemon)];
  printFigure({
    name: `CPU per email at ${perSecond}/s`,
    baseline,
    measured,
    unit: "ms",
    compare: "ratio",
    goal: atMost(measured, goalMs, `${goalMs} ms`),
  });
  const tally = sum(all.daemon);
  printTally(`emails at ${perSecond}/s`, sum(all.baseline), tally);
  return tally;
}

const perMail = (windows: readonly Window[]): number =>
  windows.reduce((all, one) => all + one.cpu, 0) / windows.reduce((all, one) => all + one.mails, 0);

async function window(servers: MailServers, subject: Subject, user: string, run: string): Promise<Window> {
  const before = subject.cpu();
  const { lost, duplicated, mails } = await deliverSteadily(servers, user, run, perSecond, windowSeconds);
  return { cpu: subject.cpu() - before, mails, lost, duplicated };
}

/** Delivers `perSecond` emails a second for `seconds` and waits for their replies. */
export async function deliverSteadily(
  servers: MailServers,
  user: string,
  run: string,
  perSecond: number,
  seconds: number,
): Promise<Replies & { readonly mails: number }> {
  const mails = perSecond * seconds;
  const ids = Array.from({ length: mails }, (_, n) => mailId(run, n));
  const watched = servers.watch(ids);
  const began = clock();
  for (const n of ids.keys()) {
    await servers.deliver(user, mail(run, n));
    await sleep(Math.max(0, began + ((n + 1) * 1000) / perSecond - clock()));
  }
  return { ...(await watched), mails };
}
