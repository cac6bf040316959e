// Other ways to end: death during the clearing up after a death, SIGTERM, SIGTERM and then SIGKILL, and a process that
// was stopped for longer than its leases last.

import { afterAll, beforeAll, expect, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { readStored, violations } from "../support/process/mail/invariants.ts";
import { doubleDeaths, live, settled, tell, until, within } from "../support/process/mail/scenario.ts";
import {
  letter,
  openPlace,
  type Place,
  type PlaceOptions,
  startWorld,
  type World,
} from "../support/process/mail/servers.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
const users = [...doubleDeaths.map((_, index) => `d${index}`), "drain", "impatient", "stopped"];
const timeout = 300_000;
/** What `short-lease` makes of a lease (a call of 5 s, and 1 s), and a bit. */
const leaseMs = 6500;

describeReal("the daemon, ended in other ways", missing, () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld(users);
  });
  afterAll(() => world?.close());

  async function at(options: PlaceOptions, act: (place: Place) => Promise<void>): Promise<void> {
    const place = await openPlace(world, options);
    try {
      await act(place);
    } finally {
      await place.close();
    }
  }

  /** It has heard of SIGTERM when it reads the mailbox no more. */
  const leaves = (user: string) => {
    const left = new RegExp(`imap\\(${user}\\).*(Disconnected|Logged out|Connection closed)`);
    return until("the mailbox is left", () => left.test(world.dovecot.log()));
  };

  for (const [index, { name, place, story }] of doubleDeaths.entries())
    it.concurrent(`dies at ${name}`, { timeout }, () =>
      at({ user: `d${index}`, ...place }, async (here) => {
        expect(await tell(here, story)).toEqual([]);
      }),
    );

  it.concurrent("drains on SIGTERM: what was begun is finished, and nothing is left open", { timeout }, () =>
    at({ user: "drain", slow: true, bounces: false }, async (place) => {
      const daemon = await withQuestionsUnderway(place);
      const ended = daemon.stop();
      await leaves("drain");
      place.letGo();
      expect(await within(ended, 60_000)).toEqual({ code: 0, signal: null });
      expect(await unfinished(place)).toEqual([]);
      expect(await tell(place, { deaths: [], letters: [] })).toEqual([]);
    }),
  );

  it.concurrent("is killed while it drains", { timeout }, () =>
    at({ user: "impatient", slow: true, bounces: false }, async (place) => {
      const daemon = await withQuestionsUnderway(place);
      const ended = daemon.stop();
      await leaves("impatient");
      daemon.send("SIGKILL");
      expect(await ended).toEqual({ code: null, signal: "SIGKILL" });
      expect(await unfinished(place)).not.toEqual([]);
      place.letGo();
      expect(await tell(place, { deaths: [], letters: [] })).toEqual([]);
    }),
  );

  it.concurrent("wakes from SIGSTOP with its leases long over", { timeout }, () =>
    at({ user: "stopped", slow: true, bounces: false, timeout: "5s" }, async (place) => {
      const daemon = await withQuestionsUnderway(place, ["short-lease"]);
      daemon.send("SIGSTOP");
      const stopped = Date.now();
      await until("the leases are over", () => Date.now() > stopped + leaseMs);
      place.letGo();
      daemon.send("SIGCONT");
      expect(await settled(place, 90_000)).toBe(true);
      expect(await daemon.stop()).toEqual({ code: 0, signal: null });
      expect(await violations(place, { crossed: [], held: 0 })).toEqual([]);
    }),
  );
});

/** A daemon that has asked several questions and waits for the answers. */
async function withQuestionsUnderway(place: Place, plant: readonly string[] = []) {
  const daemon = live(place, { plant });
  expect(await daemon.ready).toBe(true);
  const people = ["ada", "ben", "cleo", "dora"].map((name) => `${name}-${place.options.user}@people.test`);
  await place.deliver(...people.map((person) => letter(person, 0)));
  await until("all questions are put", () => place.underway() >= people.length);
  return daemon;
}

/** Turns and drafts that were begun and have no outcome. */
const unfinished = (place: Place): Promise<unknown[]> =>
  readStored(
    place.store,
    `SELECT id, state FROM turns WHERE state IN ('asking', 'unknown')
     UNION ALL SELECT id, state FROM drafts WHERE state IN ('sending', 'unknown')`,
  );
