// A responder's answer reaches the customer, or the responder is notified that it did not; no other text reaches either
// of them.

import { expect, it } from "vitest";
import { detailsOf } from "../../../src/escalation/notify/rows.ts";
import { longText, quotesNotification } from "../../../src/escalation/notify/text.ts";
import { newId } from "../../../src/ops/clock.ts";
import { insertReply } from "../../../src/store/tables/drafts.ts";
import { escalationByNumber } from "../../../src/store/tables/escalations.ts";
import { eventually, movableClock } from "../../support/clock.ts";
import {
  colleague,
  customer,
  dora,
  type EscalationDaemon,
  emil,
  startEscalationDaemon,
  topic,
} from "../../support/daemon/escalation-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";

const outbound = (daemon: EscalationDaemon, kind: string) =>
  daemon.rows<{ state: string }>(
    "SELECT d.state FROM drafts d JOIN replies r ON r.id = d.reply WHERE r.kind = $1 ORDER BY r.id",
    kind,
  );

it.concurrent("the notification itself, sent back without or with text below it, is not relayed", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { topics: [topic("refund")] });
  await daemon.write({ subject: "My lamp", text: "I want a refund" });
  const notice = await daemon.mailTo(dora.email);
  const quoted = notice.text.replace(/^/gm, "> ");
  for (const [at, text] of [quoted, `Fwd, see below\n\n${notice.text}`].entries()) {
    await daemon.write({ from: dora.email, subject: `Re: ${notice.subject}`, answers: notice, text });
    expect((await daemon.mailTo(dora.email, at + 1)).text).toContain("Your answer carries our own message");
  }
  await daemon.quiet();
  expect(daemon.mailsTo(customer)).toHaveLength(1);
  expect(await daemon.transcript(customer)).toHaveLength(2);
  expect((await daemon.escalations()).map(({ state }) => state)).toEqual(["open"]);
});

it.concurrent("reports to the responder that the customer was not reached", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  await daemon.textTo(anna);
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  daemon.api.fault({ code: 21211 }, { to: anna, times: 1 });
  await daemon.text("It is on its way.", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 1)).toContain("the answer did not reach the customer (failed)");
  await daemon.quiet();
  expect(await outbound(daemon, "human")).toEqual([{ state: "failed" }]);
});

it.concurrent("reports to the responder that the customer has opted out", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  await daemon.textTo(anna);
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.text("STOP");
  await eventually(async () =>
    expect(await daemon.rows("SELECT address FROM suppressions WHERE active = 1")).toEqual([{ address: anna }]),
  );
  await daemon.text("It is on its way.", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 1)).toContain("the answer did not reach the customer (dropped): suppressed");
});

it.concurrent("a mistyped command and a yes are reported to the responder, and not relayed", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  await daemon.textTo(anna);
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.text("#nots She is a fraud", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 1)).toContain("is no command");
  await daemon.text("Yes", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 2)).toContain('"Yes" was not sent to the customer');
  await daemon.escalated("acknowledged");
  await daemon.text("10.50 EUR are on their way", { from: dora.sms });
  expect(await daemon.textTo(anna, 1)).toBe("10.50 EUR are on their way");
  expect(daemon.textsTo(anna)).toEqual([colleague, "10.50 EUR are on their way"]);
});

it.concurrent("a command is not relayed to a customer, and the responder is informed if it may have been meant for one", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  await daemon.textTo(anna);
  const notice = await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.text("close", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 1)).toContain('"close" is no command: those are #resume,');
  await daemon.text(`Disliked “${notice}”`, { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 2)).toContain("is no command");
  await daemon.quiet();
  expect((await daemon.escalations()).map(({ state }) => state)).toEqual(["open"]);
  await daemon.text(`Liked “${notice}”`, { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 3)).toContain("It is yours.");
  await daemon.text("May I keep the box?");
  expect(await daemon.textTo(dora.sms, 4)).toContain("May I keep the box?");
  await daemon.text("Ok.", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 5)).toBe('1: It is yours. "Ok." was not sent to the customer.');
  await daemon.text("ok, you may", { from: dora.sms });
  expect(await daemon.textTo(anna, 1)).toBe("ok, you may");
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toHaveLength(2);
});

it.concurrent("no signature or card reaches the customer, from any mail program", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.write({ subject: "My lamp", text: "I want a refund" });
  const notice = await daemon.mailTo(dora.email);
  const card = `Best regards,\nDora Dahl\nHead of Care\n\nFirm GmbH\nT +49 30 123456 | ${dora.email}`;
  const quoted = `From: The Team\nSent: Monday\nTo: Dora Dahl\nSubject: ${notice.subject}\n\n${notice.text}`;
  const answer = (text: string) =>
    daemon.write({ from: dora.email, subject: `Re: ${notice.subject}`, answers: notice, text });
  await answer(`-- \n${card}\n\n${quoted}`);
  expect((await daemon.mailTo(dora.email, 1)).text).toContain("nothing but a signature in your answer");
  await answer(`Ok\n\n${card}\n\n${quoted}`);
  await daemon.escalated("acknowledged");
  await answer(`We pay you today.\n\n${card}\n\n${quoted}`);
  const { text } = await daemon.mailTo(customer, 1);
  expect(text).toMatch(/^We pay you today\.\s+-- \s+The Team/);
  expect(text).not.toMatch(/Dora|regards|123456/);
  await answer(`#close\n\n${card}\n\n${quoted}`);
  await daemon.escalated("closed");
  await daemon.quiet();
  expect(daemon.mailsTo(customer)).toHaveLength(2);
  expect(await daemon.transcript(customer)).toEqual([
    expect.stringContaining("I want a refund"),
    expect.stringContaining(colleague),
    expect.stringMatching(/We pay you today\.$/),
  ]);
});

it.concurrent("reports omitted messages", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  const told: string[] = [];
  const rolledBack = daemon.app().db.tx(async (q) => {
    const row = await escalationByNumber(q, 1);
    if (!row?.conversation) throw new Error("there is no escalation");
    const reply = {
      conversation: row.conversation,
      channel: "sms",
      turn: null,
      kind: "human",
      address: "{}",
    } as const;
    const add = (count: number) =>
      Promise.all(
        Array.from({ length: count }, () =>
          insertReply(q, { ...reply, id: newId(Date.now()), text: "More", platformId: null }),
        ),
      );
    const text = async () => {
      const details = (await detailsOf(q, [row])).get(row.id);
      return details ? longText(details, null, false) : "";
    };
    // In addition to the messages from her and the agent.
    await add(198);
    told.push(await text());
    await add(1);
    told.push(await text());
    await insertReply(q, {
      ...reply,
      kind: "answer",
      id: newId(Date.now()),
      text: "<p>One</p><p>Two</p>",
      platformId: null,
    });
    told.push(await text());
    throw new Error("not for real");
  });
  await expect(rolledBack).rejects.toThrow("not for real");
  const [whole, cut, html] = told.slice(-3);
  expect(html, "an answer that is HTML").toContain("\n> One\n> \n> Two");
  expect(whole).toContain("\nWhat was said:\n");
  expect(whole).toContain("A refund, please");
  expect(cut).toContain(
    "\nWhat was said, the newest 200 of it (the rest: the command escalation show 1, or the platform):\n",
  );
  expect(cut).not.toContain("A refund, please");
  const heading = (text = "") => /^What was said.*$/m.exec(text)?.[0] ?? "";
  expect([heading(whole), heading(cut)].map(quotesNotification)).toEqual([true, true]);
});

it.concurrent("a reply that ends it causes no further notification, for any trigger", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("Hello");
  await daemon.textTo(anna);
  await daemon.quiet();
  await daemon.setMode(anna, "manual");
  await daemon.text("Are you there?");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  expect((await daemon.escalations()).map(({ cause }) => cause)).toEqual(["silent"]);
  await daemon.text("Yes, I am.\n#close", { from: dora.sms });
  await daemon.textTo(anna, 1);
  await daemon.escalated("closed");
  await daemon.quiet();
  await daemon.look(anna);
  await daemon.quiet();
  await daemon.escalated("closed");
  expect(daemon.textsTo(emil.sms)).toHaveLength(2);
});

it.concurrent("a conversation that is manual from its first word is looked at", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock });
  await daemon.text("Hello");
  await daemon.textTo(anna);
  await daemon.quiet();
  await daemon.setMode(anna, "manual");
  // The poll's state was deleted with the day's rows.
  await daemon.app().scheduler.commit((q) => q.run("DELETE FROM polls"));
  await daemon.text("Are you there?");
  await daemon.escalated("open");
  await daemon.quiet();
  expect(await daemon.rows("SELECT mode FROM polls")).toEqual([{ mode: "manual" }]);
  await daemon.sayManually(anna, "I am.");
  await daemon.look(anna);
  expect(await daemon.textTo(anna, 1)).toBe("I am.");
});

it.concurrent("what blocks the conversation blocks no person's answer", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished, { sms: { on_permanent_failure: "block" } });
  await daemon.text("Hello");
  await daemon.textTo(anna);
  await daemon.quiet();
  daemon.api.fault({ code: 21211 }, { to: anna, times: 1 });
  await daemon.text("Where is my lamp?");
  await daemon.textTo(dora.sms);
  await daemon.text("On its way.", { from: dora.sms });
  expect(await daemon.textTo(anna, 1)).toBe("On its way.");
});

it.concurrent("an answer of the agent's is not lost because the conversation went back to it", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const smsSkill = { responseDelaySeconds: 3600 };
  const daemon = await startEscalationDaemon(onTestFinished, { clock, smsSkill, sms: { on_new_message: "drop" } });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.text("#resume", { from: dora.sms });
  await daemon.escalated("closed");
  await daemon.quiet();
  clock.forward(3_600_000);
  expect(await daemon.textTo(anna)).toBe(colleague);
});

it.concurrent.for([
  ["by mail", "A refund, please"],
  ["on the platform", "Hello"],
] as const)(
  "what the provider has deferred of the agent is not sent after a person has answered %s",
  async ([where, words], { onTestFinished }) => {
    const clock = movableClock();
    const daemon = await startEscalationDaemon(onTestFinished, { clock });
    daemon.api.fault({ code: 20429, retryAfter: 60 });
    await daemon.text(words);
    await eventually(async () => expect(await outbound(daemon, "answer")).toEqual([{ state: "queued" }]));
    await eventually(() => expect(daemon.api.creates.length).toBeGreaterThan(0));
    await eventually(() => expect(daemon.app().scheduler.running()).toBe(0));
    daemon.api.heal();
    if (where === "by mail") {
      const notice = await daemon.mailTo(dora.email);
      await daemon.write({ from: dora.email, subject: `Re: ${notice.subject}`, answers: notice, text: "I am here." });
    } else {
      await daemon.setMode(anna, "manual");
      await daemon.sayManually(anna, "I am here.");
      await daemon.look(anna);
    }
    await eventually(async () => expect(await outbound(daemon, "answer")).toEqual([{ state: "dropped" }]));
    clock.forward(65_000);
    expect(await daemon.textTo(anna)).toBe("I am here.");
    await daemon.quiet();
    expect(daemon.textsTo(anna)).toHaveLength(1);
  },
);
