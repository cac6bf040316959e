// Kills the daemon at random times while it sends a burst of mails. Every recorded attempt must have reached the SMTP
// server as a transaction: work that waited for a connection is sent after the restart, and needs no operator.

import { afterAll, beforeAll, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { readStored, violations } from "../support/process/mail/invariants.ts";
import { lastWords, live, settled, within } from "../support/process/mail/scenario.ts";
import {
  generator,
  letter,
  type MailSetup,
  type MailTestServers,
  openMailSetup,
  startMailServers,
} from "../support/process/mail/servers.ts";
import { needPostgres, newSchemaUrl } from "../support/store/postgres.ts";

const missing = (await need("dovecot-imapd", "/usr/sbin/dovecot")) ?? (await needPostgres());
const kills = 20;
/** Letters that arrive before each start of the daemon. */
const lettersEach = 16;
/** Milliseconds: a daemon runs for up to this long after it may read the mailbox. */
const longestLife = 1200;
/** Milliseconds: delays of the SMTP server. */
const connectDelay = 60;
const acceptDelay = 120;

/** On PostgreSQL a process finds the leases of the one before, which had the same name and has ended. */
const kinds = ["sqlite", "postgres"] as const;
type Kind = (typeof kinds)[number];
const userOf = (kind: Kind) => `burst-${kind}`;

describeReal("the daemon, killed in a burst", missing, () => {
  let servers: MailTestServers;
  beforeAll(async () => {
    servers = await startMailServers(kinds.map(userOf));
  });
  afterAll(() => servers?.close());

  const open = async (kind: Kind): Promise<MailSetup> => {
    const options = { user: userOf(kind), bounces: false, onUnknown: "hold" } as const;
    if (kind === "sqlite") return openMailSetup(servers, options);
    return openMailSetup(servers, { ...options, postgres: await newSchemaUrl() });
  };

  it.concurrent.for(kinds)(
    "leaves unknown only what it began to transmit, and sends the rest: %s",
    {
      timeout: 900_000,
    },
    async (kind, { expect }) => {
      const setup = await open(kind);
      setup.peer.fail("connect", { kind: "delay", ms: connectDelay });
      setup.peer.fail("dot", { kind: "delay", ms: acceptDelay });
      const random = generator(20_270);
      const interrupted = new Set<string>();
      try {
        for (let kill = 0; kill < kills; kill += 1) {
          await setup.deliver(...lettersOf(setup, kill));
          const daemon = live(setup);
          await daemon.ready;
          // Every other life ends while the server delays its answer to a whole mail, on a slow machine too.
          if (kill % 2 === 0) await within(daemon.ended, random() * longestLife);
          else {
            const whole = reached(setup, "dot") + 1 + Math.floor(random() * (lettersEach / 2));
            await expect.poll(() => reached(setup, "dot"), { interval: 5 }).toBeGreaterThanOrEqual(whole);
          }
          daemon.send("SIGKILL");
          expect((await daemon.ended).signal, lastWords(daemon)).toBe("SIGKILL");
          for (const { id } of await sending(setup)) interrupted.add(id);
          const attempts = await countIn(setup, "attempts WHERE kind = 'send'");
          await expect.poll(() => transactions(setup)).toBeGreaterThanOrEqual(attempts);
        }
        setup.peer.heal();
        const daemon = live(setup);
        await daemon.ready;
        expect(await settled(setup, 120_000), lastWords(daemon)).toBe(true);
        expect(await within(daemon.stop())).toEqual({ code: 0, signal: null });
        expect(await violations(setup, { crossed: null, held: null })).toEqual([]);
        expect(await countIn(setup, "attempts WHERE kind = 'send'")).toBeLessThanOrEqual(transactions(setup));
        const held = await countIn(setup, "drafts WHERE state = 'held'");
        expect(held).toBeLessThanOrEqual(interrupted.size);
        expect(await countIn(setup, "drafts WHERE state IN ('sent', 'delivered')")).toBe(setup.letters.length - held);
        // Otherwise the kills missed the sending.
        expect(interrupted.size).toBeGreaterThan(0);
      } finally {
        await setup.close();
      }
    },
  );
});

/** Each letter is from another person, so all of them can be answered at once. */
const lettersOf = ({ options: { user } }: MailSetup, life: number) =>
  Array.from({ length: lettersEach }, (_, n) => letter(`p${life}x${n}-${user}@people.test`, 0));

/** How often the SMTP server received the command DATA, or the end of a mail. */
const reached = ({ peer }: MailSetup, stage: "data" | "dot"): number =>
  peer.stages.filter((one) => one === stage).length;

/** DATA commands that the SMTP server has received. A daemon records an attempt after the answer to DATA. */
const transactions = (setup: MailSetup): number => reached(setup, "data");

const sending = ({ store }: MailSetup) =>
  readStored<{ id: string }>(store, "SELECT id FROM drafts WHERE state = 'sending'");

async function countIn(setup: MailSetup, what: string): Promise<number> {
  const [row] = await readStored<{ count: number }>(setup.store, `SELECT COUNT(*) AS count FROM ${what}`);
  return row?.count ?? 0;
}
