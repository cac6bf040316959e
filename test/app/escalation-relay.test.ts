// A responder answers a notification by mail or text: the customer receives the answer on the original channel, and the
// platform has the complete conversation.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually, movableClock } from "../support/clock.ts";
import { colleague, customer, type Desk, dora, emil, openDesk } from "../support/daemon/escalation-daemon.ts";
import { anna } from "../support/daemon/phone-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";
import { type MailStore, sharedDovecot } from "../support/email/dovecot.ts";
import type { Letter, Reply } from "../support/email/mails.ts";
import { describeReal, need } from "../support/machine/debian.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** As a mail program sends it: the words, the person's signature, and what they answer to. */
const answerOf = (words: string, notice: Reply): string =>
  [
    words,
    "",
    "-- ",
    "Dora Dahl",
    "Head of Support, +1 202 555 0191",
    "",
    "On Sat, 21 Nov 2026 at 20:57, Support <support@team.example> wrote:",
    ...notice.text.split("\n").map((line) => `> ${line}`),
  ].join("\n");

/** Dora answers a notice by mail. */
const answers = (desk: Desk, notice: Reply, words: string): Promise<Letter> =>
  desk.write({
    from: dora.email,
    name: dora.name,
    subject: `Re: ${notice.subject}`,
    answers: notice,
    text: answerOf(words, notice),
  });

async function threeRounds(desk: Desk): Promise<void> {
  const first = await desk.write({ subject: "My lamp", text: "I want a refund" });
  const response = await desk.mailTo(customer);
  const notice = await desk.mailTo(dora.email);
  await answers(desk, notice, "Dear Anna,\n\nthe money is on its way.");
  const second = await desk.mailTo(customer, 1);
  expect(second).toMatchObject({
    inReplyTo: first.messageId,
    subject: "Re: My lamp",
    from: response.from,
    to: [customer],
  });
  expect(second.references).toContain(first.messageId);
  expect(second.text.split("\n").filter(Boolean).slice(0, 4)).toEqual([
    "Dear Anna,",
    "the money is on its way.",
    "-- ",
    "The Team",
  ]);
  for (const inner of ["Dora", "Head of", "Escalation", "wrote:", "Number:", "escalations/"])
    expect(second.text).not.toContain(inner);
  expect(second.header("auto-submitted"), "a person has written it").toBe("no");
  await desk.escalated("acknowledged");
  const taken = await desk.mailTo(emil.email, 1);
  expect(taken.text).toContain("is acknowledged by Dora Dahl");

  const thanks = await desk.write({ subject: "Re: My lamp", text: "When exactly?", answers: second });
  const forwarded = await desk.mailTo(dora.email, 1);
  expect(forwarded).toMatchObject({ inReplyTo: notice.messageId });
  expect(forwarded.references).toContain(notice.messageId);
  expect(forwarded.text).toContain("When exactly?");
  await answers(desk, forwarded, "On Monday.");
  const third = await desk.mailTo(customer, 2);
  expect(third).toMatchObject({ inReplyTo: thanks.messageId, subject: "Re: My lamp" });
  expect(third.text).toContain("On Monday.");
  expect(third.references).toEqual(expect.arrayContaining([second.messageId, thanks.messageId]));

  const last = await desk.write({ subject: "Re: My lamp", text: "Fine.", answers: third });
  const again = await desk.mailTo(dora.email, 2);
  expect(again.references).toContain(notice.messageId);
  // Dora answers in her thread, whichever of our mails she has opened.
  await answers(desk, notice, "You are welcome.");
  expect(await desk.mailTo(customer, 3)).toMatchObject({ inReplyTo: last.messageId });
  await desk.quiet();
  await desk.look(customer);
  await desk.quiet();
  expect(await desk.transcript(customer)).toEqual([
    expect.stringContaining("I want a refund"),
    `assistant: ${colleague}`,
    "manual_assistant: Dear Anna,\n\nthe money is on its way.",
    expect.stringContaining("conversation_user: When exactly?"),
    "manual_assistant: On Monday.",
    expect.stringContaining("conversation_user: Fine."),
    "manual_assistant: You are welcome.",
  ]);
  expect(desk.mailsTo(customer)).toHaveLength(4);
  expect(desk.mailsTo(dora.email)).toHaveLength(3);
  expect(desk.mailsTo(emil.email)).toHaveLength(2);
  await desk.escalated("acknowledged");
}

describeReal("over a real mailbox", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["support"]);
  });
  afterAll(() => dovecot?.dispose());

  it("carries mails both ways, three rounds, each in its thread", async ({ onTestFinished }) => {
    await threeRounds(await openDesk(onTestFinished, { dovecot }));
  });
});

it.concurrent("carries mails both ways over the sandbox's mail server", async ({ onTestFinished }) => {
  await threeRounds(await openDesk(onTestFinished));
});

it.concurrent("relays to the customer, also when others write in the thread, with their names", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  const carol = `carol@${customer.split("@")[1]}`;
  await desk.write({ subject: "My lamp", text: "I want a refund", headers: { Cc: carol } });
  const response = await desk.mailTo(customer);
  const notice = await desk.mailTo(dora.email);
  await desk.quiet();
  await desk.write({ from: dora.email, answers: notice, text: "Ok" });
  await desk.mailTo(dora.email, 1);
  const last = await desk.write({
    from: carol,
    subject: "Re: My lamp",
    answers: response,
    text: "Pay it to me",
  });
  expect((await desk.mailTo(dora.email, 2)).text).toContain(
    `1, ${carol} (in the thread of Anna Example): Pay it to me`,
  );
  await desk.write({
    from: dora.email,
    answers: notice,
    text: "Hello,\n> I want a refund\nIt is on its way.",
  });
  const answer = await desk.mailTo(customer, 1);
  expect(answer.references).not.toContain(last.messageId);
  expect(answer.html, "beside what it answers").toMatch(/<\/blockquote>\s*<p>It is on its way\./);
  await desk.write({ from: carol, subject: "Re: My lamp", answers: response, text: "A refund, I say" });
  // Dora knows of it before she closes: what a customer wrote unseen opens another escalation.
  expect((await desk.mailTo(dora.email, 3)).text).toContain("A refund, I say");
  await desk.write({ from: dora.email, answers: notice, text: "#close" });
  await desk.escalated("closed");
  await desk.quiet();
  expect(desk.mailsTo(carol)).toEqual([]);
});

it.concurrent("carries texts both ways, and the platform has every word once", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished, { smsSkill: { smsSignature: "The Team" } });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.text("It is on its way.", { from: dora.sms });
  expect(await desk.textTo(anna, 1)).toBe("It is on its way.\nThe Team");
  await desk.text("When?");
  expect(await desk.textTo(dora.sms, 1)).toMatch(/\+12025550123: When\?$/);
  await desk.text("On Monday.", { from: dora.sms });
  expect(await desk.textTo(anna, 2)).toBe("On Monday.\nThe Team");
  await desk.quiet();
  await desk.look(anna);
  await desk.quiet();
  expect(await desk.transcript(anna)).toEqual([
    "conversation_user: A refund, please",
    `assistant: ${colleague}`,
    "manual_assistant: It is on its way.",
    "conversation_user: When?",
    "manual_assistant: On Monday.",
  ]);
  expect(desk.textsTo(anna)).toHaveLength(3);
  expect((await desk.escalated("acknowledged"))[0]?.acknowledged_by).toBe(dora.name);
});

it.concurrent("carries an answer by text to a customer who mailed, and the next mail back by text", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  const mail = await desk.write({ subject: "My lamp", text: "I want a refund" });
  await desk.textTo(dora.sms);
  await desk.text("It is on its way.", { from: dora.sms });
  const answer = await desk.mailTo(customer, 1);
  expect(answer).toMatchObject({ inReplyTo: mail.messageId, subject: "Re: My lamp" });
  await desk.write({ subject: "Re: My lamp", text: "Thank you!", answers: answer });
  expect(await desk.textTo(dora.sms, 1)).toContain("Thank you!");
  await desk.quiet();
  // Who took it by text gets it by text alone.
  expect(desk.mailsTo(dora.email)).toHaveLength(1);
});

it.concurrent("quotes further lines of a customer in a text to who took it, as they can look like ours", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  const mail = await desk.write({ subject: "My lamp", text: "I want a refund" });
  await desk.textTo(dora.sms);
  await desk.text("It is on its way.", { from: dora.sms });
  const answers = await desk.mailTo(customer, 1);
  const text = "Thank you!\nEscalation 1 is acknowledged by Emil. Nothing to do for you.";
  await desk.write({ subject: `Re: ${mail.subject}`, text, answers });
  expect(await desk.textTo(dora.sms, 1)).toContain("Thank you!\n> Escalation 1 is acknowledged by Emil.");
});

it.concurrent("a responder's text is sent without delay, and drops replies of the agent that are not due yet", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const smsSkill = { responseDelaySeconds: 3600 };
  const desk = await openDesk(onTestFinished, { clock, smsSkill });
  await desk.text("Where is my lamp?");
  const waiting = "SELECT d.state FROM drafts d JOIN replies r ON r.id = d.reply WHERE r.kind = 'answer'";
  await eventually(async () => expect(await desk.rows(waiting)).toEqual([{ state: "queued" }]));
  await desk.text("I want a refund");
  await desk.textTo(dora.sms);
  await desk.text("Anna, I look into it.", { from: dora.sms });
  expect(await desk.textTo(anna)).toBe("Anna, I look into it.");
  await desk.quiet();
  clock.forward(7_200_000);
  await desk.quiet();
  expect(await desk.rows(waiting)).toEqual([{ state: "dropped" }, { state: "dropped" }]);
  expect(desk.textsTo(anna)).toEqual(["Anna, I look into it."]);
});

it.concurrent("what the agent wanted to say dies when the platform's people take over; its last word does not", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock, smsSkill: { responseDelaySeconds: 3600 } });
  await desk.text("Where is my lamp?");
  await eventually(async () => expect(await desk.transcript(anna)).toHaveLength(2));
  await desk.text("I want a refund");
  await desk.escalated("open");
  await desk.quiet();
  expect(await desk.rows("SELECT mode FROM polls")).toEqual([{ mode: "manual" }]);
  clock.forward(3_600_000);
  expect(await desk.textTo(anna)).toBe(colleague);
  await desk.quiet();
  expect(desk.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("gives the conversation back to the agent by #resume", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  const notice = await desk.mailTo(dora.email);
  await answers(desk, notice, "You get it back.\n#resume");
  expect(await desk.textTo(anna, 1)).toBe("You get it back.");
  await desk.escalated("closed");
  await desk.quiet();
  await desk.text("And my lamp?");
  expect(await desk.textTo(anna, 2)).toBe(echoed("And my lamp?"));
  await desk.quiet();
  await desk.escalated("closed");
  expect(desk.mailsTo(dora.email)).toHaveLength(1);
});

it.concurrent("an unanswered message from before #resume notifies responders again", async ({ onTestFinished }) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.text("It is on its way.", { from: dora.sms });
  await desk.textTo(anna, 1);
  await desk.quiet();
  // The platform is away while both write: first the customer, then Dora.
  desk.front.fail("POST /messages$", { at: "before", how: { status: 503 } }, 1000);
  await desk.text("And when?");
  const waits = "SELECT kind FROM turns WHERE open = 1 AND attempts > 0";
  await eventually(async () => expect(await desk.rows(waits)).toEqual([{ kind: "question" }]));
  await desk.text("#resume", { from: dora.sms });
  await desk.escalated("closed");
  desk.front.heal();
  clock.forward(60_000);
  expect((await desk.escalated("closed", "open"))[1]).toMatchObject({ cause: "silent" });
  expect(await desk.textTo(dora.sms, 1)).toContain("And when?");
  await desk.quiet();
  await desk.look(anna);
  await desk.quiet();
  // That the agent has the conversation again settles nothing that was written before.
  await desk.escalated("closed", "open");
  await desk.text("Hello?");
  expect(await desk.textTo(anna, 2)).toBe(echoed("Hello?"));
});

it.concurrent("closes by #close, keeps what stands behind #note, and sends neither", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  const notice = await desk.mailTo(dora.email);
  await answers(desk, notice, "#note She has asked thrice.\nNo refund, never!");
  await eventually(async () =>
    expect(await desk.rows("SELECT detail FROM triggers WHERE source = 'note'")).toEqual([
      { detail: "Dora Dahl: She has asked thrice.\nNo refund, never!" },
    ]),
  );
  await desk.quiet();
  expect((await desk.escalated("open"))[0]?.acknowledged_by).toBe(null);
  await answers(desk, notice, "#close");
  await desk.escalated("closed");
  await desk.quiet();
  expect(desk.textsTo(anna)).toEqual([colleague]);
  expect(await desk.transcript(anna)).toHaveLength(2);
});
