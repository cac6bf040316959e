// Processor time for each mail at a steady pace. Both contestants run all the time and take turns in short windows; in
// its own windows everything a contestant does is counted, with all its threads and the kernel's work for it.

import { type Contestant, startBare, startDaemon } from "./contestant.ts";
import { mail, mailId } from "./mails.ts";
import { printFigure, printTally, sum } from "./report.ts";
import { clock, type Rig, sleep, type Tally } from "./rig.ts";

const perSecond = 20;
const windowSeconds = 5;
const goal = 1.5;

interface Window extends Tally {
  readonly cpu: number;
  readonly mails: number;
}

/** `windows` of five seconds for each. */
export async function steady(rig: Rig, windows: number): Promise<Tally> {
  const [one, other] = [rig.surroundings(), rig.surroundings()];
  if (one === null || other === null) throw new Error("there are no unused mailboxes left");
  const bare = await startBare(one, 1);
  const daemon = await startDaemon(other);
  const counted: { bare: Window[]; ours: Window[] } = { bare: [], ours: [] };
  const warming: { bare: Window[]; ours: Window[] } = { bare: [], ours: [] };
  let memory = 0;
  try {
    // The first window of each is not counted: code is read from disk and compiled.
    for (let n = 0; n <= windows; n += 1) {
      const into = n === 0 ? warming : counted;
      into.bare.push(await window(rig, bare, one.users[0] ?? "", `steady-bare-${n}`));
      into.ours.push(await window(rig, daemon, other.users[0] ?? "", `steady-ours-${n}`));
    }
    memory = daemon.memory();
  } finally {
    await Promise.all([bare.stop(), daemon.stop()]);
  }
  const [theirs, ours] = [perMail(counted.bare), perMail(counted.ours)];
  printFigure({
    name: `processor time a mail, ${perSecond} mails a second`,
    bare: theirs,
    ours,
    unit: "ms",
    compare: "ratio",
    goal: { text: `x ${goal.toFixed(2)}`, met: ours <= goal * theirs },
  });
  printFigure({
    name: "memory right after it",
    bare: null,
    ours: memory,
    unit: "MB",
    compare: "none",
    goal: null,
  });
  const tally = sum([...warming.ours, ...counted.ours]);
  printTally("steady", sum([...warming.bare, ...counted.bare]), tally);
  return tally;
}

const perMail = (windows: readonly Window[]): number =>
  windows.reduce((all, one) => all + one.cpu, 0) / windows.reduce((all, one) => all + one.mails, 0);

async function window(rig: Rig, contestant: Contestant, user: string, run: string): Promise<Window> {
  const mails = perSecond * windowSeconds;
  const ids = Array.from({ length: mails }, (_, n) => mailId(run, n));
  const before = contestant.cpu();
  const watched = rig.watch(ids);
  const began = clock();
  for (const n of ids.keys()) {
    await rig.deliver(user, mail(run, n));
    await sleep(Math.max(0, began + ((n + 1) * 1000) / perSecond - clock()));
  }
  const { lost, duplicated } = await watched;
  return { cpu: contestant.cpu() - before, mails, lost, duplicated };
}
