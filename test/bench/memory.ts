// Resident memory of a contestant that has nothing to do. The daemon is measured as it is installed.

import { build } from "./built.ts";
import { type Contestant, startBare, startDaemon } from "./contestant.ts";
import { printFigure } from "./report.ts";
import { type Rig, sleep } from "./rig.ts";

const many = 200;
const goalMb = 100;

/** After `restMs` of rest. */
export async function memory(rig: Rig, restMs: number): Promise<void> {
  const alone = rig.surroundings();
  if (alone === null) throw new Error("there are no unused mailboxes left");
  const built = await build();
  try {
    const ours = await resident(startDaemon(alone, built.main), restMs);
    printFigure({
      name: "idle memory, one mailbox",
      bare: await resident(startBare(alone, 1), restMs),
      ours,
      unit: "MB",
      compare: "ratio",
      goal: { text: `${goalMb} MB`, met: ours < goalMb },
    });
    inform("idle memory, one mailbox, run from source", await resident(startDaemon(alone), restMs));
    const crowd = rig.surroundings(many);
    const name = `idle memory, ${many} mailboxes`;
    if (crowd === null) process.stdout.write(`${name}: left out, the IMAP server has too few\n`);
    else inform(name, await resident(startDaemon(crowd, built.main), restMs));
  } finally {
    built.dispose();
  }
}

function inform(name: string, ours: number): void {
  printFigure({ name, bare: null, ours, unit: "MB", compare: "none", goal: null });
}

async function resident(starting: Promise<Contestant>, restMs: number): Promise<number> {
  const contestant = await starting;
  try {
    await sleep(restMs);
    return contestant.memory();
  } finally {
    await contestant.stop();
  }
}
