// SQL statements and commits per email: single emails, and a burst. The statements that the daemon runs without work are
// measured first and subtracted. BEGIN, COMMIT and savepoints are no statements.

import { clock, sleep, sum, type Tally } from "../clock.ts";
import type { ProbeReport } from "../probe.ts";
import { atMost, printFigure, printTally } from "../report.ts";
import { startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { Replies, Rig } from "./rig.ts";

const idleMs = 5000;
const goals = { single: { statements: 30, commits: 5 }, burst: { statements: 30, commits: 0.1 } };

interface Cost {
  readonly statements: number;
  readonly commits: number;
}

/** Counts `singles` emails one at a time and a burst of `count`. */
export async function statements(rig: Rig, main: string, singles: number, count: number): Promise<Tally> {
  const around = rig.surroundings();
  const user = around.users[0] ?? "";
  const daemon = await startDaemon(around, { main, probe: true });
  const replies: Replies[] = [];
  let delivered = 0;
  const exchange = async (mails: number) => {
    const numbers = Array.from({ length: mails }, () => delivered++);
    const watched = rig.watch(numbers.map((n) => mailId("statements", n)));
    for (const n of numbers) await rig.deliver(user, mail("statements", n));
    replies.push(await watched);
    // The outcome is stored, and the email is marked in the mailbox, after the SMTP server has the reply.
    await sleep(500);
  };
  const costOf = async (work: () => Promise<unknown>, mails: number, idle: Cost): Promise<Cost> => {
    await daemon.probe();
    const began = clock();
    await work();
    const { statements, commits } = total(await daemon.probe());
    const ms = clock() - began;
    return {
      statements: (statements - idle.statements * ms) / mails,
      commits: (commits - idle.commits * ms) / mails,
    };
  };
  try {
    await exchange(3);
    // Per millisecond.
    const idle = await costOf(() => sleep(idleMs), idleMs, { statements: 0, commits: 0 });
    const alone = async () => {
      for (let n = 0; n < singles; n += 1) await exchange(1);
    };
    print("single", await costOf(alone, singles, idle));
    print("burst", await costOf(() => exchange(count), count, idle));
  } finally {
    await daemon.stop();
  }
  const tally = sum(replies);
  printTally("statements", { lost: 0, duplicated: 0 }, tally);
  return tally;
}

const total = ({ statements, commits }: ProbeReport): Cost => ({
  statements: statements.reduce((all, [, times]) => all + times, 0),
  commits,
});

function print(name: keyof typeof goals, cost: Cost): void {
  for (const what of ["statements", "commits"] as const) {
    const limit = goals[name][what];
    printFigure({
      name: `${what} per email, ${name}`,
      baseline: null,
      measured: cost[what],
      unit: "",
      compare: "none",
      goal: atMost(cost[what], limit, String(limit)),
    });
  }
}
