// The log of the running daemon: one grep finds the whole history of one message, and a lost connection costs two lines.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import { startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { bounceOf } from "../../support/email/mails.ts";
import { messages, startDaemon } from "../../support/machine/command.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { startTcpProxy } from "../../support/machine/network.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("the log of messages", missing, () => {
  let dovecot: Dovecot;
  beforeAll(async () => {
    dovecot = await startDovecot({ users: ["traced", "joined", "refused", "cut"] });
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("has the history of one email under one word, from receipt to delivery receipt", async ({
    onTestFinished,
  }) => {
    const fixture = await startMailDaemon(onTestFinished, { dovecot, user: "traced", stopped: true });
    const daemon = await startDaemon(fixture, onTestFinished);
    const mail = await fixture.write({ text: "A secret question?" });
    const other = await fixture.write({ from: "ben@customer.example", text: "Another one?" });
    const reply = await fixture.replyTo(mail);
    await fixture.replyTo(other);
    await fixture.deliver(bounceOf(reply.messageId, fixture.address, mail.from));
    await eventually(() => expect(messages(daemon.lines())).toContain("delivery receipt"));

    const received = daemon.lines().filter(({ message }) => message === "message received");
    expect(received).toHaveLength(2);
    const receipt = daemon.lines().find(({ message }) => message === "delivery receipt");
    const found = daemon.grep(String(receipt?.["trace"]));
    expect(messages(found)).toEqual([
      "message received",
      "question asked",
      "question answered",
      "reply queued",
      "reply sent",
      "delivery receipt",
    ]);
    const [, asked, answered, queued, sent, last] = found;
    const event = Number(String(receipt?.["trace"]).slice(1));
    expect(found[0]).toMatchObject({ level: "info", channel: fixture.channel, event });
    expect(asked).toMatchObject({ event, conversation: expect.any(String), turn: expect.any(String) });
    expect(answered).toMatchObject({ conversation: asked?.["conversation"], turn: asked?.["turn"] });
    expect(queued).toMatchObject({ draft: expect.any(String), due: expect.stringMatching(/^20.*Z$/) });
    expect(sent).toMatchObject({ draft: queued?.["draft"], attempt: 1 });
    expect(last).toMatchObject({ draft: queued?.["draft"], state: "failed" });
    for (const line of [asked, answered, sent]) expect(line?.["duration_ms"]).toEqual(expect.any(Number));

    const local = [mail.from, "ben@customer.example", fixture.address];
    for (const address of local) expect(daemon.text()).not.toContain(address);
    for (const text of ["secret question", "Another one"]) expect(daemon.text()).not.toContain(text);
  });

  it.concurrent("finds a message that was added to the question of another one", async ({ onTestFinished }) => {
    const channel = { debounce: "10s" }; // longer than the second message takes on a machine under load
    const fixture = await startMailDaemon(onTestFinished, { dovecot, user: "joined", stopped: true, channel });
    const daemon = await startDaemon(fixture, onTestFinished);
    const first = await fixture.write({ text: "First?" });
    await eventually(() => expect(messages(daemon.lines())).toContain("message received"));
    const second = await fixture.write({ text: "Second?", answers: first });
    await fixture.replyTo(second);
    await eventually(() => expect(messages(daemon.lines())).toContain("reply sent"));
    const events = daemon.lines().filter(({ message }) => message === "message received");
    expect(events).toHaveLength(2);
    for (const { trace } of events)
      expect(messages(daemon.grep(String(trace)))).toEqual([
        "message received",
        "question asked",
        "question answered",
        "reply queued",
        "reply sent",
      ]);
  });

  it.concurrent("has the code of a refused message, and no address from the response of a server", async ({
    onTestFinished,
  }) => {
    const fixture = await startMailDaemon(onTestFinished, { dovecot, user: "refused", stopped: true });
    const daemon = await startDaemon(fixture, onTestFinished);
    await fixture.write({ headers: { "Auto-Submitted": "auto-replied" } });
    await eventually(() => expect(messages(daemon.lines())).toContain("message refused"));
    const refused = daemon.lines().find(({ message }) => message === "message refused");
    expect(refused).toMatchObject({ level: "info", code: expect.any(String), trace: expect.any(String) });
    expect(messages(daemon.grep(String(refused?.["trace"])))).toEqual(["message received", "message refused"]);

    const mail = await fixture.write({ text: "Reply to me" });
    fixture.smtp.fail("rcpt", { kind: "reply", code: 550, text: `5.1.1 <${mail.from}> unknown` }, 1);
    await eventually(() => expect(messages(daemon.lines())).toContain("reply failed"));
    expect(daemon.text()).toContain("550 5.1.1");
    expect(daemon.text()).not.toContain(mail.from);
  });

  it.concurrent("has one line for a lost connection, without a stack trace, and one when it recovers", async ({
    onTestFinished,
  }) => {
    const proxy = await startTcpProxy(dovecot.port);
    onTestFinished(() => proxy.close());
    const channel = { imap: { port: proxy.port } };
    const fixture = await startMailDaemon(onTestFinished, { dovecot, user: "cut", stopped: true, channel });
    const daemon = await startDaemon(fixture, onTestFinished);
    const before = daemon.lines().length;
    const accepted = proxy.accepted();
    proxy.refuse();
    proxy.cut();
    await eventually(() => expect(proxy.accepted()).toBeGreaterThan(accepted + 2));
    proxy.resume();
    await eventually(() => expect(messages(daemon.lines())).toContain("channel connection recovered"));
    const lines = daemon.lines().slice(before);
    expect(messages(lines)).toEqual(["channel connection lost", "channel connection recovered"]);
    expect(lines[0]).toMatchObject({ level: "warn", channel: fixture.channel, reason: expect.any(String) });
    expect(lines[1]).toMatchObject({ level: "info", channel: fixture.channel });
    expect(daemon.text()).not.toContain('"stack"');
  });
});
