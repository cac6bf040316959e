// The agent's settings on the platform, applied while the daemon runs; and the platform away when it starts.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../support/clock.ts";
import { type MailDaemon, startMailDaemon } from "../support/daemon/mail-daemon.ts";
import { type AgentRecord, echoed } from "../support/daemon/platform.ts";
import { type MailStore, sharedDovecot } from "../support/email/dovecot.ts";
import { describeReal, need } from "../support/machine/debian.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** Changes the e-mail skill as the platform shows it, and waits until the daemon has read it. */
async function change(daemon: MailDaemon, fields: object, agent: Partial<AgentRecord> = {}): Promise<void> {
  daemon.proxy.settings((record) => {
    Object.assign(record, agent);
    const skill = record.skills.find((one) => one.systemName === "EMAIL");
    if (skill) Object.assign(skill, fields);
  });
  const seen = daemon.log.filter((line) => line.message === "agent settings changed").length;
  const changes = () => daemon.log.filter((line) => line.message === "agent settings changed").length;
  await eventually(() => expect(changes()).toBe(seen + 1));
}

describeReal("the agent's settings", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["live", "skill", "agent", "noskill", "away"]);
  });
  afterAll(() => dovecot?.dispose());

  it.concurrent("apply to the next reply when they change", async ({ onTestFinished }) => {
    const skill = { senderName: "Ada", emailSignature: "Old words", defaultSubject: "Your question" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "live", skill });
    const first = await daemon.write({ subject: "" });
    const reply = await daemon.replyTo(first);
    expect(reply).toMatchObject({ subject: "Re: Your question", from: { name: "Ada" } });
    expect(reply.text).toContain("-- \nOld words");

    await change(daemon, {
      senderName: "Grace",
      emailSignature: { en: "New words" },
      defaultSubject: "Another",
      defaultEmailIntroduction: "Thank you for writing.",
    });
    const second = await daemon.write({ subject: "", from: "ben@customer.example" });
    const changed = await daemon.replyTo(second);
    expect(changed).toMatchObject({ subject: "Re: Another", from: { name: "Grace" } });
    expect(changed.text).toMatch(/^Thank you for writing\.\s+You asked: /);
    expect(changed.text).not.toContain("Old words");

    const third = await daemon.write({ from: "ben@customer.example", answers: changed });
    const again = await daemon.replyTo(third);
    expect(again.text, "the introduction opens a conversation").not.toContain("Thank you for writing.");
    expect(again.text.startsWith(echoed(third.text))).toBe(true);
    await daemon.settled([first, second, third]);
  });

  it.concurrent("with an inactive skill: mail is stored, nothing is asked, the channel says so", async ({
    onTestFinished,
  }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "skill" });
    await change(daemon, { status: "inactive" });
    expect(daemon.report()).toMatchObject({ state: "ready", not_asking: expect.stringContaining("inactive") });
    const mail = await daemon.write();
    await eventually(async () =>
      expect(await daemon.rows("SELECT state, attempts FROM turns")).toEqual([{ state: "waiting", attempts: 0 }]),
    );
    expect(daemon.questions()).toEqual([]);
    await change(daemon, { status: "active" });
    await daemon.settled([mail]);
    await daemon.reports({ not_asking: null });
  });

  it.concurrent("with an inactive agent, over a restart", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "agent" });
    await change(daemon, {}, { status: "inactive" });
    const mail = await daemon.write();
    await eventually(async () => expect(await daemon.rows("SELECT id FROM turns")).toHaveLength(1));
    await daemon.stop();
    await daemon.start();
    await daemon.reports({ state: "ready", not_asking: "the agent is inactive" });
    expect(daemon.questions()).toEqual([]);
    await change(daemon, {}, { status: "active" });
    await daemon.settled([mail]);
  });

  it.concurrent("without the skill at all", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "noskill" });
    await change(daemon, { systemName: "SMS" });
    await daemon.reports({ state: "ready", not_asking: "the agent has no email skill" });
    expect(daemon.log.filter((line) => line.level === "error")).toEqual([]);
  });

  it.concurrent("are in the store: the daemon starts while the platform is down", async ({ onTestFinished }) => {
    const daemon = await startMailDaemon(onTestFinished, {
      dovecot,
      user: "away",
      skill: { emailSignature: "Kept" },
    });
    await daemon.stop();
    await daemon.proxy.down();
    await daemon.start();
    await daemon.reports({ state: "ready", not_asking: null });
    const mail = await daemon.write();
    await eventually(async () =>
      expect(await daemon.rows("SELECT state, attempts FROM turns")).toMatchObject([
        { state: "waiting", attempts: expect.toSatisfy((n: number) => n >= 1) },
      ]),
    );
    await daemon.proxy.up();
    const reply = await daemon.replyTo(mail);
    expect(reply.text).toContain("-- \nKept");
    await daemon.settled([mail]);
  });
});
