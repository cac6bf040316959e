// Other ways to end, on both databases: death during the clearing up after a death, SIGTERM, SIGTERM and then SIGKILL, and a
// process that was stopped for longer than its leases last.

import { afterAll, beforeAll, expect, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { readStored, violations } from "../support/process/mail/invariants.ts";
import { doubleDeaths, live, longWait, settled, tell, until, within } from "../support/process/mail/scenario.ts";
import {
  letter,
  type MailSetup,
  type MailSetupOptions,
  type MailTestServers,
  openMailSetup,
  startMailServers,
} from "../support/process/mail/servers.ts";
import { storeKinds } from "../support/store/postgres.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
const users = [...doubleDeaths.map((_, index) => `d${index}`), "drain", "impatient", "stopped"];
const timeout = 300_000;
/** What `short-lease` makes of a lease (a call of 5 s, and 1 s), and a bit. */
const leaseMs = 6500;

for (const { name: database, missing: why, newStore } of await storeKinds(missing))
  describeReal(`the daemon on ${database}, ended in other ways`, why, () => {
    let servers: MailTestServers;
    beforeAll(async () => {
      servers = await startMailServers(users);
    });
    afterAll(() => servers?.close());

    async function at(options: MailSetupOptions, act: (setup: MailSetup) => Promise<void>): Promise<void> {
      const setup = await openMailSetup(servers, { ...options, postgres: await newStore() });
      try {
        await act(setup);
      } finally {
        await setup.close();
      }
    }

    /** The daemon has handled SIGTERM when it disconnects from the mailbox. */
    const leaves = (user: string) => {
      const left = new RegExp(`imap\\(${user}\\).*(Disconnected|Logged out|Connection closed)`);
      return until("the mailbox is left", () => left.test(servers.dovecot.log()));
    };

    for (const [index, { name, place, scenario }] of doubleDeaths.entries())
      it.concurrent(`dies at ${name}`, { timeout }, () =>
        at({ user: `d${index}`, ...place }, async (here) => {
          expect(await tell(here, scenario)).toEqual([]);
        }),
      );

    it.concurrent("drains on SIGTERM: what was begun is finished, and nothing is left open", { timeout }, () =>
      at({ user: "drain", slow: true, bounces: false }, async (setup) => {
        const daemon = await withQuestionsUnderway(setup);
        const ended = daemon.stop();
        await leaves("drain");
        setup.letGo();
        expect(await within(ended)).toEqual({ code: 0, signal: null });
        expect(await unfinished(setup)).toEqual([]);
        expect(await tell(setup, { deaths: [], letters: [] })).toEqual([]);
      }),
    );

    it.concurrent("is killed while it drains", { timeout }, () =>
      at({ user: "impatient", slow: true, bounces: false }, async (setup) => {
        const daemon = await withQuestionsUnderway(setup);
        const ended = daemon.stop();
        await leaves("impatient");
        daemon.send("SIGKILL");
        expect(await ended).toEqual({ code: null, signal: "SIGKILL" });
        expect(await unfinished(setup)).not.toEqual([]);
        setup.letGo();
        expect(await tell(setup, { deaths: [], letters: [] })).toEqual([]);
      }),
    );

    it.concurrent("wakes from SIGSTOP with its leases long over", { timeout }, () =>
      at({ user: "stopped", slow: true, bounces: false, timeout: "5s" }, async (setup) => {
        const daemon = await withQuestionsUnderway(setup, ["short-lease"]);
        daemon.send("SIGSTOP");
        const stopped = Date.now();
        await until("the leases are over", () => Date.now() > stopped + leaseMs);
        setup.letGo();
        daemon.send("SIGCONT");
        expect(await settled(setup, longWait)).toBe(true);
        expect(await daemon.stop()).toEqual({ code: 0, signal: null });
        expect(await violations(setup, { crossed: [], held: 0 })).toEqual([]);
      }),
    );
  });

/** A daemon that has asked several questions and waits for the answers. */
async function withQuestionsUnderway(setup: MailSetup, plant: readonly string[] = []) {
  const daemon = live(setup, { plant });
  expect(await daemon.ready).toBe(true);
  const people = ["ada", "ben", "cleo", "dora"].map((name) => `${name}-${setup.options.user}@people.test`);
  await setup.deliver(...people.map((person) => letter(person, 0)));
  await until("all questions are put", () => setup.underway() >= people.length);
  return daemon;
}

/** Turns and drafts that were begun and have no outcome. */
const unfinished = (setup: MailSetup): Promise<unknown[]> =>
  readStored(
    setup.store,
    `SELECT id, state FROM turns WHERE state IN ('asking', 'unknown')
     UNION ALL SELECT id, state FROM drafts WHERE state IN ('sending', 'unknown')`,
  );
