// SQL statements and commits per email, and the abort signals and DOM exceptions that own code and packages create: single
// emails, and a burst; the first email of each conversation, and a later one.
// The statements that the daemon runs without work are measured first and subtracted; a commit of such statements alone is
// not one of an email. BEGIN, COMMIT and savepoints are no statements, and a transaction that changes nothing is no commit.

import { clock, sleep, sum, type Tally } from "../clock.ts";
import { type GoalName, goalOf, goals } from "../goals.ts";
import { printFigure, printTable, printTally } from "../report.ts";
import { printPages } from "../store/pages.ts";
import { parallel, startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers, Replies } from "./servers.ts";

/** Long enough for everything that an idle daemon does periodically: it reads the settings about once a minute. */
const idleMs = 120_000;
const goalNames = {
  single: { statements: "singleStatements", commits: "singleCommits" },
  burst: { statements: "burstStatements", commits: "burstCommits" },
} as const;

interface Cost {
  readonly statements: number;
  readonly commits: number;
  readonly signals: number;
  readonly exceptions: number;
  /** Milliseconds per email. */
  readonly ms: number;
}

/** Counts `singles` emails one at a time and a burst of `count`, and answers to each of them. */
export async function statements(servers: MailServers, main: string, singles: number, count: number): Promise<Tally> {
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
  const during = async (work: () => Promise<unknown>) => {
    await daemon.probe();
    const began = clock();
    await work();
    const report = await daemon.probe();
    return { ...report, ms: clock() - began };
  };
  try {
    await exchange(next(3));
    const idle = await during(() => sleep(idleMs));
    const periodic = new Set(idle.statements.map(([sql]) => sql));
    const costOf = async (work: () => Promise<unknown>, mails: number): Promise<Cost> => {
      const report = await during(work);
      const { ms } = report;
      const own = report.commits.filter(([writes]) => !writes.every((sql) => periodic.has(sql)));
      const lessIdle = (count: number, without: number) => (count - (without * ms) / idle.ms) / mails;
      return {
        statements: lessIdle(total(report.statements), total(idle.statements)),
        commits: total(own) / mails,
        signals: lessIdle(report.signals, idle.signals),
        exceptions: lessIdle(report.exceptions, idle.exceptions),
        ms: ms / mails,
      };
    };
    const alone = async (numbers: readonly number[], firsts: readonly number[] = []) => {
      for (const [at, n] of numbers.entries()) await exchange([n], firsts.slice(at, at + 1));
    };
    const [opened, followed] = [next(singles), next(singles)];
    const first = await costOf(() => alone(opened), singles);
    print("single", "", first);
    print("single", ", later", await costOf(() => alone(followed, opened), singles));
    const paged = next(singles);
    await printPages("email", daemon, singles, (n) => alone(paged.slice(n, n + 1)));
    const [many, more] = [next(count), next(count)];
    const burst = await costOf(() => exchange(many), count);
    print("burst", "", burst);
    print("burst", ", later", await costOf(() => exchange(more, many), count));
    printGathering(first, burst);
  } finally {
    await daemon.stop();
  }
  const tally = sum(replies);
  printTally("statements", { lost: 0, duplicated: 0 }, tally);
  return tally;
}

/** Prints what the goal of the burst would cost: the daemon commits together what is queued, and delays nothing for it. */
function printGathering({ commits: transactions }: Cost, { commits, ms }: Cost): void {
  const row = (name: string, perEmail: number): readonly string[] => {
    const between = ms / perEmail;
    // A transaction waits half of the time between two commits, and those of an email follow one another.
    const waiting = (transactions * between) / 2;
    const most = (parallel.conversations * 1000) / waiting;
    return [
      name,
      perEmail.toFixed(2),
      (transactions / perEmail).toFixed(0),
      between.toFixed(1),
      waiting.toFixed(0),
      most.toFixed(0),
    ];
  };
  printTable({
    title: "commits of the burst",
    columns: ["", "per email", "transactions each", "ms between two", "ms an email waits", "limit in emails/s"],
    rows: [row("measured", commits), row("goal", goals.burstCommits.value)],
    notes: [
      `An email has ${transactions.toFixed(1)} transactions, and each needs the one before it. The limit follows from the wait and ${parallel.conversations} conversations at a time. Waiting for a fuller commit would delay every hop, so transactions gather only while a sync runs.`,
      "The first email of a conversation has one transaction more than a later one: the request that opens the platform's conversation may message the customer and has no idempotency key, so its record cannot be joined with that of the question.",
    ],
  });
}

const total = (counts: readonly (readonly [what: unknown, times: number])[]): number =>
  counts.reduce((all, [, times]) => all + times, 0);

function print(name: keyof typeof goalNames, which: string, cost: Cost): void {
  const figure = (what: string, measured: number, goal: GoalName) =>
    printFigure({
      name: `${what} per email, ${name}${which}`,
      baseline: null,
      measured,
      unit: "",
      compare: "none",
      goal: goalOf(goal, measured),
    });
  for (const what of ["statements", "commits"] as const) figure(what, cost[what], goalNames[name][what]);
  figure("abort signals", cost.signals, "abortSignals");
  figure("DOM exceptions", cost.exceptions, "exceptions");
}
