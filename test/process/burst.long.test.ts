// Kills the daemon at random times while it sends a burst of mails. Every recorded attempt must have reached the SMTP
// server as a transaction: work that waited for a connection is sent after the restart, and needs no operator.

import { afterAll, beforeAll, expect, it } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import { readStored, violations } from "../support/process/mail/invariants.ts";
import { lastWords, live, settled, within } from "../support/process/mail/scenario.ts";
import { generator, letter, openPlace, type Place, startWorld, type World } from "../support/process/mail/servers.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
const user = "burst";
const kills = 20;
/** Letters that arrive before each start of the daemon. */
const lettersEach = 16;
/** Milliseconds: longest life of a daemon after its readiness, and delays of the SMTP server. */
const longestLife = 1200;
const connectDelay = 60;
const acceptDelay = 120;

describeReal("the daemon, killed in a burst", missing, () => {
  let world: World;
  beforeAll(async () => {
    world = await startWorld([user]);
  });
  afterAll(() => world?.close());

  it("leaves unknown only what it began to transmit, and sends the rest", { timeout: 600_000 }, async () => {
    const place = await openPlace(world, { user, bounces: false, onUnknown: "hold" });
    place.peer.fail("connect", { kind: "delay", ms: connectDelay });
    place.peer.fail("dot", { kind: "delay", ms: acceptDelay });
    const random = generator(20_270);
    let interrupted = 0;
    try {
      for (let kill = 0; kill < kills; kill += 1) {
        await place.deliver(...lettersOf(kill));
        const daemon = live(place);
        await daemon.ready;
        await within(daemon.ended, random() * longestLife);
        daemon.send("SIGKILL");
        expect((await daemon.ended).signal, lastWords(daemon)).toBe("SIGKILL");
        interrupted += await countIn(place, "drafts WHERE state = 'sending'");
        const attempts = await countIn(place, "attempts WHERE kind = 'send'");
        await expect.poll(() => transactions(place)).toBeGreaterThanOrEqual(attempts);
      }
      place.peer.heal();
      const daemon = live(place);
      expect(await settled(place, 120_000), lastWords(daemon)).toBe(true);
      expect(await within(daemon.stop(), 20_000)).toEqual({ code: 0, signal: null });
      expect(await violations(place, { crossed: null, held: null })).toEqual([]);
      expect(await countIn(place, "attempts WHERE kind = 'send'")).toBeLessThanOrEqual(transactions(place));
      const held = await countIn(place, "drafts WHERE state = 'held'");
      expect(held).toBeLessThanOrEqual(interrupted);
      expect(await countIn(place, "drafts WHERE state IN ('sent', 'delivered')")).toBe(place.letters.length - held);
      // Otherwise the kills missed the sending.
      expect(interrupted).toBeGreaterThan(0);
    } finally {
      await place.close();
    }
  });
});

/** Each letter is from another person, so all of them can be answered at once. */
const lettersOf = (life: number) =>
  Array.from({ length: lettersEach }, (_, n) => letter(`p${life}x${n}-${user}@people.test`, 0));

/** DATA commands that the SMTP server has received. */
const transactions = ({ peer }: Place): number => peer.stages.filter((stage) => stage === "data").length;

async function countIn(place: Place, what: string): Promise<number> {
  const [row] = await readStored<{ count: number }>(place.store, `SELECT COUNT(*) AS count FROM ${what}`);
  return row?.count ?? 0;
}
