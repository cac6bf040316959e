// What is not answered, and what follows from it: machines, loops, caps, age, lists of senders, strangers, bounces.

import { afterAll, beforeAll, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { listEvents, releaseEvent } from "../../../src/store/operators/inbox.ts";
import { eventually, movableClock } from "../../support/clock.ts";
import { type MailDaemon, startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { type MailStore, sharedDovecot } from "../../support/email/dovecot.ts";
import { bounceOf, letter } from "../../support/email/mails.ts";
import type { ReceivedMail } from "../../support/email/smtp-server.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

const users = "bounce machines north south east west caps raised lists old stranger told".split(" ");
const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** Codes of all events but the routed ones, in the order of their arrival. */
async function codes(daemon: MailDaemon): Promise<unknown[]> {
  const rows = await daemon.rows("SELECT code FROM events WHERE state <> 'routed' ORDER BY id");
  return rows.map((row) => row["code"]);
}
const coded = (daemon: MailDaemon, expected: unknown[], withinMs?: number) =>
  eventually(async () => expect(await codes(daemon)).toEqual(expected), withinMs);

describeReal("what is not answered", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(users);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("notifies a sender at a cap once, although each mail begins a conversation", async ({
    onTestFinished,
  }) => {
    const caps = { sender: [{ max: 1, per: "1h" }], conversation: [], channel: [] };
    const channel = { caps, cap_text: "Your messages are held." };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "told", channel });
    await daemon.replyTo(await daemon.write());
    for (let n = 0; n < 4; n++) await daemon.write();
    await coded(daemon, ["cap-sender", "cap-sender", "cap-sender", "cap-sender"]);
    await eventually(async () => expect(await daemon.rows("SELECT id FROM replies WHERE state = 'ready'")).toEqual([]));
    await eventually(async () => expect(await daemon.rows("SELECT id FROM drafts WHERE open = 1")).toEqual([]));
    const told = (await daemon.replies()).filter(({ text }) => text.includes("are held"));
    expect(told.map(({ to }) => to)).toEqual([["anna@customer.example"]]);
  });

  it.concurrent("matches bounces to the reply they are about; two suppress the address", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "bounce" });
    const drafts = async () => (await daemon.rows("SELECT state FROM drafts ORDER BY id")).map((row) => row["state"]);
    const first = await daemon.write();
    const reply = await daemon.replyTo(first);
    await daemon.deliver(bounceOf(reply.messageId, daemon.address, first.from, "4.4.7"));
    await eventually(async () => expect(await drafts()).toEqual(["failed"]));
    expect(await daemon.rows("SELECT * FROM suppressions"), "a passing trouble is no strike").toEqual([]);

    for (const round of [1, 2]) {
      const mail = await daemon.write();
      const { messageId } = await daemon.replyTo(mail);
      await daemon.deliver(bounceOf(messageId, daemon.address, mail.from));
      const strikes = "SELECT address, strikes, active FROM suppressions";
      const expected = [{ address: first.from, strikes: round, active: round === 2 ? 1 : 0 }];
      await eventually(async () => expect(await daemon.rows(strikes)).toEqual(expected));
    }
    const last = await daemon.write();
    const suppressed = "SELECT state FROM events WHERE code = 'suppressed'";
    await eventually(async () => expect(await daemon.rows(suppressed)).toEqual([{ state: "ignored" }]));
    expect(await drafts()).toEqual(["failed", "failed", "failed"]);
    const other = await daemon.write({ from: "ben@customer.example" });
    await daemon.replyTo(other);
    expect((await daemon.replies()).some((one) => one.inReplyTo === last.messageId)).toBe(false);
    expect(daemon.questions(), "neither a bounce nor what may not be answered is asked").toHaveLength(4);

    await daemon
      .app()
      .db.tx((q) =>
        q.write("UPDATE suppressions SET updated_at = updated_at - $1", standardTiming.route.bounced + 1000),
      );
    const again = await daemon.write();
    await daemon.replyTo(again);
    expect(await daemon.rows("SELECT * FROM suppressions"), "who writes has a mailbox").toEqual([]);
  });

  it.concurrent("never asks the agent about what machines write, and stores why", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "machines" });
    const ours = await daemon.replyTo(await daemon.write());
    await daemon.write({ headers: { "Auto-Submitted": "auto-replied" }, answers: ours });
    await coded(daemon, ["auto-reply"]);
    await daemon.write({
      subject: "Out of office: Re: hello",
      answers: ours,
      headers: { "Return-Path": "<>" },
    });
    await daemon.write({ headers: { "List-Id": "<news.example>" } });
    await daemon.write({ from: "no-reply@shop.example" });
    await daemon.write({ from: daemon.address });
    await daemon.write({ headers: { Precedence: "bulk" } });
    await eventually(async () => expect(await codes(daemon)).toHaveLength(6));
    expect((await codes(daemon)).slice(1).map(String).toSorted()).toEqual(
      ["auto-reply", "list", "no-reply", "own", "bulk"].toSorted(),
    );
    const { events: listed } = await daemon.app().db.read((q) => listEvents(q, { state: "ignored", limit: 10 }));
    expect(listed.every((event) => event.reason)).toBe(true);
    expect(daemon.questions()).toHaveLength(1);
    expect(await daemon.replies()).toHaveLength(1);
  });

  /** Two bridges whose replies end up in each other's mailboxes, changed on the way. */
  async function facing(
    finished: Parameters<typeof startMailDaemon>[0],
    [one, two]: [string, string],
    strip: (raw: string) => string,
  ): Promise<[MailDaemon, MailDaemon, ReceivedMail[]]> {
    const sent: ReceivedMail[] = [];
    const peer = (other: string) => ({
      deliver: async (mail: ReceivedMail) => {
        sent.push(mail);
        await dovecot.deliver(other, strip(mail.raw));
      },
    });
    const a = await startMailDaemon(finished, { dovecot, user: one, smtp: peer(two) });
    const b = await startMailDaemon(finished, { dovecot, user: two, smtp: peer(one) });
    return [a, b, sent];
  }

  it.concurrent("lets two bridges that face each other write at most once", async ({ onTestFinished }) => {
    const [a, b, sent] = await facing(onTestFinished, ["north", "south"], (raw) => raw);
    await a.write({ from: b.address });
    await coded(b, ["auto-reply"]);
    expect(sent).toHaveLength(1);
    expect([...a.questions(), ...b.questions()]).toHaveLength(1);
  });

  it.concurrent("stops two bridges after three mails even where Auto-Submitted is lost", async ({ onTestFinished }) => {
    const strip = (raw: string) => raw.replace(/^(Auto-Submitted|X-Auto-Response-Suppress):.*\r\n/gim, "");
    const [a, b, sent] = await facing(onTestFinished, ["east", "west"], strip);
    await a.write({ from: b.address });
    await coded(a, ["loop"]);
    expect(sent.length + 1, "the first mail and the answers to it").toBeLessThanOrEqual(3);
    expect([a.questions().length, b.questions().length]).toEqual([1, 1]);
    await coded(b, []);
  });

  it.concurrent("holds what is over a cap, over a restart, until the time has passed", async ({ onTestFinished }) => {
    const clock = movableClock();
    const caps = { sender: [{ max: 2, per: "10m" }], conversation: [], channel: [{ max: 4, per: "10m" }] };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "caps", channel: { caps }, clock });
    const letters = [await daemon.write(), await daemon.write()];
    await daemon.settled(letters);
    const third = await daemon.write();
    await coded(daemon, ["cap-sender"]);
    await daemon.stop();
    await daemon.start();
    await daemon.write();
    await coded(daemon, ["cap-sender", "cap-sender"]);
    const ben = { from: "ben@customer.example" };
    const carl = { from: "carl@customer.example" };
    letters.push(await daemon.write(ben), await daemon.write(carl));
    await daemon.settled(letters);
    // The whole channel is full: nothing is decided about what comes now, it waits.
    const dora = await daemon.write({ from: "dora@customer.example" });
    await coded(daemon, ["cap-sender", "cap-sender", "cap-channel"]);
    expect(daemon.questions()).toHaveLength(4);

    const [held] = await daemon
      .app()
      .db.read((q) => listEvents(q, { state: "held", limit: 10 }).then(({ events }) => events.toReversed()));
    await daemon.app().db.tx((q) => releaseEvent(q, held?.id ?? 0));
    daemon.app().scheduler.wake();
    await daemon.settled([...letters, third]);

    clock.forward(11 * 60_000);
    const later = await daemon.write();
    await daemon.settled([...letters, third, dora, later]);
  });

  it.concurrent("answers what waits under a cap once the cap is raised, by a reload or at a start", async ({
    onTestFinished,
  }) => {
    const caps = { sender: [], conversation: [], channel: [{ max: 1, per: "1h" }] };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "raised", channel: { caps } });
    const capped = await daemon.config();
    const channels = capped.channels.map((one) => ({
      ...one,
      core: { ...one.core, caps: { ...one.core.caps, channel: [] } },
    }));
    const raised = { ...capped, channels };
    const letters = [await daemon.write()];
    await daemon.settled(letters);
    letters.push(await daemon.write({ from: "ben@customer.example" }));
    await coded(daemon, ["cap-channel"]);
    await daemon.app().reload(raised);
    await daemon.settled(letters);

    await daemon.app().reload(capped);
    letters.push(await daemon.write({ from: "carl@customer.example" }));
    await coded(daemon, ["cap-channel"]);
    await daemon.stop();
    await daemon.start(raised);
    await daemon.settled(letters);
  });

  it.concurrent("answers whom the lists let in", async ({ onTestFinished }) => {
    const channel = { allow: ["*@customer.example"], deny: ["eve@*"] };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "lists", channel });
    const good = await daemon.write({ from: "Anna@Customer.Example" });
    await daemon.replyTo(good);
    await daemon.write({ from: "eve@customer.example" });
    await coded(daemon, ["denied"]);
    await daemon.write({ from: "anna@customer.example.evil.example" });
    await coded(daemon, ["denied", "not-allowed"]);
    await daemon.settled([good]);
  });

  it.concurrent("does not answer what is older than max_age, nor what was there before the first start", async ({
    onTestFinished,
  }) => {
    const early = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "old",
      channel: { max_age: "1h" },
      stopped: true,
    });
    // Arrival times are whole seconds, and what arrives in the second of the first start is answered.
    const before = letter(early.address, { text: "Here before you?" });
    await dovecot.deliver("old", before.raw, "INBOX", new Date(Date.now() - 60_000));
    await early.start();
    await early.reports({ state: "ready" });
    await early.stop();
    const old = letter(early.address, { text: "While you were away?" });
    await dovecot.deliver("old", old.raw, "INBOX", new Date(Date.now() - 2 * 3_600_000));
    await early.start();
    await coded(early, ["too-old"]);
    const fresh = await early.write();
    await early.settled([fresh]);
  });

  it.concurrent("gives a stranger who quotes a known Message-ID a conversation of his own", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "stranger" });
    const mail = await daemon.write();
    const reply = await daemon.replyTo(mail);
    const stranger = await daemon.write({ from: "mallory@elsewhere.example", answers: reply });
    await daemon.replyTo(stranger);
    const anna = await daemon.write({ answers: reply });
    await daemon.settled([mail, stranger, anna]);
    const [first, second, third] = daemon.questions().map((one) => one.conversation);
    expect(second).not.toBe(first);
    expect(third).toBe(first);
    expect(await daemon.rows("SELECT id FROM conversations")).toHaveLength(2);
  });
});
