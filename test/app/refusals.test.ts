// What is not answered, and what follows from it: machines, loops, caps, age, lists of senders, strangers, bounces.

import { afterAll, beforeAll, expect, it } from "vitest";
import { listEvents, releaseEvent } from "../../src/store/operators/inbox.ts";
import { eventually, movableClock } from "../support/clock.ts";
import { openWorld, type World } from "../support/daemon/mail-daemon.ts";
import { type MailStore, sharedDovecot } from "../support/email/dovecot.ts";
import { bounceOf, letter } from "../support/email/mails.ts";
import type { ReceivedMail } from "../support/email/smtp-server.ts";
import { describeReal, need } from "../support/machine/debian.ts";

const users = ["bounce", "machines", "north", "south", "east", "west", "caps", "lists", "old", "stranger", "told"];
const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** Codes of all events but the routed ones, in the order of their arrival. */
async function codes(world: World): Promise<unknown[]> {
  const rows = await world.rows("SELECT code FROM events WHERE state <> 'routed' ORDER BY id");
  return rows.map((row) => row["code"]);
}
const coded = (world: World, expected: unknown[], withinMs?: number) =>
  eventually(async () => expect(await codes(world)).toEqual(expected), withinMs);

describeReal("what is not answered", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(users);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("tells a sender at a cap once, although each mail begins a conversation", async ({
    onTestFinished,
  }) => {
    const caps = { sender: [{ max: 1, per: "1h" }], conversation: [], channel: [] };
    const channel = { caps, cap_text: "Your messages are held." };
    const world = await openWorld(onTestFinished, { dovecot, user: "told", channel });
    await world.replyTo(await world.write());
    for (let n = 0; n < 4; n++) await world.write();
    await coded(world, ["cap-sender", "cap-sender", "cap-sender", "cap-sender"]);
    await eventually(async () => expect(await world.rows("SELECT id FROM replies WHERE state = 'ready'")).toEqual([]));
    await eventually(async () => expect(await world.rows("SELECT id FROM drafts WHERE open = 1")).toEqual([]));
    const told = (await world.replies()).filter(({ text }) => text.includes("are held"));
    expect(told.map(({ to }) => to)).toEqual([["anna@customer.example"]]);
  });

  it.concurrent("matches bounces to the reply they are about; two suppress the address", async ({ onTestFinished }) => {
    const world = await openWorld(onTestFinished, { dovecot, user: "bounce" });
    const drafts = async () => (await world.rows("SELECT state FROM drafts ORDER BY id")).map((row) => row["state"]);
    const first = await world.write();
    const reply = await world.replyTo(first);
    await world.deliver(bounceOf(reply.messageId, world.address, first.from, "4.4.7"));
    await eventually(async () => expect(await drafts()).toEqual(["failed"]));
    expect(await world.rows("SELECT * FROM suppressions"), "a passing trouble is no strike").toEqual([]);

    for (const round of [1, 2]) {
      const mail = await world.write();
      const { messageId } = await world.replyTo(mail);
      await world.deliver(bounceOf(messageId, world.address, mail.from));
      const strikes = "SELECT address, strikes, active FROM suppressions";
      const expected = [{ address: first.from, strikes: round, active: round === 2 ? 1 : 0 }];
      await eventually(async () => expect(await world.rows(strikes)).toEqual(expected));
    }
    const last = await world.write();
    const suppressed = "SELECT state FROM events WHERE code = 'suppressed'";
    await eventually(async () => expect(await world.rows(suppressed)).toEqual([{ state: "ignored" }]));
    expect(await drafts()).toEqual(["failed", "failed", "failed"]);
    const other = await world.write({ from: "ben@customer.example" });
    await world.replyTo(other);
    expect((await world.replies()).some((one) => one.inReplyTo === last.messageId)).toBe(false);
    expect(world.questions(), "neither a bounce nor what may not be answered is asked").toHaveLength(4);
  });

  it.concurrent("never asks the agent about what machines write, and stores why", async ({ onTestFinished }) => {
    const world = await openWorld(onTestFinished, { dovecot, user: "machines" });
    const ours = await world.replyTo(await world.write());
    await world.write({ headers: { "Auto-Submitted": "auto-replied" }, answers: ours });
    await coded(world, ["auto-reply"]);
    await world.write({
      subject: "Out of office: Re: hello",
      answers: ours,
      headers: { "Return-Path": "<>" },
    });
    await world.write({ headers: { "List-Id": "<news.example>" } });
    await world.write({ from: "no-reply@shop.example" });
    await world.write({ from: world.address });
    await world.write({ headers: { Precedence: "bulk" } });
    await eventually(async () => expect(await codes(world)).toHaveLength(6));
    expect((await codes(world)).slice(1).map(String).toSorted()).toEqual(
      ["auto-reply", "list", "no-reply", "own", "bulk"].toSorted(),
    );
    const { events: listed } = await world.app().db.read((q) => listEvents(q, { state: "ignored", limit: 10 }));
    expect(listed.every((event) => event.reason)).toBe(true);
    expect(world.questions()).toHaveLength(1);
    expect(await world.replies()).toHaveLength(1);
  });

  /** Two bridges whose replies end up in each other's mailboxes, changed on the way. */
  async function facing(
    finished: Parameters<typeof openWorld>[0],
    [one, two]: [string, string],
    strip: (raw: string) => string,
  ): Promise<[World, World, ReceivedMail[]]> {
    const sent: ReceivedMail[] = [];
    const peer = (other: string) => ({
      deliver: async (mail: ReceivedMail) => {
        sent.push(mail);
        await dovecot.deliver(other, strip(mail.raw));
      },
    });
    const a = await openWorld(finished, { dovecot, user: one, smtp: peer(two) });
    const b = await openWorld(finished, { dovecot, user: two, smtp: peer(one) });
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
    const world = await openWorld(onTestFinished, { dovecot, user: "caps", channel: { caps }, clock });
    const letters = [await world.write(), await world.write()];
    await world.settled(letters);
    const third = await world.write();
    await coded(world, ["cap-sender"]);
    await world.stop();
    await world.start();
    await world.write();
    await coded(world, ["cap-sender", "cap-sender"]);
    const ben = { from: "ben@customer.example" };
    const carl = { from: "carl@customer.example" };
    letters.push(await world.write(ben), await world.write(carl));
    await world.settled(letters);
    // The whole channel is full: nothing is decided about what comes now, it waits.
    const dora = await world.write({ from: "dora@customer.example" });
    await coded(world, ["cap-sender", "cap-sender", "cap-channel"]);
    expect(world.questions()).toHaveLength(4);

    const [held] = await world
      .app()
      .db.read((q) => listEvents(q, { state: "held", limit: 10 }).then(({ events }) => events.toReversed()));
    await world.app().db.tx((q) => releaseEvent(q, held?.id ?? 0));
    world.app().scheduler.wake();
    await world.settled([...letters, third]);

    clock.forward(11 * 60_000);
    const later = await world.write();
    await world.settled([...letters, third, dora, later]);
  });

  it.concurrent("answers whom the lists let in", async ({ onTestFinished }) => {
    const channel = { allow: ["*@customer.example"], deny: ["eve@*"] };
    const world = await openWorld(onTestFinished, { dovecot, user: "lists", channel });
    const good = await world.write({ from: "Anna@Customer.Example" });
    await world.replyTo(good);
    await world.write({ from: "eve@customer.example" });
    await coded(world, ["denied"]);
    await world.write({ from: "anna@customer.example.evil.example" });
    await coded(world, ["denied", "not-allowed"]);
    await world.settled([good]);
  });

  it.concurrent("does not answer what is older than max_age, nor what was there before the first start", async ({
    onTestFinished,
  }) => {
    const early = await openWorld(onTestFinished, {
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
    const world = await openWorld(onTestFinished, { dovecot, user: "stranger" });
    const mail = await world.write();
    const reply = await world.replyTo(mail);
    const stranger = await world.write({ from: "mallory@elsewhere.example", answers: reply });
    await world.replyTo(stranger);
    const anna = await world.write({ answers: reply });
    await world.settled([mail, stranger, anna]);
    const [first, second, third] = world.questions().map((one) => one.conversation);
    expect(second).not.toBe(first);
    expect(third).toBe(first);
    expect(await world.rows("SELECT id FROM conversations")).toHaveLength(2);
  });
});
