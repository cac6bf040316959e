// Death at any time, on both databases: mail keeps coming, and the daemon is killed and started again, over and over.

import { afterAll, beforeAll, expect, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { violations } from "../support/process/mail/invariants.ts";
import { lastWords, live, settled, within } from "../support/process/mail/scenario.ts";
import {
  generator,
  letter,
  type MailSetup,
  type MailTestServers,
  openMailSetup,
  startMailServers,
} from "../support/process/mail/servers.ts";
import { storeKinds } from "../support/store/postgres.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
/** The same mail may be on its way at many of the deaths. */
const plant = ["no-patience"];
const seeds = [20_261, 20_262];
const killsEach = 20;
/** At most so many mails for each life, or else the work would grow with the time that a slow machine needs for a start. */
const lettersEach = 10;
/** Milliseconds: interval of the mails, and the longest run of a daemon after it is ready. */
const rhythm = 150;
const longestLife = 700;

for (const { name: database, missing: why, newStore } of await storeKinds(missing))
  describeReal(`the daemon on ${database}, killed at random times`, why, () => {
    let servers: MailTestServers;
    beforeAll(async () => {
      servers = await startMailServers(seeds.map(userOf));
    });
    afterAll(() => servers?.close());

    for (const seed of seeds)
      it.concurrent(`loses nothing and repeats nothing (seed ${seed})`, { timeout: 1_200_000 }, async () => {
        const setup = await openMailSetup(servers, { user: userOf(seed), bounces: false, postgres: await newStore() });
        try {
          const random = generator(seed);
          const writing = write(setup, random);
          try {
            for (let kill = 0; kill < killsEach; kill += 1) {
              writing.continue();
              await oneLife(setup, random);
            }
          } finally {
            await writing.stop();
          }
          expect(setup.letters.length).toBeGreaterThan(killsEach);
          const daemon = live(setup, { plant });
          expect(await settled(setup, 120_000), lastWords(daemon)).toBe(true);
          expect(await within(daemon.stop())).toEqual({ code: 0, signal: null });
          expect(await violations(setup, { crossed: null, held: 0 })).toEqual([]);
        } finally {
          await setup.close();
        }
      });
  });

const userOf = (seed: number) => `r${seed}`;

/** Mostly the daemon dies while it works, now and then while it starts. */
async function oneLife(setup: MailSetup, random: () => number): Promise<void> {
  const daemon = live(setup, { plant });
  const early = random() < 0.2;
  const ms = random() * longestLife;
  if (!early) await daemon.ready;
  await within(daemon.ended, ms);
  daemon.send("SIGKILL");
  expect((await daemon.ended).signal, lastWords(daemon)).toBe("SIGKILL");
}

/** Puts letters of five people into the mailbox until it is stopped; resolves then. */
function write(setup: MailSetup, random: () => number): { continue(): void; stop(): Promise<void> } {
  const end = new AbortController();
  let most = 0;
  const people = ["ada", "ben", "cleo", "dora", "emil"].map((name) => `${name}-${setup.options.user}`);
  const written = people.map(() => 0);
  const done = (async () => {
    while (!end.signal.aborted) {
      if (setup.letters.length < most) {
        const who = Math.floor(random() * people.length);
        await setup.deliver(letter(`${people[who]}@people.test`, written[who] ?? 0));
        written[who] = (written[who] ?? 0) + 1;
      }
      await new Promise((resolve) => setTimeout(resolve, rhythm));
    }
  })();
  done.catch(() => undefined); // told by stop
  return {
    continue: () => {
      most = setup.letters.length + lettersEach;
    },
    stop: () => {
      end.abort();
      return done;
    },
  };
}
