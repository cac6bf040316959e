// Pages that a message writes to the log of the SQLite store: each commit writes every page that it has changed, with a
// checksum and two system calls each, which is most of the CPU time of a COMMIT.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { sleep, sum, type Tally } from "../clock.ts";
import type { PhoneFixture } from "../phone/fixture.ts";
import { median, printFigure } from "../report.ts";
import type { Subject } from "../subject.ts";

/** The format of the log: a header, and frames of a header and a page. Both headers carry the salt of the current round;
 *  frames with another one are left from an earlier round. */
const headerBytes = 32;
const frameBytes = 24 + 4096;
const headerSalt = 16;
const frameSalt = 8;
const saltBytes = 8;

interface Log {
  readonly salt: string;
  readonly pages: number;
}

/** Returns what the process has written in the current round of its log. */
function readLog(pid: number): Log {
  const log = readFileSync(logOf(pid));
  const saltAt = (at: number) => log.toString("hex", at, at + saltBytes);
  const salt = saltAt(headerSalt);
  let pages = 0;
  while (
    headerBytes + (pages + 1) * frameBytes <= log.length &&
    saltAt(headerBytes + pages * frameBytes + frameSalt) === salt
  )
    pages += 1;
  return { salt, pages };
}

function logOf(pid: number): string {
  const directory = `/proc/${pid}/fd`;
  for (const name of readdirSync(directory)) {
    const file = readlinkSync(`${directory}/${name}`);
    if (file.endsWith(".db-wal")) return file;
  }
  throw new Error(`process ${pid} has no SQLite store open`);
}

/** Counts the pages of each pass, which ends after its last commit, and prints the median. A pass in which the log was
 *  started anew is not counted. */
export async function printPages(
  name: string,
  { pid }: Pick<Subject, "pid">,
  passes: number,
  pass: (n: number) => Promise<unknown>,
  share = 1,
): Promise<void> {
  const counts: number[] = [];
  for (let n = 0; n < passes; n += 1) {
    const before = readLog(pid);
    await pass(n);
    const after = readLog(pid);
    if (after.salt === before.salt) counts.push((after.pages - before.pages) / share);
  }
  printFigure({
    name: `pages written per ${name}, single`,
    baseline: null,
    measured: median(counts),
    unit: "",
    compare: "none",
    goal: null,
  });
}

/** Texts, each from a new customer, and calls of several turns, on a store with some of each. */
export async function phonePages(phone: PhoneFixture, count: number): Promise<Tally> {
  const daemon = await phone.daemon();
  const tallies: Tally[] = [];
  const [texts, calls] = [
    { url: daemon.inbound, waiting: 8, perSecond: null },
    { url: daemon.call, calls: 1, everyMs: 500 },
  ];
  const done = async (work: Promise<Tally>) => {
    tallies.push(await work);
    // The outcome is stored after the provider has the answer.
    await sleep(500);
  };
  try {
    await done(phone.texts({ ...texts, count: 300 }));
    await printPages("text", daemon, count, () => done(phone.texts({ ...texts, count: 1 })));
    const turns = 4;
    // The first of them is not measured, but written.
    await printPages(
      "turn of a call, with its part of the call",
      daemon,
      count,
      () => done(phone.calls({ ...calls, turns })),
      turns + 1,
    );
  } finally {
    await daemon.stop();
  }
  return sum(tallies);
}
