// An agent that escalates: the customer is informed once, responders are notified, and one of them acknowledges.

import { expect, it } from "vitest";
import { eventually } from "../../support/clock.ts";
import {
  chief,
  colleague,
  customer,
  dora,
  emil,
  startEscalationDaemon,
  topic,
} from "../../support/daemon/escalation-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";

const told = [dora.email, dora.sms, emil.email, emil.sms].toSorted();
const whoWasTold = `SELECT address FROM notification_targets JOIN notifications ON notifications.target = notification_targets.id
  WHERE kind IN ('opened', 'reminder') ORDER BY address`;

for (const toManual of [true, false]) {
  const topics = [topic("refund", { autoChangeConversationMode: toManual })];
  const sources = toManual ? ["mode", "response"] : ["response"];
  const after = toManual ? "takes the conversation from the agent" : "leaves the conversation to the agent";

  it.concurrent(`a mail escalates, and ${after}`, async ({ onTestFinished }) => {
    const daemon = await startEscalationDaemon(onTestFinished, { topics });
    const mail = await daemon.write({ subject: "My lamp", text: "I want a refund" });
    const answer = await daemon.mailTo(customer);
    expect(answer).toMatchObject({ inReplyTo: mail.messageId, subject: "Re: My lamp" });
    expect(answer.text).toContain(colleague);
    const texts = await Promise.all([daemon.textTo(dora.sms), daemon.textTo(emil.sms)]);
    const notices = await Promise.all([daemon.mailTo(dora.email), daemon.mailTo(emil.email)]);
    await daemon.quiet();
    const [row, ...more] = await daemon.escalated("open");
    expect(more).toEqual([]);
    expect(row).toMatchObject({ cause: "topic", topic: "refund" });
    for (const text of texts) {
      expect(text).toContain(`Escalation ${row?.number}: refund`);
      expect(text).toContain("I want a refund");
      expect(text).toMatch(/https:\/\/bridge\.example\.com\/escalations\/\w{26}$/);
    }
    for (const notice of notices) {
      expect(notice.subject).toContain(`[Escalation ${row?.number}] refund`);
      expect(notice.inReplyTo, "never in the customer's thread").toBe("");
      expect(notice.header("auto-submitted")).toBe("auto-generated");
      expect(notice.text).toMatch(/^[>|] I want a refund$/m);
      expect(notice.text).toContain(colleague);
      expect(notice.text).not.toContain("The Team");
      expect(notice.text).toContain(`Customer: Anna Example, ${customer}\n`);
      const minute = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d UTC`;
      expect(notice.text).toMatch(
        new RegExp(`^Known since: ${minute} \\(1 conversation, 0 escalations before this\\)$`, "m"),
      );
      expect(notice.text).toContain(`On the platform: ${await daemon.platformId(customer)}\n`);
    }
    expect((await daemon.rows(whoWasTold)).map(({ address }) => String(address))).toEqual(told);
    expect(daemon.mailsTo(customer)).toHaveLength(1);
    expect(daemon.mailsTo(chief.email)).toEqual([]);
    const noticed = await daemon.rows("SELECT source FROM triggers ORDER BY source");
    expect(noticed.map(({ source }) => source)).toEqual(sources);
  });

  it.concurrent(`a text escalates, and ${after}`, async ({ onTestFinished }) => {
    const daemon = await startEscalationDaemon(onTestFinished, { topics });
    await daemon.text("A refund, please");
    expect(await daemon.textTo(anna)).toBe(colleague);
    await Promise.all([daemon.mailTo(dora.email), daemon.mailTo(emil.email), daemon.textTo(dora.sms)]);
    await daemon.quiet();
    await daemon.escalated("open");
    expect((await daemon.rows(whoWasTold)).map(({ address }) => String(address))).toEqual(told);
    await daemon.text("Is anybody there?");
    if (toManual) await eventually(async () => expect(await daemon.transcript(anna)).toHaveLength(3));
    else await daemon.textTo(anna, 1);
    await daemon.quiet();
    expect(daemon.textsTo(anna)).toEqual(toManual ? [colleague] : [colleague, echoed("Is anybody there?")]);
    await daemon.escalated("open");
  });

  it.concurrent(`a call escalates, and ${after}`, async ({ onTestFinished }) => {
    const daemon = await startEscalationDaemon(onTestFinished, { topics, voice: { collect: "50ms" } });
    const call = await daemon.dial();
    call.say("I want a refund");
    await call.hears(colleague);
    await Promise.all([daemon.mailTo(dora.email), daemon.textTo(emil.sms)]);
    await daemon.escalated("open");
    expect(await daemon.textTo(dora.sms)).toContain("I want a refund");
    await call.hangUp();
    await daemon.quiet();
    await daemon.escalated("open");
    expect((await daemon.rows(whoWasTold)).map(({ address }) => String(address))).toEqual(told);
    const said = call.spoken.filter(({ text }) => text.includes("colleague"));
    expect(said).toHaveLength(1);
  });
}

it.concurrent("notifies the recipients of the agent's skill and the responders of the policy, each once", async ({
  onTestFinished,
}) => {
  const recipients = [
    { channel: "sms", value: "+12025550177" },
    { channel: "email", value: dora.email },
    { channel: "email", value: "lead@people.example" },
  ];
  const daemon = await startEscalationDaemon(onTestFinished, { topics: [topic("refund", { recipients })] });
  await daemon.text("A refund, please");
  await daemon.textTo("+12025550177");
  await daemon.mailTo("lead@people.example");
  await daemon.quiet();
  expect((await daemon.rows(whoWasTold)).map(({ address }) => String(address))).toEqual(
    [...told, "+12025550177", "lead@people.example"].toSorted(),
  );
  await eventually(() => expect(daemon.mailsTo(dora.email)).toHaveLength(1));
});
