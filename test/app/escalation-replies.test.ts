// What people write back: a word that takes it, a number that says which one, and what must not be taken for either.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../support/clock.ts";
import {
  chief,
  colleague,
  customer,
  type Desk,
  dora,
  emil,
  openDesk,
  policy,
} from "../support/daemon/escalation-daemon.ts";
import { anna } from "../support/daemon/phone-daemon.ts";

const bert = "+12025550124";
const carl = "+12025550125";

/** One escalation after the other, each told to both people by text. */
async function escalate(desk: Desk, ...people: string[]): Promise<number[]> {
  const numbers: number[] = [];
  for (const person of people) {
    const before = desk.textsTo(dora.sms).length;
    await desk.text("A refund, please", { from: person });
    await desk.textTo(dora.sms, before);
    const sql = "SELECT number FROM escalations JOIN conversations c ON c.id = conversation WHERE person = $1";
    numbers.push(Number((await desk.rows(sql, person)).at(-1)?.number));
  }
  await desk.quiet();
  return numbers;
}

const states = async (desk: Desk) => (await desk.escalations()).map(({ state }) => state);
const acknowledgedBy = async (desk: Desk) => (await desk.escalations()).map(({ acknowledged_by }) => acknowledged_by);

it.concurrent("ends the telling by ok, once, and tells the others who has it", async ({ onTestFinished }) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock });
  const [number] = await escalate(desk, anna);
  await desk.text("OK!", { from: dora.sms });
  expect(await desk.textTo(emil.sms, 1)).toBe(
    `Escalation ${number} is acknowledged by Dora Dahl. Nothing to do for you.`,
  );
  expect((await desk.mailTo(emil.email, 1)).text).toContain("is acknowledged by Dora Dahl");
  expect(await desk.textTo(dora.sms, 1)).toBe(`${number}: It is yours. What you write now goes to the customer.`);
  await desk.text("ok", { from: dora.sms });
  expect(await desk.textTo(dora.sms, 2)).toBe(`${number}: It is yours. "ok" was not sent to the customer.`);
  await desk.quiet();
  expect(await desk.rows("SELECT state, acknowledged_by, due_at FROM escalations")).toEqual([
    { state: "acknowledged", acknowledged_by: dora.name, due_at: null },
  ]);
  clock.forward(24 * 3_600_000);
  await desk.quiet();
  expect(desk.mailsTo(chief.email)).toEqual([]);
  expect([desk.textsTo(dora.sms).length, desk.textsTo(emil.sms).length]).toEqual([3, 2]);
  expect([desk.mailsTo(dora.email).length, desk.mailsTo(emil.email).length]).toEqual([1, 2]);
  expect(desk.textsTo(anna)).toEqual([colleague]);
  expect(await desk.transcript(anna)).toHaveLength(2);
});

it.concurrent("acknowledges the named escalation, and asks back when a reply might be for several", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  const [first, second, third] = await escalate(desk, anna, bert, carl);
  await desk.text("It is on its way", { from: dora.sms });
  const question = `Which one do you mean: ${[third, second, first].join(", ")}?`;
  expect(await desk.textTo(dora.sms, 3)).toContain(question);
  await desk.text(`ok ${second}`, { from: dora.sms });
  await eventually(async () => expect(await acknowledgedBy(desk)).toEqual([null, dora.name, null]));
  // What follows is for the one she has.
  await desk.text("It is on its way, Bert", { from: dora.sms });
  expect(await desk.textTo(bert, 1)).toBe("It is on its way, Bert");
  await desk.text(`${first} It is on its way, Anna`, { from: emil.sms });
  expect(await desk.textTo(anna, 1)).toBe("It is on its way, Anna");
  await desk.quiet();
  expect(await acknowledgedBy(desk)).toEqual([emil.name, dora.name, null]);
  expect(desk.textsTo(carl)).toEqual([colleague]);
  await desk.text("ok", { from: emil.sms });
  await eventually(async () => expect(await acknowledgedBy(desk)).toEqual([emil.name, emil.name, emil.name]));
});

it.concurrent("an amount in front is no name for who was told of one, and asked about for who was told of several", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  const [first] = await escalate(desk, anna);
  await desk.text(`${first} week, then it is back`, { from: dora.sms });
  expect(await desk.textTo(anna, 1)).toBe(`${first} week, then it is back`);
  await desk.text(`${first} of them are left`, { from: dora.sms });
  expect(await desk.textTo(anna, 2)).toBe(`${first} of them are left`);
  await desk.text(`${first}: It is back`, { from: dora.sms });
  expect(await desk.textTo(anna, 3)).toBe("It is back");
  await desk.quiet();
  const [second] = await escalate(desk, bert);
  await desk.text(`${second} weeks, then it is back`, { from: dora.sms });
  expect(await desk.textTo(dora.sms, 2)).toContain(`Which one do you mean: ${second}, ${first}?`);
  await desk.text(`${second} It is back in ${second} weeks`, { from: dora.sms });
  expect(await desk.textTo(bert, 1)).toBe(`It is back in ${second} weeks`);
  await desk.quiet();
  expect([desk.textsTo(anna).length, desk.textsTo(bert).length]).toEqual([4, 2]);
});

it.concurrent("an ok to a closed or unknown escalation acknowledges no other", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  const [first, second] = await escalate(desk, anna, bert);
  await desk.text(`#close\n${first}`, { from: dora.sms });
  await eventually(async () => expect(await states(desk)).toEqual(["closed", "open"]));
  await desk.text(`ok ${first}`, { from: emil.sms });
  expect(await desk.textTo(emil.sms, 2)).toContain("is closed");
  await desk.text("ok 999", { from: emil.sms });
  expect(await desk.textTo(emil.sms, 3)).toContain(`Which one do you mean: ${second}?`);
  await desk.quiet();
  expect(await states(desk)).toEqual(["closed", "open"]);
  await desk.text("12 days are left, Bert", { from: emil.sms });
  expect(await desk.textTo(bert, 1)).toBe("12 days are left, Bert");
});

it.concurrent("takes it by an answer to the mail, and by one to the first of several mails", async ({
  onTestFinished,
}) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock });
  const notices = [];
  for (const [at, person] of [anna, bert].entries()) {
    await desk.text("A refund, please", { from: person });
    notices.push(await desk.mailTo(dora.email, at));
  }
  await desk.quiet();
  // Both are still open: the repetition tells of both in one mail.
  clock.forward(11 * 60_000);
  expect((await desk.mailTo(dora.email, 2)).text).toContain("2 escalations are open");
  await desk.quiet();
  const [notice] = notices;
  await desk.write({
    from: dora.email,
    subject: `Re: ${notice?.subject}`,
    text: "Ok",
    ...(notice && { answers: notice }),
  });
  await eventually(async () => expect(await acknowledgedBy(desk)).toEqual([dora.name, null]));
  const digest = await desk.mailTo(emil.email, 2);
  await desk.write({ from: emil.email, subject: `Re: ${digest.subject}`, text: "ok", answers: digest });
  await eventually(async () => expect(await acknowledgedBy(desk)).toEqual([emil.name, emil.name]));
  await desk.quiet();
  expect(desk.questions().map(({ text }) => text)).toEqual(["A refund, please", "A refund, please"]);
  expect(desk.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("tells of many in one message, however many there are", async ({ onTestFinished }) => {
  const clock = movableClock();
  const tiers = [{ notify: ["dora", "emil"], repeat: "0s", next: "24h" }];
  const desk = await openDesk(onTestFinished, { clock, escalation: { ...policy, tiers, group: "2h" } });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.quiet();
  const crowd = Array.from({ length: 8 }, (_, index) => `+1202555013${index}`);
  await Promise.all(crowd.map((from) => desk.text("A refund, please", { from })));
  await desk.escalated(...Array.from({ length: 9 }, () => "open"));
  await desk.quiet();
  expect(desk.textsTo(dora.sms)).toHaveLength(1);
  clock.forward(2 * 3_600_000);
  const text = await desk.textTo(dora.sms, 1);
  await desk.quiet();
  expect(text).toMatch(/^8 escalations are open\.\n/);
  expect(text).toContain("And 3 more.");
  expect(desk.textsTo(dora.sms)).toHaveLength(2);
  const mails = desk.mailsTo(dora.email);
  expect(mails).toHaveLength(2);
  for (const person of crowd) expect(mails[1]?.text).toContain(person);
  const told = (mails[1]?.text.match(/^\d+(?=: )/gm) ?? []).map(Number);
  expect(told, "in their order").toEqual(told.toSorted((a, b) => a - b));
  await desk.text("ok", { from: dora.sms });
  await eventually(async () => expect(new Set(await acknowledgedBy(desk))).toEqual(new Set([dora.name])));
  await desk.quiet();
  expect(desk.textsTo(emil.sms), "one word for all").toHaveLength(3);
  expect(desk.textsTo(emil.sms)[2]).toContain("are acknowledged by Dora Dahl");
  await desk.text("Yes", { from: dora.sms });
  await desk.textTo(dora.sms, 3);
  await desk.quiet();
  expect(desk.textsTo(dora.sms).slice(2), "one word for all").toEqual([
    "All 9 are yours.",
    'All 9 are yours. "Yes" was sent to no customer.',
  ]);
});

it.concurrent("notifies the previous owner when another responder takes over", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  const [number] = await escalate(desk, anna);
  await desk.text("ok", { from: dora.sms });
  expect(await desk.textTo(emil.sms, 1)).toContain("is acknowledged by Dora Dahl");
  expect(await desk.textTo(dora.sms, 1)).toContain("It is yours.");
  await desk.text("ok", { from: emil.sms });
  expect(await desk.textTo(dora.sms, 2)).toContain("is acknowledged by Emil Ek");
  expect(await desk.textTo(emil.sms, 2)).toContain("It is yours.");
  await desk.text("I do it after all", { from: dora.sms });
  expect(await desk.textTo(emil.sms, 3)).toBe(
    `Escalation ${number} is acknowledged by Dora Dahl. Nothing to do for you.`,
  );
  const notice = await desk.mailTo(dora.email);
  await desk.write({ from: dora.email, answers: notice, text: "Tomorrow" });
  await desk.textTo(anna, 2);
  await desk.quiet();
  expect(desk.textsTo(emil.sms), "by another way of hers").toHaveLength(4);
  expect(desk.mailsTo(emil.email)).toHaveLength(3);
});

it.concurrent("notifies the other responders of a customer's message when its owner cannot be reached", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  await desk.write({ subject: "My lamp", text: "I want a refund" });
  await desk.textTo(dora.sms);
  await desk.quiet();
  await desk.text("ok", { from: dora.sms });
  await desk.textTo(emil.sms, 1);
  await desk.quiet();
  desk.api.fault({ code: 21211 }, { times: 1 });
  const answer = await desk.mailTo(customer);
  await desk.write({ subject: "Re: My lamp", text: "Are you there?", answers: answer });
  expect((await desk.mailTo(dora.email, 1)).text).toContain("Are you there?");
  expect(await desk.textTo(emil.sms, 2)).toContain("Are you there?");
  const [stuck] = desk.log.filter(({ message }) => message === "escalation notification not delivered");
  expect(stuck?.fields, "which one, and why").toMatchObject({
    escalations: [1],
    state: "failed",
    reason: expect.stringContaining("21211"),
  });
});
