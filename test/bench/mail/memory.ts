// Resident memory of a subject: without work, and when large mail has waited for its start.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sleep, sum, type Tally } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { printFigure, printTally } from "../report.ts";
import { type Subject, startBare, startDaemon } from "../subject.ts";
import { largeMail, mailId } from "./mails.ts";
import type { MailServers, Replies } from "./servers.ts";

const many = 200;
/** Large mails that wait, and the number of mailboxes among which they are divided. */
const waiting = 30;
const mailboxes = 10;

/** Measures after `restMs` of idling. */
export async function memory(servers: MailServers, main: string, restMs: number): Promise<void> {
  const alone = servers.surroundings();
  const measured = await resident(startDaemon(alone, { main }), restMs);
  printFigure({
    name: "memory, idle with one mailbox",
    baseline: await resident(startBare(alone), restMs),
    measured,
    unit: "MB",
    compare: "ratio",
    goal: goalOf("idleMemory", measured),
  });
  printFigure({
    name: `memory, idle with ${many} mailboxes`,
    baseline: null,
    measured: await resident(startDaemon(servers.surroundings(many), { main }), restMs),
    unit: "MB",
    compare: "none",
    goal: null,
  });
}

/** Compares the peak with that of the same mails in one mailbox. */
export async function largeMails(servers: MailServers, main: string, restMs: number): Promise<Tally> {
  const one = await afterLargeMails(servers, main, 1, restMs);
  const ten = await afterLargeMails(servers, main, mailboxes, restMs);
  const name = `memory, ${waiting} mails of 24 MB in ${mailboxes} mailboxes at the start`;
  const ratio = ten.peak / one.peak;
  const goal = goalOf("sharedMemory", ratio);
  printFigure({ name: `${name}, peak`, baseline: one.peak, measured: ten.peak, unit: "MB", compare: "ratio", goal });
  printFigure({
    name: `${name}, later`,
    baseline: one.later,
    measured: ten.later,
    unit: "MB",
    compare: "ratio",
    goal: null,
  });
  printTally("large mails", one.replies, ten.replies);
  return sum([one.replies, ten.replies]);
}

async function afterLargeMails(
  servers: MailServers,
  main: string,
  count: number,
  restMs: number,
): Promise<{ readonly peak: number; readonly later: number; readonly replies: Replies }> {
  const around = servers.surroundings(count);
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-"));
  try {
    // Mail that is older than the first start is not answered.
    await (await startDaemon(around, { main, directory })).stop();
    const ids = Array.from({ length: waiting }, (_, n) => mailId(`large-${count}`, n));
    for (const n of ids.keys())
      await servers.deliver(around.users[n % around.users.length] ?? "", largeMail(`large-${count}`, n));
    const watched = servers.watch(ids);
    const subject = await startDaemon(around, { main, directory });
    try {
      const replies = await watched;
      await sleep(restMs);
      return { peak: subject.peak(), later: subject.memory(), replies };
    } finally {
      await subject.stop();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

async function resident(starting: Promise<Subject>, restMs: number): Promise<number> {
  const subject = await starting;
  try {
    await sleep(restMs);
    return subject.memory();
  } finally {
    await subject.stop();
  }
}
