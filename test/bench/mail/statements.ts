// SQL statements and commits per email: single emails, and a burst; the first email of each conversation, and a later one.
// The statements that the daemon runs without work are measured first and subtracted. BEGIN, COMMIT and savepoints are no
// statements.

import { clock, sleep, sum, type Tally } from "../clock.ts";
import type { ProbeReport } from "../probe.ts";
import { atMost, printFigure, printTally } from "../report.ts";
import { startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers, Replies } from "./servers.ts";

/** Long enough for the renewals of the channel's lease. */
const idleMs = 20_000;
const goals = { single: { statements: 30, commits: 5 }, burst: { statements: 30, commits: 0.1 } };

interface Cost {
  readonly statements: number;
  readonly commits: number;
}

/** Counts `singles` emails one at a time and a burst of `count`, and answers to each of them. */
export async function statements(
  servers: MailServers,
  main: string,
  singles: number,
  count: number,
): Promise<Tally> {
  const around = servers.surroundings();
  const user = around.users[0] ?? "";
  const daemon = await startDaemon(around, { main, preload: "probe" });
  const replies: Replies[] = [];
  let delivered = 0;
  const next = (mails: number) => Array.from({ length: mails }, () => delivered++);
  /** Delivers the emails; each is a later one of the conversation that the email with that number has opened. */
  const exchange = async (numbers: readonly number[], firsts: readonly number[] = []) => {
    const watched = servers.watch(numbers.map((n) => mailId("statements", n)));
    for (const [at, n] of numbers.entries()) await servers.deliver(user, mail("statements", n, firsts[at]));
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
    await exchange(next(3));
    // Per millisecond.
    const idle = await costOf(() => sleep(idleMs), idleMs, { statements: 0, commits: 0 });
    const alone = async (numbers: readonly number[], firsts: readonly number[] = []) => {
      for (const [at, n] of numbers.entries()) await exchange([n], firsts.slice(at, at + 1));
    };
    const [opened, followed] = [next(singles), next(singles)];
    print("single", "", await costOf(() => alone(opened), singles, idle));
    print("single", ", later", await costOf(() => alone(followed, opened), singles, idle));
    const [many, more] = [next(count), next(count)];
    print("burst", "", await costOf(() => exchange(many), count, idle));
    print("burst", ", later", await costOf(() => exchange(more, many), count, idle));
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

function print(name: keyof typeof goals, which: string, cost: Cost): void {
  for (const what of ["statements", "commits"] as const) {
    const limit = goals[name][what];
    printFigure({
      name: `${what} per email, ${name}${which}`,
      baseline: null,
      measured: cost[what],
      unit: "",
      compare: "none",
      goal: atMost(cost[what], limit, String(limit)),
    });
  }
}
