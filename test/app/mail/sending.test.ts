// What becomes of replies that the SMTP server does not simply take.

import { afterAll, beforeAll, expect, it } from "vitest";
import { listDrafts, resendDraft } from "../../../src/store/operators/outbox.ts";
import { overview } from "../../../src/store/operators/overview.ts";
import { eventually, movableClock } from "../../support/clock.ts";
import { type MailDaemon, startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { type MailStore, sharedDovecot } from "../../support/email/dovecot.ts";
import { bounceOf, readReply } from "../../support/email/mails.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { startTcpProxy } from "../../support/machine/network.ts";

const users = [
  "temporary",
  "refused",
  "block",
  "quota",
  "sender",
  "hold",
  "resend",
  "drop",
  "found",
  "receipt",
  "answered-unknown",
  "answered-held",
  "answered-resend",
  "answered-drop",
  "closed",
  "back",
];
const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

const draft = async (daemon: MailDaemon) => (await daemon.rows("SELECT * FROM drafts ORDER BY id"))[0];
/** Polls until the first draft looks like this. */
const drafted = (daemon: MailDaemon, expected: object) =>
  eventually(async () => expect(await draft(daemon)).toMatchObject(expected));
const failed = async (daemon: MailDaemon) =>
  (await daemon.app().db.read((q) => listDrafts(q, { state: "failed", limit: 10 }))).drafts;

describeReal("replies that are not simply taken", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(users);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("tries again later after a 4xx, with the same mail", async ({ onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "temporary", clock });
    daemon.smtp.fail("dot", { kind: "reply", code: 451, text: "4.3.0 later" }, 1);
    const mail = await daemon.write();
    await drafted(daemon, { state: "queued", attempts: 1 });
    const [tried] = await daemon.rows("SELECT ended_at FROM attempts WHERE kind = 'send'");
    expect((await draft(daemon))?.["due_at"]).toBeGreaterThan(Number(tried?.["ended_at"]) + 15_000);
    clock.forward(40_000);
    await daemon.settled([mail]);
    expect(daemon.smtp.arrived).toHaveLength(2);
    expect(daemon.smtp.arrived[1]?.raw).toBe(daemon.smtp.arrived[0]?.raw);
  });

  it.concurrent("fails a refused reply, lists it, and sends the next", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "refused" });
    daemon.smtp.fail("dot", { kind: "reply", code: 554, text: "5.7.1 not with us" }, 1);
    const mail = await daemon.write();
    await drafted(daemon, { state: "failed", open: 0 });
    expect(await failed(daemon)).toMatchObject([{ reason: expect.stringContaining("5.7.1") }]);
    const next = await daemon.write({ answers: mail });
    await daemon.replyTo(next);
    const id = String((await draft(daemon))?.["id"]);
    await daemon.app().db.tx((q) => resendDraft(q, id));
    daemon.app().scheduler.wake();
    await daemon.settled([mail, next]);
  });

  it.concurrent("lets nothing overtake a dead reply where the operator wants it so", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "block",
      channel: { on_permanent_failure: "block" },
    });
    daemon.smtp.fail("dot", { kind: "reply", code: 554, text: "5.7.1 not with us" }, 1);
    const mail = await daemon.write();
    await drafted(daemon, { state: "failed", open: 1 });
    const next = await daemon.write({ answers: mail });
    await eventually(async () =>
      expect(await daemon.rows("SELECT state FROM drafts ORDER BY id")).toEqual([
        { state: "failed" },
        { state: "queued" },
      ]),
    );
    const id = String((await draft(daemon))?.["id"]);
    await daemon.app().db.tx((q) => resendDraft(q, id));
    daemon.app().scheduler.wake();
    await daemon.settled([mail, next]);
    expect((await daemon.replies()).map((reply) => reply.inReplyTo)).toEqual([mail.messageId, next.messageId]);
  });

  it.concurrent.for([
    ["when the account has sent too much", "quota", "5.4.5 Daily user sending limit exceeded"],
    ["when the server refuses its address", "sender", "5.7.60 Client does not have permissions to send as this sender"],
  ] as const)("pauses the channel %s", async ([, user, text], { onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user, clock });
    daemon.smtp.fail("mail", { kind: "reply", code: 550, text });
    const code = text.slice(0, text.indexOf(" "));
    const first = await daemon.write();
    const paused = async () => {
      const [row] = await daemon.rows("SELECT until, reason FROM send_pauses");
      return { for: Number(row?.["until"]) - clock.now(), why: String(row?.["reason"]) };
    };
    await eventually(async () => expect((await paused()).for).toBeGreaterThan(60_000));
    expect((await paused()).why).toContain(code);
    const tried = daemon.smtp.stages.filter((stage) => stage === "mail").length;
    const second = await daemon.write({ from: "ben@customer.example" });
    await eventually(async () => expect(await daemon.rows("SELECT id FROM drafts")).toHaveLength(2));
    expect(await daemon.app().db.read(overview)).toMatchObject([
      { drafts: { queued: 2 }, paused_reason: expect.stringContaining(code) },
    ]);
    daemon.smtp.heal();
    expect(daemon.smtp.stages.filter((stage) => stage === "mail")).toHaveLength(tried);
    clock.forward(20 * 60_000);
    await daemon.settled([first, second]);
  });

  it.concurrent("delivers what waits as soon as the server can be reached again", async ({ onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "back", clock });
    daemon.smtp.fail("connect", { kind: "reset" });
    const mails = [await daemon.write(), await daemon.write({ from: "ben@customer.example" })];
    await eventually(async () => expect(await daemon.rows("SELECT id FROM drafts")).toHaveLength(2));
    await eventually(async () =>
      expect(await daemon.rows("SELECT cause FROM send_pauses")).toEqual([{ cause: "unreachable" }]),
    );
    const { scheduler } = daemon.app();
    const passes = async (ms: number) => {
      await eventually(() => expect(scheduler.running()).toBe(0));
      clock.forward(ms);
      await scheduler.sweep();
    };
    for (let gone = 0; gone < 600_000; gone += 10_000) await passes(10_000);
    daemon.smtp.heal();
    const began = clock.now();
    while (daemon.smtp.accepted.length < mails.length && clock.now() - began < 600_000) await passes(1000);
    expect(clock.now() - began).toBeLessThan(60_000);
    await daemon.settled(mails);
    expect(await daemon.rows("SELECT * FROM send_pauses")).toEqual([]);
  });

  const lost = async (daemon: MailDaemon) => {
    daemon.smtp.fail("dot", { kind: "reset" }, 1);
    const mail = await daemon.write();
    await eventually(() => expect(daemon.smtp.arrived.length).toBe(1));
    return mail;
  };

  it.concurrent("holds a reply of unknown outcome", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "hold",
      channel: { unknown_window: "1s" },
    });
    const mail = await lost(daemon);
    await drafted(daemon, { state: "held", attempts: 1 });
    const next = await daemon.write({ answers: mail });
    await daemon.replyTo(next);
    expect(daemon.smtp.arrived).toHaveLength(2);
    expect(await daemon.replies()).toHaveLength(1);
  });

  it.concurrent("sends it again under the same id where that is the policy", async ({ onTestFinished }) => {
    const channel = { unknown_window: "1s", on_unknown: "resend" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "resend", channel });
    const mail = await lost(daemon);
    await daemon.settled([mail]);
    expect(daemon.smtp.arrived).toHaveLength(2);
    expect(new Set(daemon.smtp.arrived.map((one) => one.messageId)).size).toBe(1);
    expect(await draft(daemon)).toMatchObject({ state: "sent", attempts: 2 });
  });

  it.concurrent("drops it where that is the policy", async ({ onTestFinished }) => {
    const channel = { unknown_window: "1s", on_unknown: "drop" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "drop", channel });
    const mail = await lost(daemon);
    await drafted(daemon, { state: "dropped", attempts: 1 });
    const next = await daemon.write({ answers: mail });
    await daemon.replyTo(next);
    expect(await daemon.replies()).toHaveLength(1);
  });

  it.concurrent("finds in the Sent folder that it did go out", async ({ onTestFinished }) => {
    const channel = { provider_files_sent: true, sent_folder: "auto" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "found", channel });
    const mail = await lost(daemon);
    await dovecot.deliver("found", daemon.smtp.arrived[0]?.raw ?? "", "Sent");
    await drafted(daemon, { state: "sent", attempts: 1 });
    const next = await daemon.write({ answers: mail });
    await daemon.replyTo(next);
    expect(daemon.smtp.arrived).toHaveLength(2);
  });

  it.concurrent("believes a bounce that it did go out", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "receipt" });
    await lost(daemon);
    await drafted(daemon, { state: "unknown" });
    const arrived = daemon.smtp.arrived[0];
    if (!arrived) throw new Error("nothing arrived");
    const { messageId } = await readReply(arrived);
    await daemon.deliver(bounceOf(messageId, daemon.address, "anna@customer.example"));
    await drafted(daemon, { state: "failed", open: 0, attempts: 1 });
  });

  const answered = [
    { state: "unknown", channel: { unknown_window: "12h" } },
    { state: "held", channel: { unknown_window: "1s" } },
    { state: "dropped", channel: { unknown_window: "1s", on_unknown: "drop" } },
  ];
  for (const { state, channel } of answered) {
    it.concurrent(`treats a reply without a quote as the receipt of a reply that is ${state}`, async ({
      onTestFinished,
    }) => {
      const user = `answered-${state === "dropped" ? "drop" : state}`;
      const daemon = await startMailDaemon(onTestFinished, { dovecot, user, channel });
      await lost(daemon);
      await drafted(daemon, { state, attempts: 1 });
      const next = await daemon.write({ answers: { messageId: daemon.smtp.arrived[0]?.messageId ?? "" } });
      await daemon.replyTo(next);
      expect(await draft(daemon)).toMatchObject({ state: "sent", open: 0, attempts: 1 });
      expect(daemon.conversations(), "the platform's").toBe(1);
      expect(await daemon.rows("SELECT id FROM conversations")).toHaveLength(1);
      expect(daemon.smtp.arrived).toHaveLength(2);
    });
  }

  it.concurrent("does not send again a reply that the customer has answered", async ({ onTestFinished }) => {
    const clock = movableClock();
    const channel = { unknown_window: "12h", on_unknown: "resend" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "answered-resend", channel, clock });
    await lost(daemon);
    await drafted(daemon, { state: "unknown", attempts: 1 });
    const next = await daemon.write({ answers: { messageId: daemon.smtp.arrived[0]?.messageId ?? "" } });
    await daemon.replyTo(next);
    clock.forward(13 * 3_600_000);
    await daemon.app().scheduler.sweep();
    const last = await daemon.write({ answers: next });
    await daemon.replyTo(last);
    expect(await draft(daemon)).toMatchObject({ state: "sent", attempts: 1 });
    expect(daemon.smtp.arrived).toHaveLength(3);
  });

  it.concurrent("waits while the SMTP server cannot be reached", async ({ onTestFinished }) => {
    const clock = movableClock();
    const proxy = await startTcpProxy(1);
    onTestFinished(() => proxy.close());
    proxy.refuse();
    const channel = { smtp: { port: proxy.port } };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "closed", clock, channel });
    await daemon.write();
    await drafted(daemon, { state: "queued", attempts: 1 });
    await daemon.reports({ state: "degraded" });
    expect(daemon.report().reason).toMatch(/connection/);
  });
});
