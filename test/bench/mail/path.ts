// The path of one email through the source files.
//
// A file is executed when one of its functions is entered. The built JavaScript of src/ and adapters/ is copied, and each
// function or method of the copy reports its file when it is entered (`instrument.ts`). Arrow functions belong to their
// callers, and resuming after an await is no entry.
//
//   files        number of files of which functions are entered, at least one time per two emails, between the delivery
//                of an email into the mailbox and half a second after its reply. Entries without work, measured in
//                advance for the same time, are subtracted.
//   transitions  consecutive entries of the main thread in different files, per email, less those without work. The
//                worker that parses emails is a pure function of the bytes; its transitions are printed for information.
//   returns      transitions from file A to file B that are directly followed by one back to A (A-B-A).

import type { Built } from "../built.ts";
import { clock, sleep, sum, type Tally } from "../clock.ts";
import { instrument } from "../instrument.ts";
import type { PathCounts } from "../probe.ts";
import { atMost, printFigure, printTally } from "../report.ts";
import { startDaemon } from "../subject.ts";
import { mail, mailId } from "./mails.ts";
import type { MailServers, Replies } from "./servers.ts";

const idleMs = 8000;

/** The mean of `count` emails that pass one at a time. With BENCH_FILES=1 it lists the files and the most frequent transitions. */
export async function path(servers: MailServers, built: Built, count: number): Promise<Tally> {
  const instrumented = instrument(built);
  const around = servers.surroundings();
  const replies: Replies[] = [];
  const send = async (n: number) => {
    const watched = servers.watch([mailId("path", n)]);
    await servers.deliver(around.users[0] ?? "", mail("path", n));
    replies.push(await watched);
    await sleep(500);
  };
  try {
    const daemon = await startDaemon(around, { main: instrumented.main, preload: "probe" });
    try {
      for (let n = 0; n < 3; n += 1) await send(n);
      await daemon.probe();
      await sleep(idleMs);
      const idle = await daemon.probe();
      const began = clock();
      for (let n = 0; n < count; n += 1) await send(3 + n);
      const busy = await daemon.probe();
      const share = (clock() - began) / idleMs;
      const paths = busy.paths.map((path, n) => lessIdle(path, idle.paths[n], share, count));
      const files = instrumented.files.filter((_, file) =>
        paths.some(({ entries }) => (entries[file] ?? 0) >= 0.5),
      );
      const [main, workers] = paths;
      print("files executed per email", files.length, 45);
      print("transitions between files per email", main?.transitions ?? 0, 180);
      print("immediate returns (A-B-A) per email", main?.returns ?? 0, 30);
      print("transitions in the parser's worker", workers?.transitions ?? 0, null);
      if (process.env["BENCH_FILES"]) {
        process.stdout.write(`${files.join("\n")}\n\n`);
        printPairs(main?.pairs ?? [], instrumented.files);
      }
    } finally {
      await daemon.stop();
    }
  } finally {
    instrumented.dispose();
  }
  const tally = sum(replies);
  printTally("path", { lost: 0, duplicated: 0 }, tally);
  return tally;
}

/** Returns the counts of one email: `share` times the counts without work are subtracted. */
function lessIdle(busy: PathCounts, idle: PathCounts | undefined, share: number, count: number): PathCounts {
  const perMail = (all: number, without = 0) => (all - without * share) / count;
  return {
    entries: busy.entries.map((entries, file) => perMail(entries, idle?.entries[file])),
    transitions: perMail(busy.transitions, idle?.transitions),
    returns: perMail(busy.returns, idle?.returns),
    pairs: busy.pairs.map(([from, to, times]) => {
      const without = idle?.pairs.find((pair) => pair[0] === from && pair[1] === to)?.[2];
      return [from, to, perMail(times, without)] as const;
    }),
  };
}

/** Prints the most frequent transitions between two files, in both directions, per email. */
function printPairs(pairs: PathCounts["pairs"], files: readonly string[]): void {
  const counts = new Map<string, [forth: number, back: number]>();
  for (const [from, to, times] of pairs) {
    const [a, b] = [Math.min(from, to), Math.max(from, to)];
    const name = `${files[a]} <-> ${files[b]}`;
    const both = counts.get(name) ?? [0, 0];
    both[from === a ? 0 : 1] += times;
    counts.set(name, both);
  }
  const most = [...counts].sort(([, [a, b]], [, [c, d]]) => c + d - a - b).slice(0, 40);
  for (const [name, [forth, back]] of most)
    process.stdout.write(`${forth.toFixed(1).padStart(6)} ->${back.toFixed(1).padStart(6)} <-  ${name}\n`);
}

function print(name: string, measured: number, limit: number | null): void {
  printFigure({
    name,
    baseline: null,
    measured,
    unit: "",
    compare: "none",
    goal: limit === null ? null : atMost(measured, limit, String(limit)),
  });
}
