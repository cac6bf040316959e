// The scenario of a daemon with mail: start, mails, a kill at a failpoint, a second start, waiting until all work has
// ended, and the check of the invariants.

import { afterAll, beforeAll, expect, it } from "vitest";
import { type FailpointName, failpointNames } from "../../../../src/ops/failpoints.ts";
import { describeReal, need } from "../../machine/debian.ts";
import { acted, type Daemon, type DaemonOptions, startDaemon } from "../daemon.ts";
import type { Defect, Defects } from "../planting.ts";
import { readStored, unmarked, type Violation, violations } from "./invariants.ts";
import {
  type Letter,
  letter,
  type MailSetup,
  type MailSetupOptions,
  type MailTestServers,
  openMailSetup,
  startMailServers,
} from "./servers.ts";

export interface MailScenario {
  /** The failpoints at which the first processes end, in order: `<point>:<before|after>:<n>`. */
  readonly deaths: readonly string[];
  /** How many drafts must be held in the end; `in flight`: those that were at the last death. Default 0. */
  readonly holds?: number | "in flight";
  /** Planted into every process. */
  readonly plant?: readonly string[];
  readonly letters?: readonly Letter[];
  /** What the servers do while the daemon is not running. */
  readonly meanwhile?: (setup: MailSetup) => Promise<void>;
  /** Instead of dying, the first daemon is stopped while it waits for answers, and wakes when a second one on the same
   *  store has taken over and finished its work. */
  readonly stalls?: boolean;
  /** Milliseconds until everything must be settled. */
  readonly patience?: number;
}

/** Two letters of one thread, and one of another. */
const usualLetters = (name: string): Letter[] => [
  letter(`anna-${name}@people.test`, 0),
  letter(`bert-${name}@people.test`, 0),
  letter(`anna-${name}@people.test`, 1),
];

export const live = (setup: MailSetup, more: Partial<DaemonOptions> = {}): Daemon =>
  startDaemon({ config: setup.config, env: setup.env, ...more });

/** In ms. How long anything takes is no statement: a machine under load is many times slower than another. */
export const longWait = 240_000;

/** Runs the scenario and returns the violations at its end. Rejects when a planned kill did not happen. */
export async function tell(setup: MailSetup, scenario: MailScenario): Promise<Violation[]> {
  const { deaths, plant = [], patience = longWait } = scenario;
  const letters = scenario.letters ?? usualLetters(setup.options.user);
  if (scenario.stalls) return takeOver(setup, letters, plant, patience);
  const crossed: string[] = [];
  const killed: string[] = [];
  let held = typeof scenario.holds === "number" ? scenario.holds : 0;
  let delivered = false;
  for (const killAt of deaths) {
    const daemon = live(setup, { killAt, plant });
    await daemon.ready;
    if (!delivered) await setup.deliver(...letters);
    delivered = true;
    const end = await within(daemon.ended, longWait);
    if (end?.signal !== "SIGKILL") {
      daemon.send("SIGKILL");
      throw new Error(`${killAt} was not reached: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
    }
    const words = daemon.lines.findLast((line) => line.message === "killed");
    crossed.push(...((words?.["crossed"] as string[] | undefined) ?? []));
    killed.push(...(await holders(setup)));
    if (scenario.holds === "in flight") held = await inFlight(setup);
    await scenario.meanwhile?.(setup);
  }
  const daemon = live(setup, { plant });
  await daemon.ready;
  if (!delivered) await setup.deliver(...letters);
  const settledInTime = await settled(setup, patience);
  const end = await within(daemon.stop());
  if (end?.code !== 0) {
    daemon.send("SIGKILL");
    throw new Error(`the daemon did not end well: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
  }
  const found = await violations(setup, { crossed, held, killed });
  if (found.length > 0 && process.env["STORY_LOG"]) process.stderr.write(`${lastWords(daemon)}\n`);
  if (!settledInTime && found.length === 0) return [{ invariant: "unsettled", detail: "not in time" }];
  return found;
}

async function takeOver(
  setup: MailSetup,
  letters: readonly Letter[],
  plant: readonly string[],
  patience: number,
): Promise<Violation[]> {
  const first = live(setup, { plant });
  await first.ready;
  await setup.deliver(...letters);
  const people = new Set(letters.map(({ person }) => person)).size;
  await until("all questions are put", () => setup.underway() >= people);
  first.send("SIGSTOP");
  setup.letGo();
  const second = live(setup, { plant });
  await settled(setup, patience);
  first.send("SIGCONT");
  // It ends when it has done with the answers that came while it was stopped.
  await within(first.stop());
  await settled(setup, patience);
  await within(second.stop());
  return violations(setup, { crossed: [], held: 0 });
}

/** The promise's value, or null after `ms`. */
export async function within<T>(promise: Promise<T>, ms = longWait): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => (timer = setTimeout(() => resolve(null), ms)));
  const first = await Promise.race([promise, late]);
  clearTimeout(timer);
  return first;
}

/** Waits until the check holds; rejects when it does not for a long time. Tests that run at the same time cannot share
 *  `expect.poll`. */
export async function until(what: string, check: () => boolean | Promise<boolean>, ms = longWait): Promise<void> {
  for (const end = Date.now() + ms; !(await check()); ) {
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export const lastWords = (daemon: Daemon): string =>
  [...daemon.lines.slice(-60).map((line) => JSON.stringify(line)), ...daemon.complaints].join("\n");

/** Nodes that hold lanes; none on SQLite, where leases are in memory, and before the store exists. */
async function holders(setup: MailSetup): Promise<string[]> {
  const sql = "SELECT DISTINCT holder FROM lanes WHERE lease_until > 0";
  const rows = await readStored<{ holder: string }>(setup.store, sql).catch(() => []);
  return rows.map(({ holder }) => holder);
}

/** Number of drafts with a recorded attempt of unknown outcome. */
async function inFlight(setup: MailSetup): Promise<number> {
  const sql = "SELECT id FROM drafts WHERE state IN ('sending', 'unknown', 'held')";
  return (await readStored(setup.store, sql)).length;
}

/** Looks into the store until nothing is under way, every letter and bounce is there and marked in the mailbox, and stays so
 *  for a moment; false when `ms` passed and the relay got no mail, however long a slow machine needs for all of them. */
export async function settled(setup: MailSetup, ms: number): Promise<boolean> {
  const calm = setup.options.slow ? 1000 : 100;
  let got = -1;
  let end = 0;
  for (let since = Date.now(); ; ) {
    const { length } = setup.peer.accepted;
    // One that never ends to send is not waited for.
    if (length !== got && length <= 2 * setup.letters.length) [got, end] = [length, Date.now() + ms];
    if (Date.now() > end) return false;
    if (setup.underway() > 0 || !(await isSettled(setup))) since = Date.now();
    else if (Date.now() - since > calm) return true;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function isSettled(setup: MailSetup): Promise<boolean> {
  const [row] = await readStored<{ letters: number; bounces: number; busy: number; drafts: number }>(
    setup.store,
    `SELECT
       (SELECT COUNT(*) FROM events WHERE kind = 'message' AND state = 'routed') AS letters,
       (SELECT COUNT(*) FROM events WHERE kind = 'delivery' AND state = 'routed') AS bounces,
       (SELECT COUNT(*) FROM events WHERE state = 'stored')
         + (SELECT COUNT(*) FROM turns WHERE state IN ('waiting', 'asking', 'unknown'))
         + (SELECT COUNT(*) FROM replies WHERE state = 'ready')
         + (SELECT COUNT(*) FROM drafts WHERE state IN ('queued', 'sending', 'unknown')) AS busy,
       (SELECT COUNT(*) FROM drafts) AS drafts`,
  ).catch(() => []); // not there yet
  if (row === undefined) return false;
  const all = row.letters >= setup.letters.length && row.drafts >= setup.letters.length;
  // A node marks what a killed one has read when it has the mailbox, which may be later than the answer.
  return all && row.busy === 0 && row.bounces >= setup.bounced() && (await unmarked(setup)).length === 0;
}

// The matrix: the failpoint at which the daemon dies, and the state of the servers.

export interface Case {
  readonly name: string;
  readonly place: Omit<MailSetupOptions, "user">;
  readonly scenario: Pick<MailScenario, "deaths" | "holds" | "meanwhile" | "plant" | "stalls">;
}

type Point = FailpointName | "email.mark" | "email.sent-copy";
const phases = ["before", "after"] as const;

function both(point: Point, hit: number, variant = "", more: Partial<Case> = {}): Case[] {
  return phases.map((phase) => ({
    name: [point, phase, hit, variant].filter(Boolean).join(" "),
    place: {},
    scenario: { deaths: [`${point}:${phase}:${hit}`] },
    ...more,
  }));
}

const held: Case["place"] = { onUnknown: "hold", bounces: false, copies: false };

const holding = (point: Point, hit = 1): Case[] =>
  both(point, hit, "hold").map((one) => ({
    ...one,
    place: held,
    scenario: { ...one.scenario, holds: "in flight" as const },
  }));

/** As a restore from a backup does: every mail gets another position. */
const renumber = (setup: MailSetup) => setup.servers.dovecot.changeUidValidity(setup.options.user);

/** What the servers must do for the failpoint to be reached. */
const serversAt: { readonly [point in FailpointName]?: Case["place"] } = {
  // A bounce that is read first settles the draft, and there is nothing left to reconcile.
  "reconcile.commit": { resets: 1, bounces: false },
};

/** Mail has no calls, contains its attachments, and this scenario has no notifications. Pauses, repairs, backups and
 *  copies are made by commands (test/commands kills them: pause, backup and store-copy). */
const elsewhere: ReadonlySet<FailpointName> = new Set([
  "session.commit",
  "fetch.commit",
  "notify.commit",
  "poll.commit",
  "platform-webhook.commit",
  "action.commit",
  "pause.commit",
  "repair.commit",
  "backup.copy",
  "restore.swap",
  "store.copy",
  "store.copied",
]);

export const cases: readonly Case[] = [
  ...failpointNames
    .filter((point) => !elsewhere.has(point))
    .flatMap((point) => both(point, 1, "", { place: serversAt[point] ?? {} })),
  ...both("email.mark", 1),
  ...both("email.sent-copy", 1),
  // The first commit of events holds none: it only says where reading begins.
  ...both("event.commit", 2),
  // The second attempt may be another conversation's opening, the third is a question in any case.
  ...(["ask.record", "ask.cross", "answer.commit", "send.record", "send.cross", "outcome.commit"] as const).flatMap(
    (point) => both(point, 2),
  ),
  ...both("ask.record", 3),
  ...(["send.record", "send.cross", "outcome.commit"] as const).flatMap((point) => holding(point)),
  ...holding("reconcile.commit").map((one) => ({ ...one, place: { ...one.place, resets: 1 } })),
  ...(["open.cross", "open.commit"] as const).flatMap((point) =>
    both(point, 1, "create", { place: { opening: "create" } }),
  ),
  ...(["event.commit", "email.mark"] as const).flatMap((point) =>
    both(point, point === "event.commit" ? 2 : 1, "move", { place: { move: true } }),
  ),
  ...both("answer.commit", 1, "late", { place: { agent: "late" } }),
  ...(["event.commit", "outcome.commit"] as const).flatMap((point) =>
    both(point, 1, "renumbered").map((one) => ({ ...one, scenario: { ...one.scenario, meanwhile: renumber } })),
  ),
  { name: "silent relay hold", place: { ...held, resets: 1 }, scenario: { deaths: [], holds: 1 } },
  {
    name: "stalled holder",
    // However long the other one takes: the answer has come when the first one wakes, and is not late.
    place: { slow: true, bounces: false, timeout: "10m" },
    scenario: { deaths: [], stalls: true, plant: ["shared-store"] },
  },
];

const life = (place: Case["place"], scenario: Case["scenario"]): Case => ({
  name: scenario.deaths.map((death) => death.replaceAll(":", " ")).join(", then "),
  place,
  scenario,
});

/** Death again while the first one is being cleared up. */
export const doubleDeaths: readonly Case[] = [
  life({}, { deaths: ["settings.commit:before:1", "settings.commit:after:1"] }),
  life({}, { deaths: ["event.commit:after:2", "ask.record:after:1"] }),
  life({ opening: "create" }, { deaths: ["open.cross:after:1", "open.commit:before:1"] }),
  life({}, { deaths: ["ask.cross:after:1", "answer.commit:before:1"] }),
  life({}, { deaths: ["answer.commit:after:1", "send.record:before:1"] }),
  life({ bounces: false }, { deaths: ["send.cross:after:1", "reconcile.commit:before:1"] }),
  life({}, { deaths: ["send.cross:after:1", "send.cross:after:1"] }),
  life({}, { deaths: ["outcome.commit:before:1", "outcome.commit:before:1"] }),
  life(held, { deaths: ["send.cross:after:1", "reconcile.commit:after:1"], holds: "in flight" }),
];

interface Dies {
  readonly scenario: { readonly deaths: readonly string[] };
}

/** One case for each failpoint: the process dies once, after its first hit. */
export function firstOfEach<T extends Dies>(all: readonly T[]): T[] {
  const chosen = new Map<string, T>();
  for (const one of all) {
    const [death = "", second] = one.scenario.deaths;
    const point = /^(.*):after:1$/.exec(death)?.[1];
    if (point !== undefined && second === undefined && !chosen.has(point)) chosen.set(point, one);
  }
  return [...chosen.values()];
}

/** Returns the case of that name. Throws when it does not exist. */
export function caseNamed(name: string): Case {
  const found = cases.find((one) => one.name === name);
  if (!found) throw new Error(`there is no case ${name}`);
  return found;
}

// Kills the daemon of a mailbox at each of these cases, and states what is left of it after the next start.

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** Defines one test per case, on one Dovecot. */
export const matrix = (cases: readonly Case[]) =>
  describeReal("the daemon, killed and started again", missing, () => {
    const users = cases.map((_, index) => `m${index}`);
    let servers: MailTestServers;
    beforeAll(async () => {
      servers = await startMailServers(users);
    });
    afterAll(() => servers?.close());

    for (const [index, { name, place: options, scenario }] of cases.entries()) {
      it.concurrent(`at ${name}`, { timeout: 600_000 }, async () => {
        const setup = await openMailSetup(servers, { user: users[index] ?? "", ...options });
        try {
          expect(await tell(setup, scenario)).toEqual([]);
        } finally {
          await setup.close();
        }
      });
    }
  });

// A matrix can fail: each planted defect is caught by the case that is there for it.

/** The options of the scenario; `patience` in milliseconds. */
export interface Planted {
  readonly plant: readonly string[];
  readonly patience?: number;
}

interface Catching<Invariant extends string> {
  readonly defects: Defects<Invariant>;
  /** Runs the scenario of that case; returns its violations. No other has that name and number. */
  tell(
    caught: string,
    planted: Planted,
    defect: { readonly name: string; readonly number: number },
  ): Promise<readonly Found<Invariant>[]>;
  /** How long nothing is waited for that never comes (ms). Default: 8000. */
  readonly patience?: number;
  readonly timeout?: number;
}

interface Found<Invariant> {
  readonly invariant: Invariant;
}

/** Returns why the defect counts as not caught, or null. */
export function uncaught<Invariant extends string>(
  defect: Pick<Defect<Invariant>, "by">,
  found: readonly Found<Invariant>[],
  hasActed: boolean,
): string | null {
  if (!hasActed) return "its wrappers never changed anything";
  if (found.some(({ invariant }) => defect.by.includes(invariant))) return null;
  return `none of ${defect.by.join(", ")} is broken: ${JSON.stringify(found)}`;
}

/** One test for each defect. */
export function catchesAll<Invariant extends string>(catching: Catching<Invariant>): void {
  const { defects, patience = 20_000, timeout = 300_000 } = catching;
  for (const [number, [name, defect]] of Object.entries(defects).entries()) {
    it.concurrent(`catches that ${defect.what}`, { timeout }, async () => {
      const planted = { plant: [name], ...(defect.endless ? { patience } : {}) };
      const found = await catching.tell(defect.caught, planted, { name, number });
      expect(uncaught(defect, found, acted.has(name))).toBe(null);
    });
  }
}
