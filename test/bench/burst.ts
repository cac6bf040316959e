// Many mails waiting in the mailbox. The contestant idles on an empty one, is stopped by signal, the mails are delivered,
// and the clock starts when it may go on: so starting Node is nobody's advantage, and no line of code is warm.

import { type Contestant, type Surroundings, startBare, startDaemon } from "./contestant.ts";
import { mail, mailId } from "./mails.ts";
import { median, printFigure, printTally, sum } from "./report.ts";
import { clock, type Rig, sleep, type Tally } from "./rig.ts";

interface Run extends Tally {
  /** Mails a second, from the start to the last answer. */
  readonly rate: number;
}

type Start = (around: Surroundings) => Promise<Contestant>;
const starts = {
  bare: (around) => startBare(around, 1),
  ours: (around) => startDaemon(around),
  eight: (around) => startBare(around, 8),
} satisfies { [name: string]: Start };

export async function burst(rig: Rig, rounds: number, count: number): Promise<Tally> {
  const runs: { [name in keyof typeof starts]: Run[] } = { bare: [], ours: [], eight: [] };
  for (let round = 0; round < rounds; round += 1) {
    for (const name of ["bare", "ours", "eight"] as const) {
      runs[name].push(await once(rig, starts[name], `burst${round}${name}`, count));
    }
  }
  const rate = (name: keyof typeof starts) => median(runs[name].map((run) => run.rate));
  const [bare, ours, eight] = [rate("bare"), rate("ours"), rate("eight")];
  printFigure({
    name: `burst of ${count}`,
    bare,
    ours,
    unit: "mails/s",
    compare: "ratio",
    goal: { text: "x 1.00", met: ours >= bare },
  });
  printFigure({
    name: `burst of ${count}, bare with 8 at a time`,
    bare: eight,
    ours,
    unit: "mails/s",
    compare: "ratio",
    goal: null,
  });
  const tally = sum(runs.ours);
  printTally("burst", sum([...runs.bare, ...runs.eight]), tally);
  return tally;
}

async function once(rig: Rig, start: Start, run: string, count: number): Promise<Run> {
  const around = rig.surroundings();
  if (around === null) throw new Error("there are no unused mailboxes left");
  const contestant = await start(around);
  const ids = Array.from({ length: count }, (_, n) => mailId(run, n));
  try {
    contestant.signal("SIGSTOP");
    for (const n of ids.keys()) await rig.deliver(around.users[0] ?? "", mail(run, n));
    // The server looks into its directories half a second after the first sign of something new.
    await sleep(1500);
    const watched = rig.watch(ids);
    const began = clock();
    contestant.signal("SIGCONT");
    const { answered, lost, duplicated } = await watched;
    return { rate: (answered.size * 1000) / (Math.max(...answered.values()) - began), lost, duplicated };
  } finally {
    await contestant.stop();
  }
}
