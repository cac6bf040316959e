// Mail to agent and back: in the person's thread, in order, in one conversation of the platform.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../support/clock.ts";
import { startMailDaemon } from "../support/daemon/mail-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";
import { type MailStore, sharedDovecot } from "../support/email/dovecot.ts";
import type { Letter } from "../support/email/mails.ts";
import { describeReal, need } from "../support/machine/debian.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
describeReal("a person writes, the agent answers", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["new", "twenty", "burst", "create"]);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("answers a new mail in its thread, and says that it is a machine", async ({ onTestFinished }) => {
    const skill = { senderName: "Ada of Bridge", emailSignature: "Ada\nBridge Ltd" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "new", skill });
    const mail = await daemon.write({ subject: "My parcel", text: "Where is it?" });
    const reply = await daemon.replyTo(mail);
    expect(reply).toMatchObject({
      inReplyTo: mail.messageId,
      references: [mail.messageId],
      subject: "Re: My parcel",
      from: { name: "Ada of Bridge", address: daemon.address },
      to: [mail.from],
    });
    expect(reply.text).toContain(echoed("Where is it?"));
    expect(reply.text).toContain("-- \nAda\nBridge Ltd");
    expect(reply.header("auto-submitted")).toBe("auto-replied");
    expect(reply.header("x-auto-response-suppress")).toMatch(/OOF/);
    expect(reply.header("x-bridgehead-hops")).toBe("1");
    expect(daemon.smtp.accepted[0]?.from).toBe(daemon.address);
    await daemon.settled([mail]);
  });

  it.concurrent("answers twenty mails of one thread in order, in one conversation", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "twenty" });
    const letters: Letter[] = [];
    let answers: { messageId: string; references: readonly string[] } | undefined;
    for (let round = 1; round <= 20; round++) {
      const mail = await daemon.write({
        subject: "Re: Long talk",
        text: `Round ${round}?`,
        ...(answers ? { answers } : {}),
      });
      letters.push(mail);
      const reply = await daemon.replyTo(mail);
      expect(reply.text).toContain(echoed(`Round ${round}?`));
      expect(reply.references.at(-1)).toBe(mail.messageId);
      answers = reply;
    }
    await daemon.settled(letters);
    const questions = daemon.questions();
    expect(new Set(questions.map((one) => one.conversation)).size).toBe(1);
    expect(questions.map((one) => one.text.split("\n").at(-1))).toEqual(letters.map((one) => one.text));
    expect(daemon.proxy.calls.filter((call) => call.path.endsWith("/start"))).toHaveLength(1);
  });

  it.concurrent("keeps the order of what a person writes while the first question is still being asked", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "burst", platform: { timeout: "10m" } });
    daemon.model.hold();
    const first = await daemon.write({ subject: "Slow", text: "First?" });
    await eventually(() => expect(daemon.model.asked()).toBe(1));
    const letters = [first];
    for (let index = 2; index <= 6; index++) {
      letters.push(await daemon.write({ subject: "Re: Slow", text: `Number ${index}?`, answers: first }));
      await eventually(async () => expect(await daemon.rows("SELECT id FROM turns")).toHaveLength(index), 5000);
    }
    const other = await daemon.write({ from: "ben@customer.example", text: "Am I waiting too?" });
    await eventually(() => expect(daemon.model.asked()).toBe(2));
    expect(daemon.questions().map((one) => one.text.split("\n").at(-1))).toEqual(["First?", "Am I waiting too?"]);
    daemon.model.release();
    await daemon.settled([...letters, other]);
    const sent = (await daemon.replies()).map((reply) => reply.inReplyTo);
    expect(sent.filter((id) => id !== other.messageId)).toEqual(letters.map((one) => one.messageId));
  });

  it.concurrent("opens by user and conversation where the start call is not wanted", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "create",
      channel: { opening: "create" },
    });
    const mail = await daemon.write();
    await daemon.replyTo(mail);
    const again = await daemon.write({ answers: mail });
    await daemon.settled([mail, again]);
    const posts = daemon.proxy.calls
      .filter((call) => call.method === "POST")
      .map((call) => call.path.split("/").at(-1));
    expect(posts).toEqual(["users", "conversations", "messages", "messages"]);
    expect(new Set(daemon.questions().map((one) => one.conversation)).size).toBe(1);
  });
});
