// A responder answers a notification by mail or text: the customer receives the answer on the original channel, and the
// platform has the complete conversation.

import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually, movableClock } from "../../support/clock.ts";
import {
  colleague,
  customer,
  dora,
  type EscalationDaemon,
  emil,
  startEscalationDaemon,
} from "../../support/daemon/escalation-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";
import { type MailStore, sharedDovecot } from "../../support/email/dovecot.ts";
import type { Letter, Reply } from "../../support/email/mails.ts";
import { describeReal, need } from "../../support/machine/debian.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** A reply as a mail program sends it: the text, the responder's signature and the quoted notification. */
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
const answers = (daemon: EscalationDaemon, notice: Reply, words: string): Promise<Letter> =>
  daemon.write({
    from: dora.email,
    name: dora.name,
    subject: `Re: ${notice.subject}`,
    answers: notice,
    text: answerOf(words, notice),
  });

async function threeRounds(daemon: EscalationDaemon): Promise<void> {
  const first = await daemon.write({ subject: "My lamp", text: "I want a refund" });
  const response = await daemon.mailTo(customer);
  const notice = await daemon.mailTo(dora.email);
  await answers(daemon, notice, "Dear Anna,\n\nthe money is on its way.");
  const second = await daemon.mailTo(customer, 1);
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
  await daemon.escalated("acknowledged");
  const taken = await daemon.mailTo(emil.email, 1);
  expect(taken.text).toContain("is acknowledged by Dora Dahl");

  const thanks = await daemon.write({ subject: "Re: My lamp", text: "When exactly?", answers: second });
  const forwarded = await daemon.mailTo(dora.email, 1);
  expect(forwarded).toMatchObject({ inReplyTo: notice.messageId });
  expect(forwarded.references).toContain(notice.messageId);
  expect(forwarded.text).toContain("When exactly?");
  await answers(daemon, forwarded, "On Monday.");
  const third = await daemon.mailTo(customer, 2);
  expect(third).toMatchObject({ inReplyTo: thanks.messageId, subject: "Re: My lamp" });
  expect(third.text).toContain("On Monday.");
  expect(third.references).toEqual(expect.arrayContaining([second.messageId, thanks.messageId]));

  const last = await daemon.write({ subject: "Re: My lamp", text: "Fine.", answers: third });
  const again = await daemon.mailTo(dora.email, 2);
  expect(again.references).toContain(notice.messageId);
  // Dora replies in her thread, to any of our mails in it.
  await answers(daemon, notice, "You are welcome.");
  expect(await daemon.mailTo(customer, 3)).toMatchObject({ inReplyTo: last.messageId });
  await daemon.quiet();
  await daemon.look(customer);
  await daemon.quiet();
  expect(await daemon.transcript(customer)).toEqual([
    expect.stringContaining("I want a refund"),
    `assistant: ${colleague}`,
    "manual_assistant: Dear Anna,\n\nthe money is on its way.",
    expect.stringContaining("conversation_user: When exactly?"),
    "manual_assistant: On Monday.",
    expect.stringContaining("conversation_user: Fine."),
    "manual_assistant: You are welcome.",
  ]);
  expect(daemon.mailsTo(customer)).toHaveLength(4);
  expect(daemon.mailsTo(dora.email)).toHaveLength(3);
  expect(daemon.mailsTo(emil.email)).toHaveLength(2);
  await daemon.escalated("acknowledged");
}

describeReal("over a real mailbox", missing, () => {
  let dovecot: MailStore;
  beforeAll(async () => {
    dovecot = await sharedDovecot(["support"]);
  });
  afterAll(() => dovecot?.dispose());

  it("carries mails both ways, three rounds, each in its thread", async ({ onTestFinished }) => {
    await threeRounds(await startEscalationDaemon(onTestFinished, { dovecot }));
  });
});

it.concurrent("carries mails both ways over the sandbox's mail server", async ({ onTestFinished }) => {
  await threeRounds(await startEscalationDaemon(onTestFinished));
});

it.concurrent("relays to the customer, also when others write in the thread, with their names", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const carol = `carol@${customer.split("@")[1]}`;
  await daemon.write({ subject: "My lamp", text: "I want a refund", headers: { Cc: carol } });
  const response = await daemon.mailTo(customer);
  const notice = await daemon.mailTo(dora.email);
  await daemon.quiet();
  await daemon.write({ from: dora.email, answers: notice, text: "Ok" });
  await daemon.mailTo(dora.email, 1);
  const last = await daemon.write({
    from: carol,
    subject: "Re: My lamp",
    answers: response,
    text: "Pay it to me",
  });
  expect((await daemon.mailTo(dora.email, 2)).text).toContain(
    `1, ${carol} (in the thread of Anna Example): Pay it to me`,
  );
  await daemon.write({
    from: dora.email,
    answers: notice,
    text: "Hello,\n> I want a refund\nIt is on its way.",
  });
  const answer = await daemon.mailTo(customer, 1);
  expect(answer.references).not.toContain(last.messageId);
  expect(answer.html, "beside what it answers").toMatch(/<\/blockquote>\s*<p>It is on its way\./);
  await daemon.write({ from: carol, subject: "Re: My lamp", answers: response, text: "A refund, I say" });
  // Dora knows of it before she closes: what a customer wrote unseen opens another escalation.
  expect((await daemon.mailTo(dora.email, 3)).text).toContain("A refund, I say");
  await daemon.write({ from: dora.email, answers: notice, text: "#close" });
  await daemon.escalated("closed");
  await daemon.quiet();
  expect(daemon.mailsTo(carol)).toEqual([]);
});

it.concurrent("carries texts both ways, and the platform has every word once", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished, { smsSkill: { smsSignature: "The Team" } });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.text("It is on its way.", { from: dora.sms });
  expect(await daemon.textTo(anna, 1)).toBe("It is on its way.\nThe Team");
  await daemon.text("When?");
  expect(await daemon.textTo(dora.sms, 1)).toMatch(/\+12025550123: When\?$/);
  await daemon.text("On Monday.", { from: dora.sms });
  expect(await daemon.textTo(anna, 2)).toBe("On Monday.\nThe Team");
  await daemon.quiet();
  await daemon.look(anna);
  await daemon.quiet();
  expect(await daemon.transcript(anna)).toEqual([
    "conversation_user: A refund, please",
    `assistant: ${colleague}`,
    "manual_assistant: It is on its way.",
    "conversation_user: When?",
    "manual_assistant: On Monday.",
  ]);
  expect(daemon.textsTo(anna)).toHaveLength(3);
  expect((await daemon.escalated("acknowledged"))[0]?.acknowledged_by).toBe(dora.name);
});

it.concurrent("carries an answer by text to a customer who mailed, and the next mail back by text", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const mail = await daemon.write({ subject: "My lamp", text: "I want a refund" });
  await daemon.mailTo(customer);
  await daemon.textTo(dora.sms);
  await daemon.text("It is on its way.", { from: dora.sms });
  const answer = await daemon.mailTo(customer, 1);
  expect(answer).toMatchObject({ inReplyTo: mail.messageId, subject: "Re: My lamp" });
  await daemon.write({ subject: "Re: My lamp", text: "Thank you!", answers: answer });
  expect(await daemon.textTo(dora.sms, 1)).toContain("Thank you!");
  await daemon.quiet();
  // Who took it by text gets it by text alone.
  expect(daemon.mailsTo(dora.email)).toHaveLength(1);
});

it.concurrent("quotes further lines of a customer in a text to who took it, as they can look like ours", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const mail = await daemon.write({ subject: "My lamp", text: "I want a refund" });
  await daemon.mailTo(customer);
  await daemon.textTo(dora.sms);
  await daemon.text("It is on its way.", { from: dora.sms });
  const answers = await daemon.mailTo(customer, 1);
  const text = "Thank you!\nEscalation 1 is acknowledged by Emil. Nothing to do for you.";
  await daemon.write({ subject: `Re: ${mail.subject}`, text, answers });
  expect(await daemon.textTo(dora.sms, 1)).toContain("Thank you!\n> Escalation 1 is acknowledged by Emil.");
});

it.concurrent("a responder's text is sent without delay, and drops replies of the agent that are not due yet", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const smsSkill = { responseDelaySeconds: 3600 };
  const daemon = await startEscalationDaemon(onTestFinished, { clock, smsSkill });
  await daemon.text("Where is my lamp?");
  const waiting = "SELECT d.state FROM drafts d JOIN replies r ON r.id = d.reply WHERE r.kind = 'answer'";
  await eventually(async () => expect(await daemon.rows(waiting)).toEqual([{ state: "queued" }]));
  await daemon.text("I want a refund");
  await daemon.textTo(dora.sms);
  await daemon.text("Anna, I look into it.", { from: dora.sms });
  expect(await daemon.textTo(anna)).toBe("Anna, I look into it.");
  await daemon.quiet();
  clock.forward(7_200_000);
  await daemon.quiet();
  expect(await daemon.rows(waiting)).toEqual([{ state: "dropped" }, { state: "dropped" }]);
  expect(daemon.textsTo(anna)).toEqual(["Anna, I look into it."]);
});

it.concurrent("what the agent wanted to say dies when the platform's people take over; its last word does not", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock, smsSkill: { responseDelaySeconds: 3600 } });
  await daemon.text("Where is my lamp?");
  await eventually(async () => expect(await daemon.transcript(anna)).toHaveLength(2));
  await daemon.text("I want a refund");
  await daemon.escalated("open");
  await daemon.quiet();
  expect(await daemon.rows("SELECT mode FROM polls")).toEqual([{ mode: "manual" }]);
  clock.forward(3_600_000);
  expect(await daemon.textTo(anna)).toBe(colleague);
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("takes a thumbs-up by mail, and relays neither a gateway's warning nor a scanner's note", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  const notice = await daemon.mailTo(dora.email);
  const quote = `On Sat, 21 Nov 2026 at 20:57, Support <support@team.example> wrote:\n\n${notice.text.replace(/^/gm, "> ")}`;
  const says = (words: string) =>
    daemon.write({
      from: dora.email,
      name: dora.name,
      answers: notice,
      text: Buffer.from(`${words}\n\n${quote}`).toString("base64"),
      headers: { "Content-Transfer-Encoding": "base64" },
    });
  await says("👍");
  await daemon.escalated("acknowledged");
  const warning =
    "CAUTION: This email originated from outside of the organization. Do not click links or open attachments unless you recognize the sender.";
  await says(`${warning}\n\nYou get it back.\n\n-- \nThis email has been checked for viruses by Avast.\nwww.avast.com`);
  expect(await daemon.textTo(anna, 1)).toBe("You get it back.");
});

it.concurrent("gives the conversation back to the agent by #resume", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  const notice = await daemon.mailTo(dora.email);
  await answers(daemon, notice, "You get it back.\n#resume");
  expect(await daemon.textTo(anna, 1)).toBe("You get it back.");
  await daemon.escalated("closed");
  await daemon.quiet();
  await daemon.text("And my lamp?");
  expect(await daemon.textTo(anna, 2)).toBe(echoed("And my lamp?"));
  await daemon.quiet();
  await daemon.escalated("closed");
  expect(daemon.mailsTo(dora.email)).toHaveLength(1);
});

it.concurrent("an unanswered message from before #resume notifies responders again", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.text("It is on its way.", { from: dora.sms });
  await daemon.textTo(anna, 1);
  await daemon.quiet();
  // The platform is away while both write: first the customer, then Dora.
  daemon.proxy.fail("POST /messages$", { at: "before", how: { status: 503 } }, 1000);
  await daemon.text("And when?");
  const waits = "SELECT kind FROM turns WHERE open = 1 AND attempts > 0";
  await eventually(async () => expect(await daemon.rows(waits)).toEqual([{ kind: "question" }]));
  await daemon.text("#resume", { from: dora.sms });
  await daemon.escalated("closed");
  daemon.proxy.heal();
  clock.forward(60_000);
  expect((await daemon.escalated("closed", "open"))[1]).toMatchObject({ cause: "silent" });
  expect(await daemon.textTo(dora.sms, 1)).toContain("And when?");
  await daemon.quiet();
  await daemon.look(anna);
  await daemon.quiet();
  // That the agent has the conversation again settles nothing that was written before.
  await daemon.escalated("closed", "open");
  await daemon.text("Hello?");
  expect(await daemon.textTo(anna, 2)).toBe(echoed("Hello?"));
});

it.concurrent("closes by #close, keeps what stands behind #note, and sends neither", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  const notice = await daemon.mailTo(dora.email);
  await answers(daemon, notice, "#note She has asked thrice.\nNo refund, never!");
  await eventually(async () =>
    expect(await daemon.rows("SELECT detail FROM triggers WHERE source = 'note'")).toEqual([
      { detail: "Dora Dahl: She has asked thrice.\nNo refund, never!" },
    ]),
  );
  await daemon.quiet();
  expect((await daemon.escalated("open"))[0]?.acknowledged_by).toBe(null);
  await answers(daemon, notice, "#close");
  await daemon.escalated("closed");
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toEqual([colleague]);
  expect(await daemon.transcript(anna)).toHaveLength(2);
});
