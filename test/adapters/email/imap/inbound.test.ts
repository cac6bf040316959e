// Reading a real Dovecot: nothing lost, nothing twice, nothing acknowledged before it is committed.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { externalId } from "bridgehead/contract";
import { recordingChannel } from "bridgehead/contract/testing";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { understand } from "../../../../adapters/email/events.ts";
import { identity } from "../../../../adapters/email/parse/headers.ts";
import { standardTiming as timing } from "../../../../adapters/email/timing.ts";
import { refuse } from "../../../../src/domain/guards.ts";
import {
  arrived,
  before,
  type Mailboxes,
  mail,
  ready,
  settingsFor,
  startMailboxes,
  subjects,
} from "../../../support/email/adapter.ts";
import { type MailStore, sharedDovecot } from "../../../support/email/dovecot.ts";
import { reader } from "../../../support/email/mails.ts";
import { describeReal, need } from "../../../support/machine/debian.ts";

/** The time of a message, and why the core does not answer it. `listed`: its INTERNALDATE. */
describe("the time of a message", () => {
  const { parser, read } = reader();
  afterAll(() => parser.close());
  const now = Date.parse("2026-11-20T10:00:00Z");
  const hour = 3_600_000;
  const day = 24 * hour;
  const dateAt = (at: number) => new Date(at).toUTCString().replace("GMT", "+0000");
  const received = (at: number) => `from mx.example.net by mail.example.com (8.1; x)\n ; ${dateAt(at)} (UTC)`;

  async function timeOf(date: string, top: string, arrivedAt: number | null = now) {
    const raw = Buffer.from(mail(1, { Received: top, Date: date }).replaceAll("\n", "\r\n"));
    const arrival = {
      id: externalId("x"),
      listed: { uid: 1, size: 1, arrived: arrivedAt, keywords: [] },
      now,
      copiedAfter: timing.copied,
    };
    const parsed = { mail: await read(raw), auth: null, raw, omitted: [], truncated: false };
    const config = settingsFor(1, 1, { sender_auth: { mode: "off" } });
    const found = understand({ config, self: identity("support@example.com", []) }, arrival, parsed);
    const [event] = found.kind === "events" ? found.events : [];
    if (event?.kind !== "message") throw new Error("no message");
    const refusal = refuse(event, { max_age: 72 * hour, allow: [], deny: [] }, now);
    return { age: now - event.sentAt.getTime(), code: refusal?.code ?? null };
  }

  it.each([
    ["a copy of a message from years ago", now - 2800 * day, now - 2800 * day, 2800 * day],
    ["one whose author's clock was behind", now - 9000 * day, now - 30 * day, 30 * day],
    ["one whose author's clock was ahead", now - 10 * day, now - 30 * day, 10 * day],
  ])("is that of its delivery, which is too old: %s", async (_, date, top, age) => {
    expect(await timeOf(dateAt(date), received(top))).toEqual({ age, code: "too-old" });
  });
  it.each([
    ["the author's clock is years behind", dateAt(now - 2800 * day), received(now - hour)],
    ["the message waited in a queue", dateAt(now - 5 * day), received(now)],
    ["the clock of the server is behind", dateAt(now), received(now - 30 * day)],
    ["the time zones are wrong", dateAt(now - 26 * hour), received(now - 26 * hour)],
    ["the author's clock is ahead", dateAt(now + 30 * day), received(now - 30 * day)],
    ["no server wrote Received", dateAt(now - 2800 * day), ""],
    ["Received has no date", dateAt(now - 2800 * day), "from a by b"],
    ["Received has a broken date", dateAt(now - 2800 * day), "from a by b; yesterday"],
    ["Date is missing", "", received(now - 2800 * day)],
    ["Date is broken", "yesterday", received(now - 2800 * day)],
  ])("is INTERNALDATE when %s", async (_, date, top) => {
    expect(await timeOf(date, top)).toEqual({ age: 0, code: null });
  });
  it("is INTERNALDATE when a person moves the message, which keeps it", async () => {
    const at = now - 2 * day;
    expect(await timeOf(dateAt(at), received(at), at)).toEqual({ age: 2 * day, code: null });
  });
  it("is the age of a message that a program moves without its INTERNALDATE", async () => {
    const at = now - 2.5 * day;
    expect(await timeOf(dateAt(at), received(at))).toEqual({ age: 2.5 * day, code: null });
  });
});

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describeReal("reading a mailbox", missing, () => {
  let boxes: Mailboxes;
  let dovecot: MailStore;
  beforeAll(async () => {
    boxes = await startMailboxes(40, sharedDovecot);
    dovecot = boxes.dovecot;
  });
  afterEach(() => boxes.stopAll());
  afterAll(() => boxes?.dispose());

  it("brings a new mail, as it was written", async () => {
    const { channel, box } = await boxes.ready();
    await dovecot.deliver(
      box,
      mail(1, {
        "In-Reply-To": "<a@b.c>",
        References: "<r@b.c> <a@b.c>",
        "Reply-To": "r@example.net",
        Cc: "bob@example.net, support@example.com",
        "x-bridgehead-hops": "0",
        "X-Bridgehead-Hops": "2",
      }),
    );
    await arrived(channel, 1);
    const [message] = channel.messages;
    expect(message).toMatchObject({
      kind: "message",
      cited: "<1@example.net>",
      from: { address: "ann@example.net", name: "Ann" },
      to: [{ address: "support@example.com" }],
      replyTo: { address: "r@example.net" },
      cc: [{ address: "bob@example.net" }],
      thread: { answers: ["<a@b.c>", "<r@b.c>"] },
      subject: "Mail 1",
      hops: 2,
    });
    expect(message?.text.trim()).toBe("Question 1");
    expect(message?.id).toMatch(/^INBOX\/\d+\/1$/);
    expect(Buffer.from(message?.raw ?? []).toString()).toContain("Question 1");
    expect(Math.abs((message?.sentAt.getTime() ?? 0) - Date.now())).toBeLessThan(60_000);
    expect(channel.statuses.map((status) => status.state)).toEqual(["connecting", "ready"]);
  });

  it("removes an unmarked quote only from answers to our own mails", async () => {
    const { channel, box } = await boxes.ready();
    const quote = (more = "") =>
      `On Fri, May 3, 2024 at 10:00 AM Support <support@example.com> wrote:\nWhich lamp?${more}`;
    const answer = (id: string) => ({ "In-Reply-To": id, References: `<q@example.net> ${id}` });
    const bodies: readonly [Readonly<Record<string, string>>, string][] = [
      [answer("<01hzx7key.bridgehead@example.com>"), `The blue one.\n\n${quote()}`],
      // A relay has replaced our Message-ID; our marker tells whose mail is quoted.
      [answer("<AM6PR0@eurprd.outlook.example>"), `The blue one.\n\n${quote("\n[ref:bh-k3j5h2k1jh]")}`],
      [answer("<another@example.net>"), `The blue one.\n\n${quote()}`],
      [{}, `The blue one.\n\n${quote()}`],
    ];
    for (const [at, [headers, body]] of bodies.entries()) await dovecot.deliver(box, mail(at, headers, body));
    await arrived(channel, bodies.length);
    const kept = channel.messages.map((message) => message.text.trim());
    expect(kept).toEqual(["The blue one.", "The blue one.", bodies[2]?.[1], bodies[3]?.[1]]);
  });

  it("answers no old mail on the first start unless it is configured", async () => {
    const user = boxes.fresh();
    for (let n = 0; n < 3; n++) await dovecot.deliver(user, mail(n));
    const first = boxes.open({}, {}, undefined, user);
    await ready(first.channel);
    await dovecot.deliver(first.box, mail("new"));
    await arrived(first.channel, 1);
    expect(subjects(first.channel)).toEqual(["Mail new"]);
    const told = boxes.open({ first_start: { history: "1h" } }, {}, undefined, user);
    await arrived(told.channel, 4);
    expect(subjects(told.channel)).toEqual(["Mail 0", "Mail 1", "Mail 2", "Mail new"]);
  });

  it("catches up, oldest first, after it was stopped", async () => {
    const before = boxes.open();
    await ready(before.channel);
    await dovecot.deliver(before.box, mail("a"));
    await arrived(before.channel, 1);
    expect(await before.supervised.stop()).toBeLessThan(1000);
    for (const n of ["b", "c", "d"]) await dovecot.deliver(before.box, mail(n));
    const after = boxes.open({}, {}, before.channel, before.box);
    await arrived(after.channel, 4);
    expect(subjects(after.channel)).toEqual(["Mail a", "Mail b", "Mail c", "Mail d"]);
    expect(after.channel.calls.filter((call) => call.events.length > 0).length).toBeLessThanOrEqual(2);
  });

  it("delivers nothing twice after a UIDVALIDITY change", async () => {
    const { channel, box } = await boxes.ready({}, {}, before());
    for (const n of [1, 2, 3]) await dovecot.deliver(box, mail(n));
    await arrived(channel, 3);
    await dovecot.changeUidValidity(box);
    await dovecot.deliver(box, mail(4));
    await arrived(channel, 4);
    await dovecot.deliver(box, mail(5));
    await arrived(channel, 5);
    expect(subjects(channel)).toEqual([1, 2, 3, 4, 5].map((n) => `Mail ${n}`));
    expect(channel.cursor).not.toContain('"uid":0');
  });

  it("never looks at what was there before the first start, even then", async () => {
    const user = boxes.fresh();
    await dovecot.deliver(user, mail("old"), "INBOX", new Date(Date.now() - 60_000));
    const since = new Date(Date.now() - 30_000);
    const { channel, box, supervised } = await boxes.ready({}, {}, recordingChannel({ since }), user);
    await supervised.stop();
    await dovecot.changeUidValidity(box);
    const again = boxes.open({}, {}, channel, box);
    await dovecot.deliver(box, mail("new"));
    await arrived(again.channel, 1);
    expect(subjects(channel)).toEqual(["Mail new"]);
  });

  it("marks only what is committed", async () => {
    const { channel, box } = await boxes.ready();
    channel.hold();
    await dovecot.deliver(box, mail(1));
    await channel.until("accept", (c) => c.calls.some((call) => call.events.length === 1));
    expect((await dovecot.list(box))[0]?.flags).not.toContain("$Bridgehead");
    channel.release();
    await arrived(channel, 1);
    await expect.poll(async () => (await dovecot.list(box))[0]?.flags).toContain("$Bridgehead");
  });

  it("ends with marks on what is committed", async () => {
    const { channel, box, supervised } = await boxes.ready();
    channel.hold();
    await dovecot.deliver(box, mail(1));
    await channel.until("accept", (c) =>
      c.calls.some(({ state, events }) => state === "pending" && events.length === 1),
    );
    const stopped = supervised.stop();
    channel.release();
    await stopped;
    expect((await dovecot.list(box))[0]?.flags).toContain("$Bridgehead");
  });

  it("marks what was committed when its connection had ended, unless it is marked", async () => {
    const settings = { mark: { with: "flag" as const } };
    const { channel, box, supervised } = await boxes.ready(settings);
    const flags = async () => (await dovecot.list(box)).map((one) => one.flags.filter((flag) => flag !== "\\Recent"));
    const marks = ["\\Seen", "$Bridgehead-testmark00"];
    await dovecot.deliver(box, mail(1));
    await expect.poll(flags).toEqual([marks]);
    channel.hold();
    await dovecot.deliver(box, mail(2));
    await channel.until("accept", (c) =>
      c.calls.some(({ state, events }) => state === "pending" && events.length === 1),
    );
    await supervised.stop();
    channel.release();
    await channel.until("commit", (c) => c.calls.every(({ state }) => state === "committed"));
    expect(await flags()).toEqual([marks, []]);
    const person = await dovecot.connect(box);
    await person.mailboxOpen("INBOX");
    await person.messageFlagsRemove("1", ["\\Seen"], { uid: true });
    await person.logout();
    const after = boxes.open(settings, {}, channel, box);
    await expect.poll(flags).toEqual([marks.slice(1), marks]);
    await after.supervised.stop();
    expect(subjects(channel)).toEqual(["Mail 1", "Mail 2"]);
  });

  it("neither marks nor moves on when accept rejects, and brings the mail again", async () => {
    const { channel, box, supervised } = await boxes.ready();
    const cursor = channel.cursor;
    channel.reject(2);
    await dovecot.deliver(box, mail(1));
    await channel.until("rejected", (c) => c.calls.filter((call) => call.state === "rejected").length === 2);
    expect(channel.cursor).toBe(cursor);
    expect((await dovecot.list(box))[0]?.flags).not.toContain("$Bridgehead");
    await arrived(channel, 1);
    expect(supervised.errors.length).toBe(2);
    const ids = channel.calls.flatMap((call) => call.events.map((event) => event.id));
    expect(new Set(ids).size).toBe(1);
  });

  it.each(["flag", "none", "move"] as const)("marks by %s", async (way) => {
    const { channel, box } = await boxes.ready({ mark: { with: way, folder: "Sent" } });
    await dovecot.deliver(box, mail(1));
    await arrived(channel, 1);
    const [inbox, moved] = {
      flag: [["\\Seen", "$Bridgehead-testmark00"], []],
      none: [[], []],
      move: [null, [[]]],
    }[way] as [string[] | null, string[][]];
    const flags = (mails: readonly { flags: readonly string[] }[]) =>
      mails.map((one) => one.flags.filter((flag) => flag !== "\\Recent"));
    await expect.poll(async () => flags(await dovecot.list(box))).toEqual(inbox === null ? [] : [inbox]);
    expect(flags(await dovecot.list(box, "Sent"))).toEqual(moved);
    await dovecot.deliver(box, mail(2));
    await arrived(channel, 2);
  });

  it("logs once that marking failed, and continues", async () => {
    const { channel, box } = await boxes.ready({ mark: { with: "move", folder: "Nowhere" } });
    for (const n of [1, 2, 3]) await dovecot.deliver(box, mail(n));
    await arrived(channel, 3);
    await dovecot.deliver(box, mail(4));
    await arrived(channel, 4);
    expect(channel.logged.filter((line) => line.message === "marking handled mail failed")).toHaveLength(1);
  });

  it("publishes a point before and after marks", async () => {
    const phases: string[] = [];
    const listen = (message: unknown) => void phases.push((message as { phase: string }).phase);
    subscribe("bridgehead:email.mark", listen);
    const { channel, box } = await boxes.ready();
    await dovecot.deliver(box, mail(1));
    await expect.poll(() => phases).toEqual(["before", "after"]);
    unsubscribe("bridgehead:email.mark", listen);
    expect(channel.messages).toHaveLength(1);
  });

  it("accepts a burst of 500 in order, with few commits", async () => {
    const { channel, box, supervised } = await boxes.ready();
    await supervised.stop();
    for (let n = 0; n < 500; n++) await dovecot.deliver(box, mail(n));
    const after = boxes.open({}, {}, channel, box);
    await arrived(after.channel, 500);
    expect(subjects(channel)).toEqual(Array.from({ length: 500 }, (_, n) => `Mail ${n}`));
    expect(channel.calls.length).toBeLessThan(40);
    expect(after.supervised.errors).toEqual([]);
    await expect
      .poll(async () => (await dovecot.list(box)).every((one) => one.flags.includes("$Bridgehead")))
      .toBe(true);
  });

  it("loses none of those that arrive while it reads", async () => {
    const { channel, box } = await boxes.ready();
    for (let n = 0; n < 120; n++) await dovecot.deliver(box, mail(n));
    await arrived(channel, 120);
    expect(subjects(channel)).toEqual(Array.from({ length: 120 }, (_, n) => `Mail ${n}`));
  });

  it("polls for mail that the server did not announce", async () => {
    const { channel, box } = await boxes.ready({}, { poll: "1s" });
    const client = await dovecot.connect(box);
    await client.append("INBOX", Buffer.from(mail(1).replaceAll("\n", "\r\n")));
    await client.logout();
    await arrived(channel, 1);
  });

  it("dates an old message that a program appends without its date by its delivery", async () => {
    const { channel, box } = await boxes.ready({}, { poll: "1s" });
    const old = "Mon, 4 Mar 2019 10:00:00 +0000";
    const top = `from mx.example.net by mail.example.com; ${old}`;
    const client = await dovecot.connect(box);
    for (const [n, headers] of [{ Received: top, Date: old }, { Date: old }].entries())
      await client.append("INBOX", Buffer.from(mail(n, headers).replaceAll("\n", "\r\n")));
    await client.logout();
    await arrived(channel, 2);
    const [first, second] = channel.messages;
    expect(first?.sentAt).toEqual(new Date(old));
    expect(Math.abs((second?.sentAt.getTime() ?? 0) - Date.now())).toBeLessThan(60_000);
  });

  it("ends within a second", async () => {
    const { supervised } = await boxes.ready();
    expect(await supervised.stop()).toBeLessThan(1000);
    const slow = recordingChannel();
    slow.hold();
    const held = boxes.open({}, {}, slow);
    await held.channel.until("accept", (c) => c.calls.length > 0);
    expect(await held.supervised.stop()).toBeLessThan(1000);
  });
});
