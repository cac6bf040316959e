// Kills the daemon at random times while it sends a burst of mails. Every recorded attempt must have reached the SMTP
// server as a transaction: work that waited for a connection is sent after the restart, and needs no operator.

import { afterAll, beforeAll, expect, it } from "vitest";
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

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
const user = "burst";
const kills = 20;
/** Letters that arrive before each start of the daemon. */
const lettersEach = 16;
/** Milliseconds: longest run of a daemon after it is ready, and delays of the SMTP server. */
const longestLife = 1200;
const connectDelay = 60;
const acceptDelay = 120;

describeReal("the daemon, killed in a burst", missing, () => {
  let servers: MailTestServers;
  beforeAll(async () => {
    servers = await startMailServers([user]);
  });
  afterAll(() => servers?.close());

  it("leaves unknown only what it began to transmit, and sends the rest", { timeout: 600_000 }, async () => {
    const setup = await openMailSetup(servers, { user, bounces: false, onUnknown: "hold" });
    setup.peer.fail("connect", { kind: "delay", ms: connectDelay });
    setup.peer.fail("dot", { kind: "delay", ms: acceptDelay });
    const random = generator(20_270);
    let interrupted = 0;
    try {
      for (let kill = 0; kill < kills; kill += 1) {
        await setup.deliver(...lettersOf(kill));
        const daemon = live(setup);
        await daemon.ready;
        await within(daemon.ended, random() * longestLife);
        daemon.send("SIGKILL");
        expect((await daemon.ended).signal, lastWords(daemon)).toBe("SIGKILL");
        interrupted += await countIn(setup, "drafts WHERE state = 'sending'");
        const attempts = await countIn(setup, "attempts WHERE kind = 'send'");
        await expect.poll(() => transactions(setup)).toBeGreaterThanOrEqual(attempts);
      }
      setup.peer.heal();
      const daemon = live(setup);
      await daemon.ready;
      expect(await settled(setup, 120_000), lastWords(daemon)).toBe(true);
      expect(await within(daemon.stop(), 20_000)).toEqual({ code: 0, signal: null });
      expect(await violations(setup, { crossed: null, held: null })).toEqual([]);
      expect(await countIn(setup, "attempts WHERE kind = 'send'")).toBeLessThanOrEqual(transactions(setup));
      const held = await countIn(setup, "drafts WHERE state = 'held'");
      expect(held).toBeLessThanOrEqual(interrupted);
      expect(await countIn(setup, "drafts WHERE state IN ('sent', 'delivered')")).toBe(setup.letters.length - held);
      // Otherwise the kills missed the sending.
      expect(interrupted).toBeGreaterThan(0);
    } finally {
      await setup.close();
    }
  });
});

/** Each letter is from another person, so all of them can be answered at once. */
const lettersOf = (life: number) =>
  Array.from({ length: lettersEach }, (_, n) => letter(`p${life}x${n}-${user}@people.test`, 0));

/** DATA commands that the SMTP server has received. */
const transactions = ({ peer }: MailSetup): number => peer.stages.filter((stage) => stage === "data").length;

async function countIn(setup: MailSetup, what: string): Promise<number> {
  const [row] = await readStored<{ count: number }>(setup.store, `SELECT COUNT(*) AS count FROM ${what}`);
  return row?.count ?? 0;
}
