// The best possible value of each goal that may be missed, from figures of the same run: what would remain if own code cost
// nothing, and only durability (SQLite and the disk) were added to the baseline.

import { comparison, type Figure, type Table } from "../report.ts";
import type { CpuParts, Sides } from "./breakdown.ts";
import type { Waits } from "./timeline.ts";

export type Load = "email burst" | "emails at a steady rate" | "SMS burst" | "voice turns";
export type SingleMessage = "single email" | "single SMS" | "voice turn";

/** The costs of this run, which `costs.ts` sets. */
export interface Costs {
  readonly cpu: Map<Load, Sides<CpuParts>>;
  readonly waits: Map<SingleMessage, Sides<Waits>>;
}

export const measuredCosts: Costs = { cpu: new Map(), waits: new Map() };

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

/** A value in the unit of the figure, and how it results. */
interface Best {
  /** Null: there is no physical limit. */
  readonly measured: number | null;
  readonly because: string;
}

/** Returns null when the run lacks a figure. */
type Limit = (figure: Figure, run: Run) => Best | null;

/** The goals that may be missed, by the beginnings and ends of their names. */
const limits: readonly (readonly [name: RegExp, limit: Limit])[] = [
  [/^email burst of .*parallelism$/, rateOf("email burst")],
  [/^memory, peak/, asBaseline],
  [/^single email, median/, single("single email")],
  [/^CPU per email/, steadyCpu],
  [/^SMS burst of/, rateOf("SMS burst")],
  [/^single SMS, .*median$/, single("single SMS")],
  [/^voice, 500 .*p99$/, voiceTurn],
  [/^commits per email, single$/, singleCommits],
  [/^commits per email, burst/, burstCommits],
  [/^1 node, .*agent 0 ms$/, postgresRate],
  [/^email: (?:files executed|transitions between files|immediate returns)/, ownStructure],
];

const us = (value: number): string => `${value.toFixed(0)} us`;

/** Returns the table of limits for the figures of a run that have one, and null when none can be computed: the run has to
 *  measure costs too. */
export function limitsOf(run: Run): Table | null {
  const rows = run.figures.flatMap((printed): (readonly string[])[] => {
    const { name, goal } = printed;
    const limit = limits.find(([pattern]) => pattern.test(name))?.[1];
    if (!goal || !limit) return [];
    // Goals such as "<= 5 ms" compare the value itself.
    const figure: Figure = /x|\+/.test(goal.text) ? printed : { ...printed, compare: "none" };
    const best = limit(printed, run);
    const cells = [name, goal.text, comparison(figure)];
    if (best === null) return [];
    if (best.measured === null) return [[...cells, "-", "yes", best.because]];
    const possible = { ...figure, measured: best.measured };
    return [[...cells, comparison(possible), isReached(figure, possible) ? "yes" : "no", best.because]];
  });
  if (rows.length === 0) return null;
  return {
    title: "the best possible value of each goal",
    columns: ["measure", "goal", "measured", "best possible", "reachable", "computed from"],
    rows,
    notes: [
      "A burst's value assumes that the processor time of the subject bounds both rates. A baseline that waits for its peers has a lower rate, so the daemon could come closer to it than stated.",
      "CPU times are microseconds per message. Durability is SQLite with the statements that the daemon executes, its checkpoints and the fdatasync calls.",
      "The best possible value adds durability to the baseline, as if own code, its packages and their garbage cost nothing. A goal that it misses needs fewer statements or syncs, and not only faster code.",
    ],
  };
}

/** Compares the value of a figure as its goal does. */
const valueOf = ({ measured, baseline, compare }: Figure): number => {
  if (baseline === null || compare === "none") return measured;
  return compare === "ratio" ? measured / baseline : measured - baseline;
};

/** The goal's limit follows from the part of it that the measured value uses. */
function isReached(figure: Figure, possible: Figure): boolean {
  const used = figure.goal?.used;
  if (used === undefined) return figure.goal?.met ?? true;
  const change = valueOf(possible) / valueOf(figure);
  return (figure.goal?.text.startsWith(">=") ? used / change : used * change) <= 1;
}

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

function asBaseline({ baseline }: Figure): Best | null {
  return baseline === null
    ? null
    : { measured: baseline, because: "The baseline uses the same packages and stores nothing" };
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

/** An SMTP connection carries one email at a time, and two commits are between one and the next: the record of its attempt
 *  and its outcome. */
function burstCommits(_figure: Figure, run: Run): Best | null {
  const needed = neededCommits(run);
  if (needed === null) return null;
  const { conversations, connections } = run;
  return {
    measured: Math.max(needed / conversations, 2 / connections),
    because: `${needed} commits in sequence, each shared by at most ${conversations} conversations at a time; two of them are made while an email occupies one of ${connections} SMTP connections`,
  };
}

/** All processors busy with nothing but the work of an email. */
function postgresRate(figure: Figure, { figures, processors }: Run): Best | null {
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
    because: `CPU per email: node ${us(nodes * 1000)}, PostgreSQL ${us(server * 1000)}, mail server and platform ${us(peers * 1000)}. ${processors} processors that never wait`,
  };
}

/** A count of the code's structure has no physical limit. */
function ownStructure(_figure: Figure, { cpu, figures }: Run): Best | null {
  const cost = cpu.get("email burst");
  if (cost === undefined) return null;
  const [files, transitions] = ["files executed, joined", "transitions between joined files"].map((name) =>
    figures.find((one) => one.name === `email: ${name}`)?.measured.toFixed(0),
  );
  const layout =
    files === undefined
      ? ""
      : `. If the files of each folder were joined up to the limit of lines: ${files} files, ${transitions} transitions`;
  return {
    measured: null,
    because: `No physical limit: the figure counts how own code is divided into files. Own code takes ${us(cost.daemon.own)} of ${us(cost.daemon.total)} CPU time per email${layout}`,
  };
}
