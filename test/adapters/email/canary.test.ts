// The canary of an email channel: a mail to the own mailbox that must come back.

import { recordingChannel } from "bridgehead/contract/testing";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { type Mailboxes, ready, startMailboxes } from "../../support/email/adapter.ts";
import { sharedDovecot } from "../../support/email/dovecot.ts";
import { type SmtpPeer, startSmtpPeer } from "../../support/email/smtp-server.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("the canary", missing, () => {
  let boxes: Mailboxes;
  let smtp: SmtpPeer;
  beforeAll(async () => {
    boxes = await startMailboxes(9, sharedDovecot);
    smtp = await startSmtpPeer();
  });
  afterEach(() => boxes.stopAll());
  afterAll(async () => {
    await smtp?.close();
    await boxes?.dispose();
  });

  const settings = (within: string) => ({
    canary: { every: "1h", within },
    smtp: { host: "127.0.0.1", tls: "none" as const, port: smtp.port, login: false },
  });
  const warned = { has: (channel: ReturnType<typeof recordingChannel>) => channel.warnings.get("canary") };
  const sent = (count: number) => expect.poll(() => smtp.accepted.length).toBe(count);
  const newest = () => Buffer.from(smtp.accepted.at(-1)?.raw ?? "", "latin1").toString("latin1");

  it("comes back, is deleted, is no event, and is not sent again after a restart", async () => {
    const before = smtp.accepted.length;
    const box = boxes.fresh();
    const channel = recordingChannel();
    boxes.open(settings("50m"), {}, channel, box);
    await ready(channel);
    await sent(before + 1);
    const raw = newest();
    expect(raw).toMatch(/^Auto-Submitted: auto-generated\r$/m);
    expect(smtp.accepted.at(-1)).toMatchObject({ from: "support@example.com", to: ["support@example.com"] });
    await boxes.dovecot.deliver(box, raw);
    await boxes.dovecot.deliver(box, mailTo("Hello"));
    await channel.until("the other mail", (c) => c.messages.length === 1);
    await expect.poll(() => boxes.dovecot.list(box)).toHaveLength(1);
    await boxes.stopAll();

    boxes.open(settings("50m"), {}, channel, box);
    await boxes.dovecot.deliver(box, mailTo("Again"));
    await channel.until("the next mail", (c) => c.messages.length === 2);
    expect(channel.messages.map(({ subject }) => subject)).toEqual(["Hello", "Again"]);
    expect(smtp.accepted).toHaveLength(before + 1);
    expect(warned.has(channel)).toBeUndefined();
  });

  it("reports after a restart that it had come back, in case that the process before could not", async () => {
    const channel = recordingChannel();
    const back = { tokens: ["0".repeat(24)], begunAt: Date.now(), isSent: true, isBack: true };
    await channel.secrets.write(`canary/${channel.id}`, JSON.stringify(back));
    boxes.open(settings("50m"), {}, channel, boxes.fresh());
    await ready(channel);
    await channel.until("the report", (c) => c.escalated.get("canary") === null);
  });

  it("raises a warning when it does not come back in time, and clears it when it does", async () => {
    const before = smtp.accepted.length;
    const box = boxes.fresh();
    const channel = recordingChannel();
    boxes.open(settings("500ms"), {}, channel, box);
    await sent(before + 1);
    await expect.poll(() => warned.has(channel)).toMatch(/did not arrive within/);
    expect(channel.escalated.get("canary")).toBe(warned.has(channel));
    await boxes.dovecot.deliver(box, newest());
    await expect.poll(() => warned.has(channel)).toBeUndefined();
    expect(channel.escalated.get("canary")).toBeNull();
    expect(smtp.accepted).toHaveLength(before + 1);
  });

  it("is missing also when an older one comes back late", async () => {
    const box = boxes.fresh();
    const channel = recordingChannel();
    const late = "0".repeat(24);
    const sentOne = { tokens: ["1".repeat(24), late], begunAt: Date.now() - 1000, isSent: true, isBack: false };
    await channel.secrets.write(`canary/${channel.id}`, JSON.stringify(sentOne));
    boxes.open(settings("500ms"), {}, channel, box);
    await expect.poll(() => warned.has(channel)).toMatch(/did not arrive/);
    await boxes.dovecot.deliver(box, mailTo(`Bridgehead canary ${late}`));
    await boxes.dovecot.deliver(box, mailTo("After"));
    await channel.until("the other mail", (c) => c.messages.length > 0);
    expect(channel.messages.map(({ subject }) => subject)).toEqual(["After"]);
    expect(warned.has(channel)).toMatch(/did not arrive/);
  });

  it("is sent at once when the clock was set back", async () => {
    const before = smtp.accepted.length;
    const channel = recordingChannel();
    const ahead = { tokens: ["0".repeat(24)], begunAt: Date.now() + 86_400_000, isSent: true, isBack: true };
    await channel.secrets.write(`canary/${channel.id}`, JSON.stringify(ahead));
    boxes.open(settings("50m"), {}, channel, boxes.fresh());
    await sent(before + 1);
    expect(smtp.accepted).toHaveLength(before + 1);
  });

  it("recognizes one that arrived while the channel was stopped", async () => {
    const before = smtp.accepted.length;
    const box = boxes.fresh();
    const channel = recordingChannel();
    boxes.open(settings("500ms"), {}, channel, box);
    await sent(before + 1);
    await expect.poll(() => warned.has(channel)).toMatch(/did not arrive/);
    await boxes.stopAll();
    await boxes.dovecot.deliver(box, newest());
    boxes.open(settings("500ms"), {}, channel, box);
    await expect.poll(() => warned.has(channel)).toBeUndefined();
    await boxes.dovecot.deliver(box, mailTo("After"));
    await channel.until("the mail", (c) => c.messages.length === 1);
    expect(smtp.accepted).toHaveLength(before + 1);
  });

  it("is handled like all mail when it is not this channel's, and refused as automatic", async () => {
    const before = smtp.accepted.length;
    const [box, other] = [boxes.fresh(), boxes.fresh()];
    const channel = recordingChannel();
    boxes.open(settings("50m"), {}, recordingChannel(), other);
    await sent(before + 1);
    const foreign = newest();
    boxes.open(settings("50m"), {}, channel, box);
    await sent(before + 2);
    await boxes.dovecot.deliver(box, foreign);
    await channel.until("the mail", (c) => c.messages.length === 1);
    expect(channel.messages[0]?.refusal?.code).toBeDefined();
  });

  it("reports that it cannot be sent", async () => {
    const channel = recordingChannel();
    const refused = {
      ...settings("500ms"),
      smtp: { host: "127.0.0.1", tls: "none" as const, port: 9, login: false },
    };
    boxes.open(refused, {}, channel);
    await expect.poll(() => warned.has(channel)).toMatch(/could not be sent/);
  });
});

const mailTo = (subject: string): string =>
  [
    "Return-Path: <ada@example.org>",
    "From: Ada <ada@example.org>",
    "To: support@example.com",
    `Subject: ${subject}`,
    `Message-ID: <${subject}-${Math.random()}@example.org>`,
    `Date: ${new Date().toUTCString().replace("GMT", "+0000")}`,
    "",
    "text",
    "",
  ].join("\r\n");
