// Many emails waiting in the mailbox. Each subject idles on an empty mailbox and is stopped by a signal; the emails are
// delivered, and the clock starts with the signal to continue. The time to start Node does not count, and no code is warm.

import { clock, sleep, sum, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { median, printFigure, printTally } from "../report.ts";
import { type Subject, type Surroundings, startBare, startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers } from "./servers.ts";

interface Run extends Tally {
  /** Emails per second, from the start to the last reply. */
  readonly rate: number;
  /** Largest resident memory, in megabytes. */
  readonly peak: number;
}

/** `rounds` of `count` emails for each subject, in turns. */
export async function burst(servers: MailServers, main: string, rounds: number, count: number): Promise<Tally> {
  const subjects = {
    baseline: startBare,
    daemon: (around: Surroundings) => startDaemon(around, { main }),
  };
  const runs: { [name in keyof typeof subjects]: Run[] } = { baseline: [], daemon: [] };
  for (let round = 0; round < rounds; round += 1)
    for (const name of ["baseline", "daemon"] as const)
      runs[name].push(await once(servers, subjects[name], `burst${round}${name}`, count));
  const rate = (name: keyof typeof runs) => median(runs[name].map((run) => run.rate));
  const [baseline, measured] = [rate("baseline"), rate("daemon")];
  printFigure({
    name: `email burst of ${count}, equal parallelism`,
    baseline,
    measured,
    unit: "emails/s",
    compare: "ratio",
    goal: goalOf("emailBurst", measured / baseline),
  });
  const peak = Math.max(...runs.daemon.map((run) => run.peak));
  printFigure({
    name: "memory, peak in the burst",
    baseline: Math.max(...runs.baseline.map((run) => run.peak)),
    measured: peak,
    unit: "MB",
    compare: "ratio",
    goal: goalOf("burstMemory", peak),
  });
  const tally = sum(runs.daemon);
  printTally("email burst", sum(runs.baseline), tally);
  return tally;
}

async function once(
  servers: MailServers,
  start: (around: Surroundings) => Promise<Subject>,
  run: string,
  count: number,
): Promise<Run> {
  const around = servers.surroundings();
  const subject = await start(around);
  try {
    const { rate, lost, duplicated } = await deliverBurst(servers, subject, around.users[0] ?? "", run, count);
    return { rate, peak: subject.peak(), lost, duplicated };
  } finally {
    await subject.stop();
  }
}

/** Delivers `count` emails while the subject is stopped, and continues it. */
export async function deliverBurst(
  servers: MailServers,
  subject: Subject,
  user: string,
  run: string,
  count: number,
): Promise<Tally & { readonly rate: number }> {
  const ids = Array.from({ length: count }, (_, n) => mailId(run, n));
  subject.signal("SIGSTOP");
  for (const n of ids.keys()) await servers.deliver(user, mail(run, n));
  // The IMAP server reads its directories half a second after the first change.
  await sleep(1500);
  const watched = servers.watch(ids);
  const began = clock();
  subject.signal("SIGCONT");
  const { answered, lost, duplicated } = await watched;
  const rate = (answered.size * 1000) / (Math.max(...answered.values()) - began);
  return { rate, lost, duplicated };
}
