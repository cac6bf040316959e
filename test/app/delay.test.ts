// responseDelaySeconds: never early, in order, over a restart, and what happens when the person writes again meanwhile.

import { afterAll, beforeAll, expect, it } from "vitest";
import { describeReal, need } from "../real/debian.ts";
import { type Dovecot, startDovecot } from "../real/dovecot.ts";
import { eventually } from "./eventually.ts";
import { openWorld, type World } from "./world.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** Milliseconds between the daemon's having the mail and the reply's arrival, for each reply in the mails' order. */
async function delays(world: World): Promise<number[]> {
  const received = await world.rows<{ received_at: number }>("SELECT received_at FROM turns ORDER BY id");
  const replies = await world.replies();
  return received.map(({ received_at }, index) => (replies[index]?.at ?? 0) - received_at);
}

describeReal("the response delay", missing, () => {
  let dovecot: Dovecot;
  beforeAll(async () => {
    dovecot = await startDovecot({ users: ["delay", "restart", "newer", "null"] });
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("counts from the mail's arrival, never early, and does not hold questions back", async ({
    onTestFinished,
  }) => {
    const world = await openWorld(onTestFinished, {
      dovecot,
      user: "delay",
      skill: { responseDelaySeconds: 8 },
    });
    const first = await world.write();
    await eventually(() => expect(world.questions().length).toBe(1), 6000);
    const second = await world.write({ answers: first });
    await eventually(() => expect(world.questions().length).toBe(2), 6000);
    expect(await world.replies(), "both are asked before the first reply is due").toEqual([]);
    await world.settled([first, second], 20_000);
    for (const delay of await delays(world)) {
      expect(delay).toBeGreaterThanOrEqual(8000);
      expect(delay).toBeLessThan(13_000);
    }
    expect((await world.replies()).map((reply) => reply.inReplyTo)).toEqual([
      first.messageId,
      second.messageId,
    ]);
  });

  it.concurrent("survives a restart", async ({ onTestFinished }) => {
    const world = await openWorld(onTestFinished, {
      dovecot,
      user: "restart",
      skill: { responseDelaySeconds: 8 },
    });
    const mail = await world.write();
    await eventually(async () => expect(await world.rows("SELECT id FROM drafts")).toHaveLength(1), 6000);
    await world.stop();
    expect(await world.replies()).toEqual([]);
    await world.start();
    await world.settled([mail], 20_000);
    const [delay] = await delays(world);
    expect(delay).toBeGreaterThanOrEqual(8000);
    expect(delay).toBeLessThan(16_000);
  });

  it.concurrent("drops a waiting reply when the person writes again, where that is wanted", async ({
    onTestFinished,
  }) => {
    const channel = { on_newer: "drop" };
    const world = await openWorld(onTestFinished, {
      dovecot,
      user: "newer",
      channel,
      skill: { responseDelaySeconds: 8 },
    });
    const first = await world.write();
    await eventually(async () => expect(await world.rows("SELECT id FROM drafts")).toHaveLength(1), 6000);
    const second = await world.write({ answers: first });
    const reply = await world.replyTo(second, 20_000);
    expect(reply.inReplyTo).toBe(second.messageId);
    expect(await world.rows("SELECT state FROM drafts ORDER BY id")).toEqual([
      { state: "dropped" },
      { state: "sent" },
    ]);
    expect(await world.replies()).toHaveLength(1);
    expect(world.questions()).toHaveLength(2);
  });

  it.concurrent("is none when the platform says null", async ({ onTestFinished }) => {
    const world = await openWorld(onTestFinished, {
      dovecot,
      user: "null",
      skill: { responseDelaySeconds: null },
    });
    const mail = await world.write();
    await world.settled([mail], 20_000);
    const [delay] = await delays(world);
    expect(delay).toBeLessThan(6000);
  });
});
