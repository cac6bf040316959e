// A responder's answer reaches the customer, or the responder is notified that it did not; no other text reaches either
// of them.

import { expect, it } from "vitest";
import { detailsOf } from "../../src/escalation/notify/rows.ts";
import { longText, quotesNotification } from "../../src/escalation/notify/text.ts";
import { newId } from "../../src/ops/clock.ts";
import { insertReply } from "../../src/store/tables/drafts.ts";
import { escalationByNumber } from "../../src/store/tables/escalations.ts";
import { eventually, movableClock } from "../support/clock.ts";
import { colleague, customer, type Desk, dora, emil, openDesk, topic } from "../support/daemon/escalation-daemon.ts";
import { anna } from "../support/daemon/phone-daemon.ts";

const outbound = (desk: Desk, kind: string) =>
  desk.rows<{ state: string }>(
    "SELECT d.state FROM drafts d JOIN replies r ON r.id = d.reply WHERE r.kind = $1 ORDER BY r.id",
    kind,
  );

it.concurrent("the notice itself, sent back without a word or with it below, goes to nobody", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished, { topics: [topic("refund")] });
  await desk.write({ subject: "My lamp", text: "I want a refund" });
  const notice = await desk.mailTo(dora.email);
  const quoted = notice.text.replace(/^/gm, "> ");
  for (const [at, text] of [quoted, `Fwd, see below\n\n${notice.text}`].entries()) {
    await desk.write({ from: dora.email, subject: `Re: ${notice.subject}`, answers: notice, text });
    expect((await desk.mailTo(dora.email, at + 1)).text).toContain("Your answer carries our own message");
  }
  await desk.quiet();
  expect(desk.mailsTo(customer)).toHaveLength(1);
  expect(await desk.transcript(customer)).toHaveLength(2);
  expect((await desk.escalations()).map(({ state }) => state)).toEqual(["open"]);
});

it.concurrent("who answered learns that the customer was not reached", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  await desk.textTo(anna);
  await desk.textTo(dora.sms);
  await desk.quiet();
  desk.api.fault({ code: 21211 }, { to: anna, times: 1 });
  await desk.text("It is on its way.", { from: dora.sms });
  expect(await desk.textTo(dora.sms, 1)).toContain("the answer did not reach the customer (failed)");
  await desk.quiet();
  expect(await outbound(desk, "human")).toEqual([{ state: "failed" }]);
});

it.concurrent("who answered learns that the customer wants no texts any more", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  await desk.textTo(anna);
  await desk.textTo(dora.sms);
  await desk.quiet();
  await desk.text("STOP");
  await eventually(async () =>
    expect(await desk.rows("SELECT address FROM suppressions WHERE active = 1")).toEqual([{ address: anna }]),
  );
  await desk.text("It is on its way.", { from: dora.sms });
  expect(await desk.textTo(dora.sms, 1)).toContain("the answer did not reach the customer (dropped): suppressed");
});

it.concurrent("a slip of a command and a yes are told back, and go to nobody", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  await desk.textTo(anna);
  await desk.textTo(dora.sms);
  await desk.quiet();
  await desk.text("#nots She is a fraud", { from: dora.sms });
  expect(await desk.textTo(dora.sms, 1)).toContain("is no command");
  await desk.text("Yes", { from: dora.sms });
  expect(await desk.textTo(dora.sms, 2)).toContain('"Yes" was not sent to the customer');
  await desk.escalated("acknowledged");
  await desk.text("10.50 EUR are on their way", { from: dora.sms });
  expect(await desk.textTo(anna, 1)).toBe("10.50 EUR are on their way");
  expect(desk.textsTo(anna)).toEqual([colleague, "10.50 EUR are on their way"]);
});

it.concurrent("a word for us goes to no customer, and whoever may have meant it for one learns that", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  await desk.textTo(anna);
  const notice = await desk.textTo(dora.sms);
  await desk.quiet();
  await desk.text("close", { from: dora.sms });
  expect(await desk.textTo(dora.sms, 1)).toContain('"close" is no command: those are #resume,');
  await desk.text(`Disliked “${notice}”`, { from: dora.sms });
  expect(await desk.textTo(dora.sms, 2)).toContain("is no command");
  await desk.quiet();
  expect((await desk.escalations()).map(({ state }) => state)).toEqual(["open"]);
  await desk.text(`Liked “${notice}”`, { from: dora.sms });
  expect(await desk.textTo(dora.sms, 3)).toContain("It is yours.");
  await desk.text("May I keep the box?");
  expect(await desk.textTo(dora.sms, 4)).toContain("May I keep the box?");
  await desk.text("Ok.", { from: dora.sms });
  expect(await desk.textTo(dora.sms, 5)).toBe('1: It is yours. "Ok." was not sent to the customer.');
  await desk.text("ok, you may", { from: dora.sms });
  expect(await desk.textTo(anna, 1)).toBe("ok, you may");
  await desk.quiet();
  expect(desk.textsTo(anna)).toHaveLength(2);
});

it.concurrent("nobody's name and card reach the customer, whatever the mail program", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.write({ subject: "My lamp", text: "I want a refund" });
  const notice = await desk.mailTo(dora.email);
  const card = `Best regards,\nDora Dahl\nHead of Care\n\nFirm GmbH\nT +49 30 123456 | ${dora.email}`;
  const quoted = `From: The Team\nSent: Monday\nTo: Dora Dahl\nSubject: ${notice.subject}\n\n${notice.text}`;
  const answer = (text: string) =>
    desk.write({ from: dora.email, subject: `Re: ${notice.subject}`, answers: notice, text });
  await answer(`-- \n${card}\n\n${quoted}`);
  expect((await desk.mailTo(dora.email, 1)).text).toContain("nothing but a signature in your answer");
  await answer(`Ok\n\n${card}\n\n${quoted}`);
  await desk.escalated("acknowledged");
  await answer(`We pay you today.\n\n${card}\n\n${quoted}`);
  const { text } = await desk.mailTo(customer, 1);
  expect(text).toMatch(/^We pay you today\.\s+-- \s+The Team/);
  expect(text).not.toMatch(/Dora|regards|123456/);
  await answer(`#close\n\n${card}\n\n${quoted}`);
  await desk.escalated("closed");
  await desk.quiet();
  expect(desk.mailsTo(customer)).toHaveLength(2);
  expect(await desk.transcript(customer)).toEqual([
    expect.stringContaining("I want a refund"),
    expect.stringContaining(colleague),
    expect.stringMatching(/We pay you today\.$/),
  ]);
});

it.concurrent("says that more was said than it tells", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.quiet();
  const told: string[] = [];
  const rolledBack = desk.app().db.tx(async (q) => {
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
    // Beside what she and the agent have said.
    await add(198);
    told.push(await text());
    await add(1);
    told.push(await text());
    throw new Error("not for real");
  });
  await expect(rolledBack).rejects.toThrow("not for real");
  const [whole, cut] = told.slice(-2);
  expect(whole).toContain("\nWhat was said:\n");
  expect(whole).toContain("A refund, please");
  expect(cut).toContain(
    "\nWhat was said, the newest 200 of it (the rest: bridgehead escalation show 1, or the platform):\n",
  );
  expect(cut).not.toContain("A refund, please");
  const heading = (text = "") => /^What was said.*$/m.exec(text)?.[0] ?? "";
  expect([heading(whole), heading(cut)].map(quotesNotification)).toEqual([true, true]);
});

it.concurrent("an answer that ends it calls nobody again, whatever it was about", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("Hello");
  await desk.textTo(anna);
  await desk.quiet();
  await desk.setMode(anna, "manual");
  await desk.text("Are you there?");
  await desk.textTo(dora.sms);
  await desk.quiet();
  expect((await desk.escalations()).map(({ cause }) => cause)).toEqual(["silent"]);
  await desk.text("Yes, I am.\n#close", { from: dora.sms });
  await desk.textTo(anna, 1);
  await desk.escalated("closed");
  await desk.quiet();
  await desk.look(anna);
  await desk.quiet();
  await desk.escalated("closed");
  expect(desk.textsTo(emil.sms)).toHaveLength(2);
});

it.concurrent("a conversation that is manual from its first word is looked at", async ({ onTestFinished }) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock });
  await desk.text("Hello");
  await desk.textTo(anna);
  await desk.quiet();
  await desk.setMode(anna, "manual");
  // Whatever was known of it was forgotten with the day.
  await desk.app().scheduler.commit((q) => q.run("DELETE FROM polls"));
  await desk.text("Are you there?");
  await desk.escalated("open");
  await desk.quiet();
  expect(await desk.rows("SELECT mode FROM polls")).toEqual([{ mode: "manual" }]);
  await desk.sayManually(anna, "I am.");
  await desk.look(anna);
  expect(await desk.textTo(anna, 1)).toBe("I am.");
});

it.concurrent("what blocks the conversation blocks no person's answer", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished, { sms: { on_permanent_failure: "block" } });
  await desk.text("Hello");
  await desk.textTo(anna);
  await desk.quiet();
  desk.api.fault({ code: 21211 }, { to: anna, times: 1 });
  await desk.text("Where is my lamp?");
  await desk.textTo(dora.sms);
  await desk.text("On its way.", { from: dora.sms });
  expect(await desk.textTo(anna, 1)).toBe("On its way.");
});

it.concurrent("an answer of the agent's is not lost because the conversation went back to it", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const smsSkill = { responseDelaySeconds: 3600 };
  const desk = await openDesk(onTestFinished, { clock, smsSkill, sms: { on_new_message: "drop" } });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.quiet();
  await desk.text("#resume", { from: dora.sms });
  await desk.escalated("closed");
  await desk.quiet();
  clock.forward(3_600_000);
  expect(await desk.textTo(anna)).toBe(colleague);
});
