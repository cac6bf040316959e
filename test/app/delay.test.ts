// responseDelaySeconds: replies are never early, keep their order, survive a restart, and are reconsidered when the
// customer writes again before they are due.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually, movableClock } from "../support/clock.ts";
import { type MailDaemon, startMailDaemon } from "../support/daemon/mail-daemon.ts";
import { type MailStore, sharedDovecot } from "../support/email/dovecot.ts";
import { describeReal, need } from "../support/machine/debian.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

// One hour on the test's clock: no delay expires before the test advances the clock, even on a slow machine.
const hour = 3_600_000;
const skill = { responseDelaySeconds: 3600 };

/** Milliseconds between the daemon's having the mail and the time its reply is due, in the mails' order. */
async function delays(daemon: MailDaemon): Promise<number[]> {
  const rows = await daemon.rows<{ delay: number }>(
    `SELECT d.due_at - t.received_at AS delay
     FROM drafts d JOIN replies r ON r.id = d.reply JOIN turns t ON t.id = r.turn ORDER BY t.seq`,
  );
  return rows.map(({ delay }) => delay);
}

describeReal("the response delay", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["delay", "restart", "newer", "null"]);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("counts from the mail's arrival, never early, and does not hold questions back", async ({
    onTestFinished,
  }) => {
    const clock = movableClock();
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "delay", clock, skill });
    const first = await daemon.write();
    await eventually(() => expect(daemon.questions().length).toBe(1));
    const second = await daemon.write({ answers: first });
    await eventually(async () => expect(await delays(daemon)).toEqual([hour, hour]));
    expect(daemon.questions(), "both are asked before the first reply is due").toHaveLength(2);
    clock.forward(hour / 2);
    await daemon.app().scheduler.sweep();
    expect(await daemon.replies()).toEqual([]);
    clock.forward(hour / 2);
    await daemon.settled([first, second]);
    expect((await daemon.replies()).map((reply) => reply.inReplyTo)).toEqual([first.messageId, second.messageId]);
  });

  it.concurrent("survives a restart", async ({ onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "restart", clock, skill });
    const mail = await daemon.write();
    await eventually(async () => expect(await delays(daemon)).toEqual([hour]));
    await daemon.stop();
    await daemon.start();
    await daemon.reports({ state: "ready" });
    await daemon.app().scheduler.sweep();
    expect(await delays(daemon)).toEqual([hour]);
    expect(await daemon.replies()).toEqual([]);
    clock.forward(hour);
    await daemon.settled([mail]);
  });

  it.concurrent("drops a waiting reply when the person writes again, where that is wanted", async ({
    onTestFinished,
  }) => {
    const clock = movableClock();
    const channel = { on_new_message: "drop" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "newer", clock, channel, skill });
    const first = await daemon.write();
    await eventually(async () => expect(await daemon.rows("SELECT id FROM drafts")).toHaveLength(1));
    const second = await daemon.write({ answers: first });
    const states = "SELECT state FROM drafts ORDER BY id";
    await eventually(async () => expect(await daemon.rows(states)).toEqual([{ state: "queued" }, { state: "queued" }]));
    clock.forward(hour);
    const reply = await daemon.replyTo(second);
    expect(reply.inReplyTo).toBe(second.messageId);
    await eventually(async () => expect(await daemon.rows(states)).toEqual([{ state: "dropped" }, { state: "sent" }]));
    expect(await daemon.replies()).toHaveLength(1);
    expect(daemon.questions()).toHaveLength(2);
  });

  it.concurrent("is zero when the platform returns null", async ({ onTestFinished }) => {
    const none = { responseDelaySeconds: null };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "null", skill: none });
    const mail = await daemon.write();
    await daemon.settled([mail]);
  });
});
