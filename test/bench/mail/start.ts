// From the spawn of the installed daemon, with an email waiting in its mailbox, to the reply at the SMTP server.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clock, sum, type Tally } from "../clock.ts";
import { atMost, median, printFigure, printTally } from "../report.ts";
import { startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers, Replies } from "./servers.ts";

const goalMs = 1000;

/** The median of `count` starts on the same store. The first start, which creates store and compile cache, is not
 *  counted. */
export async function startToReply(servers: MailServers, launcher: string, count: number): Promise<Tally> {
  const around = servers.surroundings();
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-start-"));
  const times: number[] = [];
  const cpu: number[] = [];
  const replies: Replies[] = [];
  try {
    // A new store answers only emails that arrive after its first start.
    await (await startDaemon(around, { main: launcher, directory })).stop();
    for (let n = 0; n < count; n += 1) {
      const id = mailId("start", n);
      await servers.deliver(around.users[0] ?? "", mail("start", n));
      const watched = servers.watch([id]);
      const began = clock();
      const daemon = await startDaemon(around, { main: launcher, directory, ready: null });
      const got = await watched;
      cpu.push(daemon.cpu());
      await daemon.stop();
      replies.push(got);
      times.push((got.answered.get(id) ?? Number.NaN) - began);
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const measured = median(times);
  printFigure({
    name: `start to first reply, median of ${count}`,
    baseline: null,
    measured,
    unit: "ms",
    compare: "none",
    goal: atMost(measured, goalMs, `${goalMs} ms`),
  });
  printFigure({
    name: "start to first reply, CPU time",
    baseline: null,
    measured: median(cpu),
    unit: "ms",
    compare: "none",
    goal: null,
  });
  const tally = sum(replies);
  printTally("start to first reply", { lost: 0, duplicated: 0 }, tally);
  return tally;
}
