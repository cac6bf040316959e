// How a life of the daemon is told: start, letters, death at a point, start again, wait until all is settled, look.

import { type Daemon, type DaemonOptions, startDaemon } from "../daemon.ts";
import { readStored, type Violation, violations } from "./invariants.ts";
import { type Letter, letter } from "./letters.ts";
import type { Place } from "./servers.ts";

export interface Story {
  /** The points at which the first lives end, in order: `<point>:<before|after>:<n>`. */
  readonly deaths: readonly string[];
  /** How many drafts must be held in the end; `in flight`: those that were at the last death. Default 0. */
  readonly holds?: number | "in flight";
  /** Planted into every life. */
  readonly plant?: readonly string[];
  readonly letters?: readonly Letter[];
  /** What the world does while the daemon is dead. */
  readonly meanwhile?: (place: Place) => Promise<void>;
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

export const live = (place: Place, more: Partial<DaemonOptions> = {}): Daemon =>
  startDaemon({ config: place.config, env: place.env, ...more });

/** Tells the story and answers what is wrong at its end. Rejects when a death did not happen as told. */
export async function tell(place: Place, story: Story): Promise<Violation[]> {
  const { deaths, plant = [], patience = 90_000 } = story;
  const letters = story.letters ?? usualLetters(place.options.user);
  if (story.stalls) return takeOver(place, letters, plant, patience);
  const crossed: string[] = [];
  const killed: string[] = [];
  let held = typeof story.holds === "number" ? story.holds : 0;
  let delivered = false;
  for (const killAt of deaths) {
    const daemon = live(place, { killAt, plant });
    await daemon.ready;
    if (!delivered) await place.deliver(...letters);
    delivered = true;
    const end = await within(daemon.ended, 90_000);
    if (end?.signal !== "SIGKILL") {
      daemon.send("SIGKILL");
      throw new Error(`${killAt} was not reached: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
    }
    const words = daemon.lines.findLast((line) => line.message === "killed");
    crossed.push(...((words?.["crossed"] as string[] | undefined) ?? []));
    killed.push(...(await holders(place)));
    if (story.holds === "in flight") held = await inFlight(place);
    await story.meanwhile?.(place);
  }
  const daemon = live(place, { plant });
  await daemon.ready;
  if (!delivered) await place.deliver(...letters);
  const settledInTime = await settled(place, patience);
  const end = await within(daemon.stop(), 60_000);
  if (end?.code !== 0) {
    daemon.send("SIGKILL");
    throw new Error(`the daemon did not end well: ${JSON.stringify(end)}\n${lastWords(daemon)}`);
  }
  const found = await violations(place, { crossed, held, killed });
  if (found.length > 0 && process.env["STORY_LOG"]) process.stderr.write(`${lastWords(daemon)}\n`);
  if (!settledInTime && found.length === 0) return [{ invariant: "unsettled", detail: "not in time" }];
  return found;
}

async function takeOver(
  place: Place,
  letters: readonly Letter[],
  plant: readonly string[],
  patience: number,
): Promise<Violation[]> {
  const first = live(place, { plant });
  await first.ready;
  await place.deliver(...letters);
  const people = new Set(letters.map(({ person }) => person)).size;
  await until("all questions are put", () => place.underway() >= people);
  first.send("SIGSTOP");
  place.letGo();
  const second = live(place, { plant });
  await settled(place, patience);
  first.send("SIGCONT");
  // It ends when it has done with the answers that came while it was stopped.
  await within(first.stop(), 60_000);
  await settled(place, patience);
  await within(second.stop(), 60_000);
  return violations(place, { crossed: [], held: 0 });
}

/** The promise's value, or null after `ms`. */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<null>((resolve) => (timer = setTimeout(() => resolve(null), ms)));
  const first = await Promise.race([promise, late]);
  clearTimeout(timer);
  return first;
}

/** Waits until the check holds; rejects when it does not for a long time. Tests that run at the same time cannot share
 *  `expect.poll`. */
export async function until(what: string, check: () => boolean, ms = 90_000): Promise<void> {
  for (const end = Date.now() + ms; !check(); ) {
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export const lastWords = (daemon: Daemon): string =>
  [...daemon.lines.slice(-60).map((line) => JSON.stringify(line)), ...daemon.complaints].join("\n");

/** Nodes that hold lanes; none on SQLite, where leases are in memory, and before the store exists. */
async function holders(place: Place): Promise<string[]> {
  const sql = "SELECT DISTINCT holder FROM lanes WHERE lease_until > 0";
  const rows = await readStored<{ holder: string }>(place.store, sql).catch(() => []);
  return rows.map(({ holder }) => holder);
}

/** Number of drafts with a recorded attempt of unknown outcome. */
async function inFlight(place: Place): Promise<number> {
  const sql = "SELECT id FROM drafts WHERE state IN ('sending', 'unknown', 'held')";
  return (await readStored(place.store, sql)).length;
}

/** Looks into the store until nothing is under way and every letter and bounce is there, and stays so for a moment;
 *  false when time is up. */
export async function settled(place: Place, ms: number): Promise<boolean> {
  const calm = place.options.slow ? 1000 : 100;
  const end = Date.now() + ms;
  for (let since = Date.now(); Date.now() < end; ) {
    if (place.underway() > 0 || !(await isSettled(place))) since = Date.now();
    else if (Date.now() - since > calm) return true;
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
  return false;
}

async function isSettled(place: Place): Promise<boolean> {
  const [row] = await readStored<{ letters: number; bounces: number; busy: number; drafts: number }>(
    place.store,
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
  const all = row.letters >= place.letters.length && row.drafts >= place.letters.length;
  return all && row.busy === 0 && row.bounces >= place.bounced();
}
