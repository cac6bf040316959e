// One email at a time, from its delivery into the mailbox to its reply at the SMTP server. Both subjects run all the
// time and take turns email by email. Dovecot announces new mail after half a second, to both alike, so the difference
// of the medians is the goal.

import { clock, sum, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { median, printFigure, printTally } from "../report.ts";
import { startBare, startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers, Replies } from "./servers.ts";

/** The first emails of each subject are not counted: code is read from disk and compiled. */
const warming = 3;

export async function single(servers: MailServers, main: string, count: number): Promise<Tally> {
  const around = { baseline: servers.surroundings(), daemon: servers.surroundings() };
  const bare = await startBare(around.baseline);
  const daemon = await startDaemon(around.daemon, { main });
  const times: { [name in keyof typeof around]: number[] } = { baseline: [], daemon: [] };
  const replies: { [name in keyof typeof around]: Replies[] } = { baseline: [], daemon: [] };
  try {
    for (let n = 0; n < warming + count; n += 1) {
      for (const name of n % 2 === 0 ? (["baseline", "daemon"] as const) : (["daemon", "baseline"] as const)) {
        const id = mailId(`single-${name}`, n);
        const watched = servers.watch([id]);
        const began = clock();
        await servers.deliver(around[name].users[0] ?? "", mail(`single-${name}`, n));
        const got = await watched;
        replies[name].push(got);
        const at = got.answered.get(id);
        if (n >= warming && at !== undefined) times[name].push(at - began);
      }
    }
  } finally {
    await Promise.all([bare.stop(), daemon.stop()]);
  }
  const [baseline, measured] = [median(times.baseline), median(times.daemon)];
  printFigure({
    name: `single email, median of ${count}`,
    baseline,
    measured,
    unit: "ms",
    compare: "difference",
    goal: goalOf("singleEmail", measured - baseline),
  });
  const tally = sum(replies.daemon);
  printTally("single email", sum(replies.baseline), tally);
  return tally;
}
