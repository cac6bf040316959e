// The paths of messages through the source files: of an email, an escalated email, an SMS, and a turn of a call.
//
// A file is executed when one of its functions is entered. The built JavaScript of src/ and adapters/ is copied, and each
// function or method of the copy reports its file when it is entered (`instrument.ts`). Arrow functions belong to their
// callers, and resuming after an await is no entry.
//
//   files        number of files of which functions are entered, at least one time per two messages, between the arrival
//                of a message and half a second after its reply. Entries without work, measured in advance for the same
//                time, are subtracted.
//   transitions  consecutive entries of the main thread in different files, per message, less those without work. The
//                worker that parses emails is a pure function of the bytes; its transitions are printed for information.
//   returns      transitions from file A to file B that are directly followed by one back to A (A-B-A).
//   joined       both counts if the executed files of a folder were joined as far as the limit of lines per file allows:
//                what a division into fewer files could reach without moving code to another folder.
//   lines        lines of the executed files. Divided by the limit of lines per file they give the least number of files.

import { readFileSync } from "node:fs";
import type { Built } from "./built.ts";
import { clock, noTally, sleep, sum, type Tally } from "./clock.ts";
import { mostLines } from "./costs/limits.ts";
import { type GoalName, goalOf } from "./goals.ts";
import { type Instrumented, instrument } from "./instrument.ts";
import { mail, mailId } from "./mail/mails.ts";
import type { MailServers } from "./mail/servers.ts";
import type { PhoneFixture } from "./phone/fixture.ts";
import { escalatingAnswer } from "./platform-stub.ts";
import type { PathCounts, ProbeReport } from "./probe.ts";
import { printFigure, printTally } from "./report.ts";
import { type Subject, startDaemon } from "./subject.ts";

interface Subjects {
  readonly mail: MailServers;
  readonly phone: PhoneFixture;
  readonly built: Built;
}

/** One kind of message. */
interface Route {
  readonly name: string;
  readonly isMail?: true;
  readonly hasGoals?: true;
  start(main: string): Promise<{
    readonly daemon: Subject;
    /** Resolves half a second after the replies to `count` messages, which pass one at a time. */
    pass(count: number): Promise<Tally>;
  }>;
}

const idleMs = 8000;
const responder = `escalation:
  responders:
    anna: { email: anna@example.org }
  tiers: [ { notify: [ anna ], by: [ email ] } ]
  fallback: { notify: [ anna ], by: [ email ] }
`;

/** Measures the mean of `count` messages per kind. With BENCH_FILES=1 it lists the files and the most frequent transitions. */
export async function paths({ mail: servers, phone, built }: Subjects, count: number): Promise<Tally> {
  const instrumented = instrument(built);
  const routes: Route[] = [
    { name: "email", isMail: true, hasGoals: true, start: (main) => emails(servers, main, "path") },
    {
      name: "escalated email",
      isMail: true,
      async start(main) {
        servers.answerWith(escalatingAnswer);
        return emails(servers, main, "escalated", responder);
      },
    },
    {
      name: "SMS",
      async start(main) {
        const daemon = await phone.daemon("probe", main);
        return { daemon, pass: (texts) => oneByOne(texts, () => text(phone, daemon.inbound)) };
      },
    },
    {
      name: "turn of a call",
      async start(main) {
        const daemon = await phone.daemon("probe", main);
        const call = { url: daemon.call, calls: 1, everyMs: 500 };
        return { daemon, pass: (turns) => phone.calls({ ...call, turns }) };
      },
    },
  ];
  const tallies: Tally[] = [];
  try {
    for (const route of routes) tallies.push(await measure(route, instrumented, count));
  } finally {
    servers.answerWith(null);
    instrumented.dispose();
  }
  const tally = sum(tallies);
  printTally("path", noTally, tally);
  return tally;
}

async function emails(servers: MailServers, main: string, run: string, settings = "") {
  const around = servers.surroundings();
  const user = around.users[0] ?? "";
  const daemon = await startDaemon(around, {
    main,
    preload: "probe",
    settings,
  });
  let n = 0;
  const one = async () => {
    const watched = servers.watch([mailId(run, n)]);
    await servers.deliver(user, mail(run, n++));
    return watched;
  };
  return { daemon, pass: (count: number) => oneByOne(count, one) };
}

const text = (phone: PhoneFixture, url: string) => phone.texts({ url, count: 1, waiting: 1, perSecond: null });

async function oneByOne(count: number, pass: () => Promise<Tally>): Promise<Tally> {
  const tallies: Tally[] = [];
  for (let n = 0; n < count; n += 1) {
    tallies.push(await pass());
    await sleep(500);
  }
  return sum(tallies);
}

/** What happens without the messages themselves is measured twice and subtracted: an idle daemon, and one message, which
 *  includes the opening of a call. */
async function measure(route: Route, { main, files }: Instrumented, count: number): Promise<Tally> {
  const started = await route.start(main);
  const { daemon } = started;
  const pass = (count: number) => started.pass(count);
  const tallies: Tally[] = [];
  try {
    tallies.push(await pass(3));
    await daemon.probe();
    await sleep(idleMs);
    const idle = await daemon.probe();
    const during = async (messages: number) => {
      const began = clock();
      tallies.push(await pass(messages));
      return lessIdle(await daemon.probe(), idle, (clock() - began) / idleMs);
    };
    const one = await during(1);
    const more = await during(1 + count);
    print(
      route,
      more.map((path, thread) => perMessage(path, one[thread], count)),
      files,
    );
  } finally {
    await daemon.stop();
  }
  return sum(tallies);
}

const lessIdle = ({ paths }: ProbeReport, idle: ProbeReport, share: number): PathCounts[] =>
  paths.map((path, thread) => combined(path, idle.paths[thread], (all, without) => all - without * share));

const perMessage = (more: PathCounts, one: PathCounts | undefined, count: number): PathCounts =>
  combined(more, one, (all, without) => (all - without) / count);

function combined(
  first: PathCounts,
  second: PathCounts | undefined,
  of: (first: number, second: number) => number,
): PathCounts {
  return {
    entries: first.entries.map((entries, file) => of(entries, second?.entries[file] ?? 0)),
    transitions: of(first.transitions, second?.transitions ?? 0),
    returns: of(first.returns, second?.returns ?? 0),
    pairs: first.pairs.map(([from, to, times]) => {
      const other = second?.pairs.find((pair) => pair[0] === from && pair[1] === to)?.[2];
      return [from, to, of(times, other ?? 0)] as const;
    }),
  };
}

function print({ name, hasGoals, isMail }: Route, paths: readonly PathCounts[], files: readonly string[]): void {
  const executed = files.filter((_, file) => paths.some(({ entries }) => (entries[file] ?? 0) >= 0.5));
  const [main, workers] = paths;
  const figure = (what: string, measured: number, goal: GoalName | null = null) =>
    printFigure({
      name: `${name}: ${what}`,
      baseline: null,
      measured,
      unit: "",
      compare: "none",
      goal: goal === null || !hasGoals ? null : goalOf(goal, measured),
    });
  figure("files executed", executed.length, "pathFiles");
  figure("transitions between files", main?.transitions ?? 0, "pathTransitions");
  figure("immediate returns (A-B-A)", main?.returns ?? 0, "pathReturns");
  if (isMail) figure("transitions in the parser's worker", workers?.transitions ?? 0);
  if (hasGoals) {
    const group = joined(executed);
    const groupOf = (file: number) => group.get(files[file] ?? "") ?? files[file];
    const between = (main?.pairs ?? []).filter(([from, to]) => groupOf(from) !== groupOf(to));
    figure("files executed, joined", new Set(group.values()).size);
    figure(
      "transitions between joined files",
      between.reduce((all, [, , times]) => all + times, 0),
    );
    figure(
      "lines of the executed files",
      executed.reduce((all, file) => all + linesOf(file), 0),
    );
  }
  if (process.env["BENCH_FILES"]) {
    process.stdout.write(`${executed.join("\n")}\n\n`);
    printPairs(main?.pairs ?? [], files);
  }
}

/** Joins files of the same folder: the longest first, each with the first files that leave room for it. Returns the name of
 *  the joint file for each file. */
function joined(files: readonly string[]): ReadonlyMap<string, string> {
  const joint: { readonly name: string; readonly folder: string; lines: number }[] = [];
  const sized = files.map((file) => ({ file, folder: file.slice(0, file.lastIndexOf("/")), lines: linesOf(file) }));
  return new Map(
    sized
      .sort((a, b) => b.lines - a.lines)
      .map(({ file, folder, lines }) => {
        let into = joint.find((one) => one.folder === folder && one.lines + lines <= mostLines);
        if (into === undefined) joint.push((into = { name: file, folder, lines: 0 }));
        into.lines += lines;
        return [file, into.name];
      }),
  );
}

/** The lines of a file's source. */
function linesOf(file: string): number {
  const source = new URL(`../../${file.replace(/\.js$/, ".ts")}`, import.meta.url);
  return readFileSync(source, "utf8").trimEnd().split("\n").length;
}

/** Prints the most frequent transitions between two files, in both directions, per message. */
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
