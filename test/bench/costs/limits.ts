// Whether each missed goal can be reached: its best possible value, from figures of the same run. For messages that is what
// would remain if own code cost nothing, and only durability (SQLite and the disk) were added to the baseline.

import { type Goal, type GoalName, goalOf } from "../goals.ts";
import { comparison, type Figure, type Table } from "../report.ts";
import type { CpuParts, Sides } from "./breakdown.ts";
import type { Waits } from "./timeline.ts";

export type Load = "email burst" | "emails at a steady rate" | "SMS burst" | "voice turns";
export type SingleMessage = "single email" | "single SMS" | "voice turn";

/** The costs of this run, which `costs.ts` sets. */
export interface Costs {
  readonly cpu: Map<Load, Sides<CpuParts>>;
  readonly waits: Map<SingleMessage, Sides<Waits>>;
  /** Pages per mail that only the large store reads and writes, by the name of the figure, and the system's time for one, in
   *  microseconds. Set by `large-store.ts`. */
  readonly pages: Map<string, Pages>;
}

interface Pages {
  readonly read: number;
  readonly write: number;
  readonly readUs: number;
  readonly writeUs: number;
}

/** Lines of a source file, as the architecture test has it. */
export const mostLines = 400;

export const measuredCosts: Costs = { cpu: new Map(), waits: new Map(), pages: new Map() };

export interface Run extends Costs {
  /** All figures, in their order. */
  readonly figures: readonly Figure[];
  readonly processors: number;
  /** Time of one fdatasync, in milliseconds. */
  readonly syncMs: number;
  /** Conversations at a time in a burst, and SMTP connections. */
  readonly conversations: number;
  readonly connections: number;
}

interface Best {
  /** In the unit of the figure. "none": there is no physical limit. "unknown": no figure of the run is a limit. */
  readonly measured: number | "none" | "unknown";
  /** How it results. */
  readonly because: string;
}

/** Returns null when the run lacks a figure. */
type Limit = (figure: Figure, run: Run) => Best | null;

const smallStore = "The same code with a small store: no work grows with the number of rows";

const limits: Readonly<Record<GoalName, Limit>> = {
  emailBurst: rateOf("email burst"),
  burstMemory,
  singleEmail: single("single email"),
  emailCpu: steadyCpu,
  smsBurst: rateOf("SMS burst"),
  singleSms: single("single SMS"),
  calls: voiceTurn,
  busyCalls: voiceTurn,
  idleMemory: () => ({ measured: "unknown", because: noMemoryLimit }),
  sharedMemory: asBaseline("The memory for the same mails in one mailbox"),
  start: startTime,
  unknownReplies: () => ({ measured: 0, because: "Each one is a defect" }),
  singleStatements: statementsFor(singleCommits),
  singleCommits,
  burstStatements: statementsFor(burstCommits),
  burstCommits,
  abortSignals: () => ({ measured: 2, because: "One for the work of the question and one for that of the reply" }),
  exceptions: () => ({ measured: 0, because: "Work that ends in time aborts nothing" }),
  pathFiles: ownStructure,
  pathTransitions: ownStructure,
  pathReturns: ownStructure,
  lists: asBaseline(smallStore),
  openEscalations: asBaseline(smallStore),
  largeStore: morePages,
  oneNode: nodesRate,
  twoNodes,
  heapGrowth: asBaseline("A heap that does not grow"),
  eventLoopDelay: () => ({
    measured: "none",
    because: "No physical limit: own code decides how long it occupies the event loop",
  }),
};

const us = (value: number): string => `${value.toFixed(0)} us`;
const ms = (value: number): string => `${value.toFixed(0)} ms`;

/** Returns a table with a row for each missed goal of the run, and null when all are met. */
export function limitsOf(run: Run): Table | null {
  const rows = run.figures.flatMap((figure) =>
    figure.goal === null || figure.goal.met ? [] : [rowOf(figure, figure.goal, run)],
  );
  if (rows.length === 0) return null;
  return {
    title: "the best possible value of each missed goal",
    columns: ["measure", "goal", "measured", "best possible", "reachable", "computed from"],
    rows,
    notes: [
      "Goals that are met have no row, and neither have lost and duplicated messages: each is a defect.",
      "A burst's value assumes that the processor time of the subject bounds both rates. A baseline that waits for its peers has a lower rate, so the daemon could come closer to it than stated.",
      "CPU times in us are per message. Durability is SQLite with the statements that the daemon executes, its checkpoints and the fdatasync calls.",
      "Where the baseline handles the same messages without a store, the best possible value adds durability to it, as if own code, its packages and their garbage cost nothing. A goal that it misses needs fewer statements or syncs, and not only faster code.",
    ],
  };
}

function rowOf(printed: Figure, goal: Goal, run: Run): readonly string[] {
  // Goals such as "<= 5 ms" compare the value itself.
  const figure: Figure = /x|\+/.test(goal.text) ? printed : { ...printed, compare: "none" };
  const cells = [printed.name, goal.text, comparison(figure)];
  const { measured, because }: Best = limits[goal.name](printed, run) ?? {
    measured: "unknown",
    because: "This run has not measured the figures that the limit follows from",
  };
  if (measured === "none") return [...cells, "-", "yes", because];
  if (measured === "unknown") return [...cells, "-", "-", because];
  const possible = { ...figure, measured };
  const { met, used } = goalOf(goal.name, valueOf(possible));
  // A value that the daemon exceeds is no limit.
  if (used > goal.used) return [...cells, "-", "-", `${because}: ${comparison(possible)}, which the daemon exceeds`];
  return [...cells, comparison(possible), met ? "yes" : "no", because];
}

/** The value of a figure as its goal states it. */
const valueOf = ({ measured, baseline, compare }: Figure): number => {
  if (baseline === null || compare === "none") return measured;
  return compare === "ratio" ? measured / baseline : measured - baseline;
};

/** A burst is bound by the main thread, or by all processors when other threads have more work. */
function rateOf(load: Load): Limit {
  return ({ baseline }, { cpu, processors }) => {
    const cost = cpu.get(load);
    if (cost === undefined || baseline === null) return null;
    const { baseline: bare, daemon } = cost;
    const bound = (main: number, total: number) => Math.max(main, total / processors);
    const before = bound(bare.main, bare.total);
    const after = bound(bare.main + daemon.mainDurability, bare.total + daemon.durability);
    return {
      measured: baseline * (before / after),
      because: `${cpuText(cost)} Main thread: baseline ${us(bare.main)}, durability ${us(daemon.mainDurability)}, all ${us(daemon.main)}. ${us(before)} / ${us(after)} of the slower of main thread and ${processors} processors`,
    };
  };
}

const cpuText = ({ baseline, daemon }: Sides<CpuParts>): string =>
  `Baseline ${us(baseline.total)}; daemon ${us(daemon.total)}: durability ${us(daemon.durability)}, own code ${us(daemon.own)}, packages ${us(daemon.package)}, Node ${us(daemon.node)}.`;

function steadyCpu(_figure: Figure, { cpu }: Run): Best | null {
  const cost = cpu.get("emails at a steady rate");
  if (cost === undefined) return null;
  return {
    measured: (cost.baseline.total + cost.daemon.durability) / 1000,
    because: `${cpuText(cost)} Baseline and durability`,
  };
}

/** The baseline is the same code with less to do. */
function asBaseline(because: string): Limit {
  return ({ baseline }) => (baseline === null ? null : { measured: baseline, because });
}

/** Rows of returning customers are on pages of their own, in each table and index that finds them by customer. */
function morePages(figure: Figure, run: Run): Best | null {
  const pages = run.pages.get(figure.name);
  if (pages === undefined || figure.baseline === null) return asBaseline(smallStore)(figure, run);
  const { read, write, readUs, writeUs } = pages;
  return {
    measured: figure.baseline + read * readUs + write * writeUs,
    because: `Baseline, and the system's time for pages of old rows, which the small store has in memory: ${read.toFixed(1)} to read (${readUs.toFixed(1)} us each), ${write.toFixed(1)} more to write (${writeUs.toFixed(1)} us each)`,
  };
}

const noMemoryLimit = "The baseline is no limit: it runs without the settings of the shipped unit for V8 and malloc";

const measuredIn = ({ figures }: Run, name: string): Figure | undefined => figures.find((one) => one.name === name);

function burstMemory(_figure: Figure, run: Run): Best | null {
  const idle = measuredIn(run, "memory, idle with one mailbox");
  return idle === undefined
    ? null
    : { measured: idle.measured, because: `The daemon's memory without work. ${noMemoryLimit}` };
}

function startTime({ baseline }: Figure, run: Run): Best | null {
  const cpu = measuredIn(run, "start to first reply, CPU time");
  if (baseline === null || cpu === undefined || cpu.baseline === null) return null;
  return {
    measured: baseline,
    because: `CPU time: baseline ${ms(cpu.baseline)}; daemon ${ms(cpu.measured)}: Node, packages and connections ${ms(cpu.baseline)}, own code, store and worker threads ${ms(cpu.measured - cpu.baseline)}. The time of the baseline, which loads the packages of the daemon's main thread and answers the same email`,
  };
}

const waitsText = ({ syncs, disk, sqlite, peers, thread, rest }: Waits): string =>
  `${syncs} syncs in sequence ${us(disk)}, SQLite ${us(sqlite)}, peers ${us(peers)}, ${thread > 0 ? `worker thread ${us(thread)}, ` : ""}own code, packages and Node ${us(rest)}.`;

/** Milliseconds of one sync: the shorter of those that messages wait for and of the one measured at the start. */
const syncOf = ({ syncs, disk }: Waits, { syncMs }: Run): number =>
  syncs === 0 ? syncMs : Math.min(syncMs, disk / syncs / 1000);

const serialSyncs = (daemon: Waits, run: Run): string =>
  `${daemon.syncs} x ${us(syncOf(daemon, run) * 1000)} of fdatasync`;

/** A message that waits for the disk. */
function single(message: Exclude<SingleMessage, "voice turn">): Limit {
  return ({ baseline }, run) => {
    const waits = run.waits.get(message);
    if (waits === undefined || baseline === null) return null;
    const { daemon } = waits;
    return {
      measured: baseline + daemon.syncs * syncOf(daemon, run) + daemon.sqlite / 1000,
      because: `Daemon: ${waitsText(daemon)} Baseline, ${serialSyncs(daemon, run)}, and SQLite`,
    };
  };
}

/** Turns do not wait for the disk. */
function voiceTurn({ baseline }: Figure, run: Run): Best | null {
  const waits = run.waits.get("voice turn");
  const cost = run.cpu.get("voice turns");
  if (waits === undefined || cost === undefined || baseline === null) return null;
  const { sqlite, peers, rest } = waits.daemon;
  return {
    measured: baseline + sqlite / 1000,
    because: `A turn alone: SQLite ${us(sqlite)}, peers ${us(peers)}, own code, packages and Node ${us(rest)}. CPU: ${cpuText(cost)} Baseline and the SQLite time of a turn that never waits for another`,
  };
}

/** Each sync that an email waits for separates two effects, and the outcome of the send is one commit more. */
const neededCommits = ({ waits }: Run): number | null => {
  const syncs = waits.get("single email")?.daemon.syncs;
  return syncs === undefined ? null : syncs + 1;
};

function singleCommits(_figure: Figure, run: Run): Best | null {
  const needed = neededCommits(run);
  if (needed === null) return null;
  return {
    measured: needed,
    because: `${needed - 1} commits of ${us(run.syncMs * 1000)} that an effect waits for (the acknowledgement, requests, the reply), and the outcome of the reply`,
  };
}

/** The highest value of `smtp.connections`. */
const mostConnections = 20;

/** An SMTP connection carries one email at a time, and two commits are between one and the next: the record of its attempt
 *  and its outcome. */
function burstCommits(_figure: Figure, run: Run): Best | null {
  const needed = neededCommits(run);
  if (needed === null) return null;
  const { conversations, connections } = run;
  return {
    measured: Math.max(needed / conversations, 2 / connections),
    because: `${needed} commits in sequence, each shared by at most ${conversations} conversations at a time; two of them are made while an email occupies one of ${connections} SMTP connections, which is the default (with ${mostConnections}, the most that can be configured: ${Math.max(needed / conversations, 2 / mostConnections).toFixed(2)})`,
  };
}

/** Each commit has at least one statement. */
function statementsFor(commits: Limit): Limit {
  return (figure, run) => {
    const least = commits(figure, run);
    return least && { ...least, because: `One statement per commit. ${least.because}` };
  };
}

/** All processors busy with nothing but the work of an email. */
function nodesRate(figure: Figure, { figures, processors }: Run): { measured: number; because: string } | null {
  const rest = figures.slice(figures.indexOf(figure) + 1);
  const parts = [
    "CPU of the nodes per email",
    "CPU of PostgreSQL per email",
    "CPU of mail server and platform per email",
  ].map((name) => rest.find((one) => one.name.trim() === name)?.measured);
  const [nodes, server, peers] = parts;
  if (nodes === undefined || server === undefined || peers === undefined) return null;
  return {
    measured: (processors * 1000) / (nodes + server + peers),
    because: `CPU per email: nodes ${us(nodes * 1000)}, PostgreSQL ${us(server * 1000)}, mail server and platform ${us(peers * 1000)}. ${processors} processors that never wait`,
  };
}

/** The processors of the one machine that all nodes, PostgreSQL and the stubs share, and twice the rate of one node. */
function twoNodes(figure: Figure, run: Run): Best | null {
  const rate = nodesRate(figure, run);
  if (rate === null || figure.baseline === null) return null;
  return {
    measured: Math.min(rate.measured, 2 * figure.baseline),
    because: `${rate.because}, which all processes share; at most twice the rate of one node`,
  };
}

/** A count of the code's structure has no physical limit. */
function ownStructure(_figure: Figure, { cpu, figures }: Run): Best | null {
  const cost = cpu.get("email burst");
  if (cost === undefined) return null;
  const of = (name: string) => figures.find((one) => one.name === `email: ${name}`)?.measured;
  const [files, lines] = [of("files executed, joined"), of("lines of the executed files")];
  const transitions = of("transitions between joined files")?.toFixed(0);
  const layout =
    files === undefined || lines === undefined
      ? ""
      : `. The executed files have ${lines.toFixed(0)} lines: at least ${Math.ceil(lines / mostLines)} files of ${mostLines} lines, the limit of the architecture test. If the files of each folder were joined up to it: ${files.toFixed(0)} files, ${transitions} transitions`;
  return {
    measured: "none",
    because: `No physical limit: the figure counts how own code is divided into files. Own code takes ${us(cost.daemon.own)} of ${us(cost.daemon.total)} CPU time per email${layout}`,
  };
}
