// CPU time per email at a steady rate. Both subjects run all the time and take turns in short windows; in its own window
// all CPU time of a subject counts, with all its threads and the kernel's work for it.
//
// V8 optimizes a function after it has run some hundred times, so the first emails cost more. A daemon runs for weeks: the
// goal applies to its later emails, and the first ones are printed beside them.

import { clock, sleep, sum, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { printFigure, printTally } from "../report.ts";
import { type Subject, startBare, startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers, Replies } from "./servers.ts";

const perSecond = 20;
const windowSeconds = 5;
/** Between the windows of the first emails and those of the later ones. */
const warmupWindows = 12;

const names = ["baseline", "daemon"] as const;
type Name = (typeof names)[number];

interface Window extends Tally {
  readonly cpu: number;
  readonly mails: number;
}

/** `windows` of five seconds for each subject, after its start and after the warm-up. */
export async function steady(servers: MailServers, main: string, windows: number): Promise<Tally> {
  const around = { baseline: servers.surroundings(), daemon: servers.surroundings() };
  const subjects = { baseline: await startBare(around.baseline), daemon: await startDaemon(around.daemon, { main }) };
  const all: { readonly [name in Name]: Window[] } = { baseline: [], daemon: [] };
  const pass = async (count: number) => {
    for (let n = 0; n < count; n += 1)
      for (const name of names) {
        const run = `steady-${name}-${all[name].length}`;
        all[name].push(await window(servers, subjects[name], around[name].users[0] ?? "", run));
      }
  };
  const print = (label: string, isGoal: boolean) => {
    const [baseline, measured] = [perMail(all.baseline.slice(-windows)), perMail(all.daemon.slice(-windows))];
    const goal = isGoal ? goalOf("emailCpu", measured) : null;
    printFigure({
      name: `CPU per email at ${perSecond}/s${label}`,
      baseline,
      measured,
      unit: "ms",
      compare: "ratio",
      goal,
    });
  };
  try {
    // The first window of each is not counted: code is read from disk and compiled.
    await pass(1 + windows);
    const mailsOf = (count: number) => count * windowSeconds * perSecond;
    print(`, emails ${mailsOf(1) + 1} to ${mailsOf(1 + windows)}`, false);
    await pass(warmupWindows + windows);
    print("", true);
  } finally {
    await Promise.all(names.map((name) => subjects[name].stop()));
  }
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
