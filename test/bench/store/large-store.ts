// A store with many messages against an empty one: the same stages handle mails on both, one store after the other in one
// run, so that what else the machine does meets both. Counts the time in SQLite only.
//
//   (no name)            half of the mails are from new customers, half follow those of the previous round
//   returning customers  each mail is from another customer whose last message is old. In the large store the rows of these
//                        customers are spread over all pages; in the small one they are of the first rounds.

import { closeSync, mkdtempSync, openSync, readSync, rmSync, statSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { externalId, type MessageEvent } from "bridgehead/contract";
import { newId } from "../../../src/ops/clock.ts";
import { measuredCosts } from "../costs/limits.ts";
import { goalOf } from "../goals.ts";
import { median, percentile, printFigure, printTable } from "../report.ts";
import { parallel } from "../subject.ts";
import { type Earlier, filledCustomers, newStore } from "./filled.ts";
import {
  type Meter,
  microseconds,
  pageMeter,
  replyTo,
  runStages,
  type StageRun,
  type Step,
  type StepUse,
  steps,
} from "./stage-times.ts";

const batch = 50;
/** Rounds that are not measured: they compile the code and fill the page caches. Their new customers are those who return
 *  to the empty store. */
const warmUp = 15;
/** The last of them have returning customers, too. */
const warmReturns = 5;
/** Rounds that count pages instead of time. */
const counted = 5;

/** A day passes between rounds, so that no customer reaches a cap. */
let days = 0;
const now = (): number => Date.now() + days * 86_400_000;

function mail(person: string, answers: readonly string[]): MessageEvent {
  const id = `${newId(Date.now()).slice(10)}@example.org`;
  return {
    kind: "message",
    id: externalId(`<${id}>`),
    fingerprint: `f${id}`,
    from: { address: person },
    to: [{ address: "us@example.org" }],
    thread: { answers: answers.map(externalId) },
    sentAt: new Date(now()),
    subject: "hello",
    text: "Where is my order? ".repeat(5),
    raw: Buffer.from(id.padEnd(2000, "x")),
  };
}

const followUp = ({ person, reply }: Earlier): MessageEvent => mail(person, [reply]);

function* inTurn(customers: readonly Earlier[]): Generator<Earlier> {
  for (;;) yield* customers;
}

const names = ["small", "large"] as const;
type Name = (typeof names)[number];
type Uses = Readonly<Record<Name, StepUse[]>>;
const noUses = (): Uses => ({ small: [], large: [] });

/** Both stores, and the customers that return to them. */
type Stores = Readonly<Record<Name, { readonly run: StageRun; readonly returning: Iterator<Earlier> }>>;

/** `change` is called with the file of the large store before it is used; for tests of the benchmark. */
export async function largeStore(
  messages: number,
  rounds: number,
  change: (file: string) => void = () => undefined,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-bench-large-"));
  const file = (name: string) => join(folder, `${name}.db`);
  const first: Earlier[] = [];
  const open = async (name: string, count: number) =>
    runStages(await newStore(file(name), count, now, change), parallel.conversations);
  const stores: Stores = {
    small: { run: await open("small", 0), returning: inTurn(first) },
    large: { run: await open("large", messages), returning: filledCustomers(messages) },
  };
  const [times, returnTimes, returnPages] = [noUses(), noUses(), noUses()];
  let cost = noCost;
  try {
    let earlier: readonly Earlier[] = [];
    for (let round = -warmUp; round < rounds; round += 1) {
      days += 1;
      const fresh = Array.from({ length: batch / 2 }, (_, n) => mail(`${newId(n)}@example.org`, []));
      const mails = [...fresh, ...earlier.map(followUp)];
      earlier = fresh.map(({ id, from }) => ({ person: from.address, reply: replyTo(id) }));
      await passBoth(stores, round, times, () => mails);
      if (round < -warmReturns) first.push(...earlier);
      else await passBoth(stores, round, returnTimes, returns);
    }
    const meter = pageMeter();
    for (let round = 0; round < counted; round += 1) await passBoth(stores, round, returnPages, returns, meter);
    cost = pageCost(file("large"));
  } finally {
    for (const name of names) await stores[name].run.close();
    rmSync(folder, { recursive: true, force: true });
  }
  const name = `store with ${messages} messages`;
  printUses(name, times);
  printUses(`${name}, returning customers`, returnTimes, { pages: returnPages, cost });
  printStatements(returnTimes, returnPages);
}

const returns = ({ returning }: Stores[Name]): MessageEvent[] => {
  days += 1;
  return Array.from({ length: batch }, () => followUp(returning.next().value as Earlier));
};

/** Passes mails through both stores. Rounds below 0 are not kept in `uses`. */
async function passBoth(
  stores: Stores,
  round: number,
  uses: Uses,
  mailsOf: (store: Stores[Name]) => readonly MessageEvent[],
  meter: Meter = microseconds,
): Promise<void> {
  for (const name of round % 2 === 0 ? names : names.toReversed()) {
    const use = await stores[name].run.pass(mailsOf(stores[name]), meter);
    if (round >= 0) uses[name].push(use);
  }
}

/** What the operating system takes for one page, in microseconds. */
const noCost = { read: 0, write: 0 };

/** Measures it with pages all over the file, which the system has in memory, and of a log that is written again: the
 *  fastest tenth, without what else the machine does. */
function pageCost(file: string): typeof noCost {
  const page = Buffer.alloc(4096);
  const pages = Math.floor(statSync(file).size / page.length);
  const log = `${file}-probe`;
  const logged = 1000;
  writeFileSync(log, Buffer.alloc(page.length * logged));
  const timed = (path: string, access: (descriptor: number, n: number) => void): number => {
    const descriptor = openSync(path, "r+");
    const times = Array.from({ length: 4000 }, (_, n) => {
      const began = microseconds();
      access(descriptor, n);
      return microseconds() - began;
    });
    closeSync(descriptor);
    return percentile(times, 0.1);
  };
  const place = (n: number) => Math.floor(((n * 0.618034) % 1) * pages) * page.length;
  return {
    read: timed(file, (descriptor, n) => readSync(descriptor, page, 0, page.length, place(n))),
    write: timed(log, (descriptor, n) => writeSync(descriptor, page, 0, page.length, (n % logged) * page.length)),
  };
}

const perMail = (uses: readonly StepUse[], value: (use: StepUse) => number): number => median(uses.map(value)) / batch;

/** Prints a figure for each step and for all of them. With `limit` it notes what a missed one would cost at least: the
 *  baseline, and the pages that only the large store reads or writes. */
function printUses(name: string, { small, large }: Uses, limit?: { pages: Uses; cost: typeof noCost }): void {
  for (const shown of [...steps, "all steps"] as const) {
    const own: readonly Step[] = shown === "all steps" ? steps : [shown];
    const total = (use: StepUse) => own.reduce((all, step) => all + use[step].total, 0);
    const [baseline, measured] = [perMail(small, total), perMail(large, total)];
    const goal = goalOf("largeStore", measured / baseline);
    const full = `${name}: ${shown}`;
    printFigure({ name: full, baseline, measured, unit: "us", compare: "ratio", goal });
    if (limit === undefined) continue;
    const { pages, cost } = limit;
    const more = (step: Step) =>
      Math.max(0, perMail(pages.large, (use) => use[step].total) - perMail(pages.small, (use) => use[step].total));
    const read = own.filter((step) => step !== "commit").reduce((all, step) => all + more(step), 0);
    const write = own.includes("commit") ? more("commit") : 0;
    measuredCosts.pages.set(full, { read, write, readUs: cost.read, writeUs: cost.write });
  }
}

/** Prints the statements that cost more in the large store: microseconds and pages in both stores. */
function printStatements(times: Uses, pages: Uses): void {
  const [small, large] = [statementsOf(times.small), statementsOf(times.large)];
  const [smallPages, largePages] = [statementsOf(pages.small), statementsOf(pages.large)];
  const all = [...large].map(([name, us]) => ({ name, us, more: us - (small.get(name) ?? 0) }));
  const rows = all.toSorted((a, b) => b.more - a.more).slice(0, 12);
  const pagesOf = (name: string) => [smallPages, largePages].map((of) => of.get(name) ?? 0);
  const figures = ({ name, us, more }: (typeof all)[number]) => [us - more, us, more, ...pagesOf(name)];
  printTable({
    title: "returning customers: the statements that differ most, per mail",
    columns: ["statement", "small, us", "large, us", "difference", "pages, small", "pages, large"],
    rows: rows.map((row) => [row.name, ...figures(row).map((value) => value.toFixed(1))]),
    notes: ["Pages: those that the page cache of SQLite does not have, and those that a commit writes."],
  });
}

/** Returns the median of each statement over the rounds, per mail. */
function statementsOf(uses: readonly StepUse[]): ReadonlyMap<string, number> {
  const rounds = uses.map((use) => {
    const all = new Map<string, number>();
    for (const step of steps)
      for (const [sql, used] of use[step].statements) {
        const name = sql === "COMMIT" ? sql : `${step}: ${nameOf(sql)}`;
        all.set(name, (all.get(name) ?? 0) + used / batch);
      }
    return all;
  });
  const every = new Set(rounds.flatMap((all) => [...all.keys()]));
  return new Map([...every].map((name) => [name, median(rounds.map((all) => all.get(name) ?? 0))]));
}

/** Returns what a statement does, with the tables that it names: "SELECT suppressions, turns". */
function nameOf(sql: string): string {
  const [change, table] = /\b(?:INSERT INTO|UPDATE(?! SET)|DELETE FROM) (\w+)/.exec(sql) ?? [];
  if (change !== undefined && table !== undefined) return change;
  const tables = new Set([...sql.matchAll(/\b(?:FROM|JOIN) (\w+)/g)].map(([, name]) => name));
  for (const list of ["json_each", "given"]) tables.delete(list);
  return `SELECT ${[...tables].slice(0, 4).join(", ")}`;
}
