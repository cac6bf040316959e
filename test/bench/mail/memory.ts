// Resident memory of a subject without work.

import { sleep } from "../clock.ts";
import { goalOf } from "../goals.ts";
import { printFigure } from "../report.ts";
import { type Subject, startBare, startDaemon } from "../subject.ts";
import type { MailServers } from "./servers.ts";

const many = 200;

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

async function resident(starting: Promise<Subject>, restMs: number): Promise<number> {
  const subject = await starting;
  try {
    await sleep(restMs);
    return subject.memory();
  } finally {
    await subject.stop();
  }
}
