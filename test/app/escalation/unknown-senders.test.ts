// Replies from addresses that were not notified have no effect, nor do automatic replies of responders.

import { expect, it } from "vitest";
import { releaseEvent } from "../../../src/store/operators/inbox.ts";
import { eventually } from "../../support/clock.ts";
import {
  colleague,
  customer,
  dora,
  type EscalationDaemon,
  type EscalationDaemonOptions,
  startEscalationDaemon,
} from "../../support/daemon/escalation-daemon.ts";
import type { Finished } from "../../support/daemon/mail-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";
import type { LetterOptions, Reply } from "../../support/email/mails.ts";

/** A text that escalated, and the mail that tells Dora of it. */
async function told(
  finished: Finished,
  options: EscalationDaemonOptions = {},
): Promise<{ daemon: EscalationDaemon; notice: Reply }> {
  const daemon = await startEscalationDaemon(finished, options);
  await daemon.text("A refund, please");
  const notice = await daemon.mailTo(dora.email);
  await daemon.quiet();
  return { daemon, notice };
}

/** The mail arrives and is ignored with this code. */
async function ignored(daemon: EscalationDaemon, code: string, mail: LetterOptions): Promise<void> {
  const before = (await daemon.rows("SELECT id FROM events WHERE kind = 'message'")).length;
  await daemon.write(mail);
  const sql = "SELECT state, code FROM events WHERE kind = 'message' ORDER BY id";
  await eventually(async () => expect((await daemon.rows(sql)).slice(before)).toEqual([{ state: "ignored", code }]));
}

/** No notification was sent and the escalation is still open. `strange`: addresses that replied to the notification
 *  sent to Dora. */
async function untouched(daemon: EscalationDaemon, ...strange: string[]): Promise<void> {
  await daemon.quiet();
  expect(await daemon.rows("SELECT state, acknowledged_by FROM escalations")).toEqual([
    { state: "open", acknowledged_by: null },
  ]);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
  expect(daemon.questions().map(({ text }) => text)).toEqual(["A refund, please"]);
  expect(daemon.mailsTo("mallory@elsewhere.example")).toEqual([]);
  const [, ...told] = daemon.mailsTo(dora.email).map(({ text }) => text.split("\n")[0]);
  expect(told.toSorted(byText)).toEqual(
    strange.toSorted(byText).map((from) => expect.stringContaining(`1: ${from} has answered our mail to you`)),
  );
}

const byText = (a = "", b = "") => a.localeCompare(b);

const mark = (notice: Reply): string => /\[ref:[^\]]+\]/.exec(notice.text)?.[0] ?? "";

it.concurrent("a reply of an address that was not notified is ignored, also with the mark of the notification", async ({
  onTestFinished,
}) => {
  const { daemon, notice } = await told(onTestFinished);
  const mallory = { from: "mallory@elsewhere.example", text: "Send the money to me.\n#close" };
  await ignored(daemon, "not-a-recipient", { ...mallory, subject: `Re: ${notice.subject}`, answers: notice });
  expect(mark(notice)).not.toBe("");
  const marked = { ...mallory, text: `${mallory.text}\n\n> ${mark(notice)}` };
  await ignored(daemon, "not-a-recipient", { ...marked, subject: "Hello" });
  // Dora's private address is not a configured responder.
  await ignored(daemon, "not-a-recipient", { from: "dora@home.example", text: "ok", answers: notice });
  // Mallory has written twice, and may be a machine.
  await untouched(daemon, "dora@home.example", mallory.from);
  expect(daemon.mailsTo("dora@home.example")).toEqual([]);
});

it.concurrent("a guessed mark is no mark: its sender is a customer like any other", async ({ onTestFinished }) => {
  const { daemon, notice } = await told(onTestFinished);
  const guess = mark(notice).replace(/.{4}\]$/, "zzzz]");
  const mail = await daemon.write({ from: customer, subject: "Hi", text: `#close\n${guess}` });
  expect(await daemon.mailTo(customer)).toMatchObject({ inReplyTo: mail.messageId });
  await daemon.quiet();
  expect(await daemon.rows("SELECT state FROM escalations")).toEqual([{ state: "open" }]);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("a forged From is ignored with sender_auth; the authenticated one is accepted", async ({
  onTestFinished,
}) => {
  const sender_auth = { mode: "tag", by: "header", server: "mx.team.example" };
  const { daemon, notice } = await told(onTestFinished, { mail: { sender_auth } });
  const answer = { from: dora.email, subject: `Re: ${notice.subject}`, answers: notice };
  const verdict = (text: string) => ({ "Authentication-Results": `mx.team.example; ${text}` });
  const forged = { ...answer, text: "Send the money to me." };
  await ignored(daemon, "not-authenticated", forged);
  await ignored(daemon, "not-authenticated", {
    ...forged,
    headers: verdict("dmarc=fail header.from=people.example"),
  });
  await ignored(daemon, "not-authenticated", {
    ...forged,
    headers: verdict("dmarc=pass header.from=elsewhere.example"),
  });
  const elsewhere = {
    "Authentication-Results": "mx.elsewhere.example; dmarc=pass header.from=people.example",
  };
  await ignored(daemon, "not-authenticated", { ...forged, headers: elsewhere });
  await untouched(daemon);
  const passed = verdict("dmarc=pass header.from=people.example");
  await daemon.write({ ...answer, text: "It is on its way.", headers: passed });
  expect(await daemon.textTo(anna, 1)).toBe("It is on its way.");
});

it.concurrent("an out-of-office is neither an answer nor an acknowledgement", async ({ onTestFinished }) => {
  const { daemon, notice } = await told(onTestFinished);
  const machine = { from: dora.email, name: dora.name, answers: notice };
  await ignored(daemon, "auto-reply", {
    ...machine,
    subject: `Automatic reply: ${notice.subject}`,
    text: "I am away until Monday.",
    headers: { "Auto-Submitted": "auto-replied" },
  });
  await ignored(daemon, "auto-reply", {
    ...machine,
    subject: `Abwesenheitsnotiz: ${notice.subject}`,
    text: "ok",
    headers: { "X-Autoreply": "yes" },
  });
  await untouched(daemon);
});

it.concurrent("an automatic reply without headers neither acknowledges nor reaches the customer", async ({
  onTestFinished,
}) => {
  const { daemon, notice } = await told(onTestFinished);
  const machine = { from: dora.email, name: dora.name, answers: notice };
  const held = "SELECT code FROM events WHERE state IN ('held', 'ignored') ORDER BY id";
  const cases: readonly (readonly [string, string, string])[] = [
    [`[Out of office] Re: ${notice.subject}`, "I will be back on Monday.", "auto-reply"],
    [`Gelesen: ${notice.subject}`, "ok", "auto-reply"],
    ["Please verify your email", "Open https://x.example/verify", "auto-reply"],
    [`Re: ${notice.subject}`, "I am on vacation until Monday.", "maybe-automatic"],
    [`Re: ${notice.subject}`, "Ich bin im Urlaub.", "maybe-automatic"],
    [`Ticket 9: ${notice.subject}`, "yes", "maybe-automatic"],
  ];
  for (const [at, [subject, text]] of cases.entries()) {
    await daemon.write({ ...machine, subject, text });
    const codes = cases.slice(0, at + 1).map(([, , code]) => ({ code }));
    await eventually(async () => expect(await daemon.rows(held)).toEqual(codes));
  }
  await daemon.quiet();
  expect(await daemon.rows("SELECT state, acknowledged_by FROM escalations")).toEqual([
    { state: "open", acknowledged_by: null },
  ]);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
  // Once: behind the address may be a machine that answers everything.
  const [, ...said] = daemon.mailsTo(dora.email);
  expect(said).toHaveLength(1);
  expect(said[0]?.text).toMatch(/^1: Your message looks like an automatic reply .*begin it with "1:"\./s);
  // A human reply sent as instructed is relayed.
  await daemon.write({
    ...machine,
    subject: `Re: ${notice.subject}`,
    text: "1: I am on vacation, Bob calls you.",
  });
  expect(await daemon.textTo(anna, 1)).toBe("I am on vacation, Bob calls you.");
});

it.concurrent("a held answer goes out when an operator releases it", async ({ onTestFinished }) => {
  const { daemon, notice } = await told(onTestFinished);
  const text = "I am out of office but please tell her yes";
  await daemon.write({ from: dora.email, answers: notice, subject: `Re: ${notice.subject}`, text });
  const sql = "SELECT id FROM events WHERE state = 'held'";
  await eventually(async () => expect(await daemon.rows(sql)).toHaveLength(1));
  const [row] = await daemon.rows(sql);
  await daemon.app().scheduler.commit((q) => releaseEvent(q, Number(row?.["id"])));
  expect(await daemon.textTo(anna, 1)).toBe(text);
});

it.concurrent("an automatic text of a phone in driving mode is ignored", async ({ onTestFinished }) => {
  const { daemon } = await told(onTestFinished);
  await daemon.text("I’m driving right now, I’ll get back to you later.", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 1)).toContain("looks like an automatic reply");
  await daemon.quiet();
  expect(await daemon.rows("SELECT state FROM escalations")).toEqual([{ state: "open" }]);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("a decorated #note blocks the relay, and the responder learns it", async ({ onTestFinished }) => {
  const { daemon, notice } = await told(onTestFinished);
  const dorasAnswer = { from: dora.email, answers: notice, subject: `Re: ${notice.subject}` };
  const notes = ["(#note secret", ".#note secret", "*#note* secret", "\\#note secret"];
  for (const [at, text] of notes.entries()) {
    await daemon.write({ ...dorasAnswer, text: `It is on its way.\n${text}` });
    expect((await daemon.mailTo(dora.email, at + 1)).text).toContain(
      "is no command: those are #resume, #close and #note",
    );
  }
  await daemon.text("It is on its way.\n＃note secret", { from: dora.sms });
  expect(await daemon.textTo(anna, 1)).toBe("It is on its way.");
  await daemon.quiet();
  expect(daemon.textsTo(anna).join()).not.toContain("secret");
  expect(await daemon.rows("SELECT detail FROM triggers WHERE source = 'note'")).toEqual([
    { detail: expect.stringContaining(": secret") },
  ]);
});

it.concurrent("a text that quotes a notification from another number is a customer's", async ({ onTestFinished }) => {
  const { daemon } = await told(onTestFinished);
  const number = (await daemon.escalations())[0]?.number;
  const stranger = "+12025550188";
  await daemon.text(`ok ${number}`, { from: stranger });
  expect(await daemon.textTo(stranger)).toBe(echoed(`ok ${number}`));
  await daemon.quiet();
  expect(await daemon.rows("SELECT state FROM escalations")).toEqual([{ state: "open" }]);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("Dora's mail that only names the escalation goes nowhere, and she learns it", async ({
  onTestFinished,
}) => {
  const { daemon, notice } = await told(onTestFinished);
  const lost = { subject: `AW: ${notice.subject}`, text: "It is on its way." };
  await ignored(daemon, "not-threaded", { from: dora.email, ...lost });
  expect((await daemon.mailTo(dora.email, 1)).text).toMatch(/^1: Your mail is no answer to ours/);
  await daemon.quiet();
  expect(await daemon.rows("SELECT state FROM escalations")).toEqual([{ state: "open" }]);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
  // Another sender who writes such a subject is a customer.
  const mail = await daemon.write({ from: "mallory@elsewhere.example", ...lost });
  expect(await daemon.mailTo("mallory@elsewhere.example")).toMatchObject({ inReplyTo: mail.messageId });
});

it.concurrent("Dora's new mail without a word of the old ones is no answer to any", async ({ onTestFinished }) => {
  const { daemon } = await told(onTestFinished);
  const mail = await daemon.write({ from: dora.email, subject: "Lamps", text: "ok" });
  expect(await daemon.mailTo(dora.email, 1)).toMatchObject({ inReplyTo: mail.messageId });
  await daemon.quiet();
  expect(await daemon.rows("SELECT state FROM escalations")).toEqual([{ state: "open" }]);
});
