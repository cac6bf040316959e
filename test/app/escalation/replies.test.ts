// What people write back: a word that takes it, a number that says which one, and what must not be taken for either.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../../support/clock.ts";
import {
  chief,
  colleague,
  customer,
  dora,
  type EscalationDaemon,
  emil,
  policy,
  startEscalationDaemon,
} from "../../support/daemon/escalation-daemon.ts";
import { anna } from "../../support/daemon/phone-daemon.ts";

const bert = "+12025550124";
const carl = "+12025550125";

/** Opens one escalation after the other, each notified to both responders by SMS. */
async function escalate(daemon: EscalationDaemon, ...people: string[]): Promise<number[]> {
  const numbers: number[] = [];
  for (const person of people) {
    const before = daemon.textsTo(dora.sms).length;
    await daemon.text("A refund, please", { from: person });
    await daemon.textTo(dora.sms, before);
    const sql = "SELECT number FROM escalations JOIN conversations c ON c.id = conversation WHERE person = $1";
    numbers.push(Number((await daemon.rows(sql, person)).at(-1)?.number));
  }
  await daemon.quiet();
  return numbers;
}

const states = async (daemon: EscalationDaemon) => (await daemon.escalations()).map(({ state }) => state);
const acknowledgedBy = async (daemon: EscalationDaemon) =>
  (await daemon.escalations()).map(({ acknowledged_by }) => acknowledged_by);

it.concurrent("stops the notifications on ok, once, and informs the others of the owner", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock });
  const [number] = await escalate(daemon, anna);
  await daemon.text("OK!", { from: dora.sms });
  expect(await daemon.textTo(emil.sms, 1)).toBe(
    `Escalation ${number} is acknowledged by Dora Dahl. Nothing to do for you.`,
  );
  expect((await daemon.mailTo(emil.email, 1)).text).toContain("is acknowledged by Dora Dahl");
  expect(await daemon.textTo(dora.sms, 1)).toBe(`${number}: It is yours. What you write now goes to the customer.`);
  await daemon.text("ok", { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 2)).toBe(`${number}: It is yours. "ok" was not sent to the customer.`);
  await daemon.quiet();
  expect(await daemon.rows("SELECT state, acknowledged_by, due_at FROM escalations")).toEqual([
    { state: "acknowledged", acknowledged_by: dora.name, due_at: null },
  ]);
  clock.forward(24 * 3_600_000);
  await daemon.quiet();
  expect(daemon.mailsTo(chief.email)).toEqual([]);
  expect([daemon.textsTo(dora.sms).length, daemon.textsTo(emil.sms).length]).toEqual([3, 2]);
  expect([daemon.mailsTo(dora.email).length, daemon.mailsTo(emil.email).length]).toEqual([1, 2]);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
  expect(await daemon.transcript(anna)).toHaveLength(2);
});

it.concurrent("acknowledges the named escalation, and asks back when a reply might be for several", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const [first, second, third] = await escalate(daemon, anna, bert, carl);
  await daemon.text("It is on its way", { from: dora.sms });
  const question = `Which one do you mean: ${[third, second, first].join(", ")}?`;
  expect(await daemon.textTo(dora.sms, 3)).toContain(question);
  await daemon.text(`ok ${second}`, { from: dora.sms });
  await eventually(async () => expect(await acknowledgedBy(daemon)).toEqual([null, dora.name, null]));
  // What follows is for the one she has.
  await daemon.text("It is on its way, Bert", { from: dora.sms });
  expect(await daemon.textTo(bert, 1)).toBe("It is on its way, Bert");
  await daemon.text(`${first} It is on its way, Anna`, { from: emil.sms });
  expect(await daemon.textTo(anna, 1)).toBe("It is on its way, Anna");
  await daemon.quiet();
  expect(await acknowledgedBy(daemon)).toEqual([emil.name, dora.name, null]);
  expect(daemon.textsTo(carl)).toEqual([colleague]);
  await daemon.text("ok", { from: emil.sms });
  await eventually(async () => expect(await acknowledgedBy(daemon)).toEqual([emil.name, emil.name, emil.name]));
});

it.concurrent("an amount in front is not a number for a responder with one notification, and is queried for one with several", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const [first] = await escalate(daemon, anna);
  await daemon.text(`${first} week, then it is back`, { from: dora.sms });
  expect(await daemon.textTo(anna, 1)).toBe(`${first} week, then it is back`);
  await daemon.text(`${first} of them are left`, { from: dora.sms });
  expect(await daemon.textTo(anna, 2)).toBe(`${first} of them are left`);
  await daemon.text(`${first}: It is back`, { from: dora.sms });
  expect(await daemon.textTo(anna, 3)).toBe("It is back");
  await daemon.quiet();
  const [second] = await escalate(daemon, bert);
  await daemon.text(`${second} weeks, then it is back`, { from: dora.sms });
  expect(await daemon.textTo(dora.sms, 2)).toContain(`Which one do you mean: ${second}, ${first}?`);
  await daemon.text(`${second} It is back in ${second} weeks`, { from: dora.sms });
  expect(await daemon.textTo(bert, 1)).toBe(`It is back in ${second} weeks`);
  await daemon.quiet();
  expect([daemon.textsTo(anna).length, daemon.textsTo(bert).length]).toEqual([4, 2]);
});

it.concurrent("an ok to a closed or unknown escalation acknowledges no other", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const [first, second] = await escalate(daemon, anna, bert);
  await daemon.text(`#close\n${first}`, { from: dora.sms });
  await eventually(async () => expect(await states(daemon)).toEqual(["closed", "open"]));
  await daemon.text(`ok ${first}`, { from: emil.sms });
  expect(await daemon.textTo(emil.sms, 2)).toContain("is closed");
  await daemon.text("ok 999", { from: emil.sms });
  expect(await daemon.textTo(emil.sms, 3)).toContain(`Which one do you mean: ${second}?`);
  await daemon.quiet();
  expect(await states(daemon)).toEqual(["closed", "open"]);
  await daemon.text("12 days are left, Bert", { from: emil.sms });
  expect(await daemon.textTo(bert, 1)).toBe("12 days are left, Bert");
});

it.concurrent("acknowledges it by a reply to the mail, and by one to the first of several mails", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock });
  const notices = [];
  for (const [at, person] of [anna, bert].entries()) {
    await daemon.text("A refund, please", { from: person });
    notices.push(await daemon.mailTo(dora.email, at));
  }
  await daemon.quiet();
  // Both are still open: the repetition tells of both in one mail.
  clock.forward(11 * 60_000);
  expect((await daemon.mailTo(dora.email, 2)).text).toContain("2 escalations are open");
  await daemon.quiet();
  const [notice] = notices;
  await daemon.write({
    from: dora.email,
    subject: `Re: ${notice?.subject}`,
    text: "Ok",
    ...(notice && { answers: notice }),
  });
  await eventually(async () => expect(await acknowledgedBy(daemon)).toEqual([dora.name, null]));
  const digest = await daemon.mailTo(emil.email, 2);
  await daemon.write({ from: emil.email, subject: `Re: ${digest.subject}`, text: "ok", answers: digest });
  await eventually(async () => expect(await acknowledgedBy(daemon)).toEqual([emil.name, emil.name]));
  await daemon.quiet();
  expect(daemon.questions().map(({ text }) => text)).toEqual(["A refund, please", "A refund, please"]);
  expect(daemon.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("notifies any number of escalations in one message", async ({ onTestFinished }) => {
  const clock = movableClock();
  const tiers = [{ notify: ["dora", "emil"], repeat: "0s", next: "24h" }];
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation: { ...policy, tiers, group: "2h" } });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  const customers = Array.from({ length: 8 }, (_, index) => `+1202555013${index}`);
  await Promise.all(customers.map((from) => daemon.text("A refund, please", { from })));
  await daemon.escalated(...Array.from({ length: 9 }, () => "open"));
  await daemon.quiet();
  expect(daemon.textsTo(dora.sms)).toHaveLength(1);
  clock.forward(2 * 3_600_000);
  const text = await daemon.textTo(dora.sms, 1);
  await daemon.quiet();
  expect(text).toMatch(/^8 escalations are open\.\n/);
  expect(text).toContain("And 3 more.");
  expect(daemon.textsTo(dora.sms)).toHaveLength(2);
  const mails = daemon.mailsTo(dora.email);
  expect(mails).toHaveLength(2);
  for (const person of customers) expect(mails[1]?.text).toContain(person);
  const told = (mails[1]?.text.match(/^\d+(?=: )/gm) ?? []).map(Number);
  expect(told, "in their order").toEqual(told.toSorted((a, b) => a - b));
  await daemon.text("ok", { from: dora.sms });
  await eventually(async () => expect(new Set(await acknowledgedBy(daemon))).toEqual(new Set([dora.name])));
  await daemon.quiet();
  expect(daemon.textsTo(emil.sms), "one word for all").toHaveLength(3);
  expect(daemon.textsTo(emil.sms)[2]).toContain("are acknowledged by Dora Dahl");
  await daemon.text("Yes", { from: dora.sms });
  await daemon.textTo(dora.sms, 3);
  await daemon.quiet();
  expect(daemon.textsTo(dora.sms).slice(2), "one word for all").toEqual([
    "All 9 are yours.",
    'All 9 are yours. "Yes" was sent to no customer.',
  ]);
});

it.concurrent("notifies the previous owner when another responder takes over", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  const [number] = await escalate(daemon, anna);
  await daemon.text("ok", { from: dora.sms });
  expect(await daemon.textTo(emil.sms, 1)).toContain("is acknowledged by Dora Dahl");
  expect(await daemon.textTo(dora.sms, 1)).toContain("It is yours.");
  await daemon.text("ok", { from: emil.sms });
  expect(await daemon.textTo(dora.sms, 2)).toContain("is acknowledged by Emil Ek");
  expect(await daemon.textTo(emil.sms, 2)).toContain("It is yours.");
  await daemon.text("I do it after all", { from: dora.sms });
  expect(await daemon.textTo(emil.sms, 3)).toBe(
    `Escalation ${number} is acknowledged by Dora Dahl. Nothing to do for you.`,
  );
  const notice = await daemon.mailTo(dora.email);
  await daemon.write({ from: dora.email, answers: notice, text: "Tomorrow" });
  await daemon.textTo(anna, 2);
  await daemon.quiet();
  expect(daemon.textsTo(emil.sms), "by another way of hers").toHaveLength(4);
  expect(daemon.mailsTo(emil.email)).toHaveLength(3);
});

it.concurrent("notifies the other responders of a customer's message when its owner cannot be reached", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.write({ subject: "My lamp", text: "I want a refund" });
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.text("ok", { from: dora.sms });
  await daemon.textTo(emil.sms, 1);
  await daemon.quiet();
  daemon.api.fault({ code: 21211 }, { times: 1 });
  const answer = await daemon.mailTo(customer);
  await daemon.write({ subject: "Re: My lamp", text: "Are you there?", answers: answer });
  expect((await daemon.mailTo(dora.email, 1)).text).toContain("Are you there?");
  expect(await daemon.textTo(emil.sms, 2)).toContain("Are you there?");
  const [stuck] = daemon.log.filter(({ message }) => message === "escalation notification not delivered");
  expect(stuck?.fields, "which one, and why").toMatchObject({
    escalations: [1],
    state: "failed",
    reason: expect.stringContaining("21211"),
  });
});
