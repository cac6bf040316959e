// Ways that end: who has the escalation cannot be reached, the configuration has changed, the platform is not there.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../support/clock.ts";
import { chief, colleague, dora, emil, openDesk, policy } from "../support/daemon/escalation-daemon.ts";
import { anna } from "../support/daemon/phone-daemon.ts";

const doraAlone = { ...policy, tiers: [{ notify: ["dora"], by: ["sms"], repeat: "0s", next: "15m" }] };

it.concurrent("people are told again when nobody hears what the customer writes", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished, { escalation: doraAlone });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.text("ok", { from: dora.sms });
  await desk.escalated("acknowledged");
  await desk.quiet();
  desk.api.fault({ code: 21211 }, { times: 1 });
  await desk.text("Are you there?");
  expect(await desk.textTo(dora.sms, 2)).toContain("Still open: Escalation");
  expect(desk.textsTo(dora.sms)[2]).toContain("Are you there?");
  expect((await desk.escalated("open"))[0]?.acknowledged_by).toBe(null);
});

it.concurrent("no agent sees what people answer when the policy is gone", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished);
  await desk.text("A refund, please");
  const notice = await desk.mailTo(dora.email);
  await desk.textTo(emil.sms);
  await desk.quiet();
  await desk.app().reload({ ...(await desk.config()), escalation: null });
  const words = "It is on its way.";
  await desk.write({ from: dora.email, subject: `Re: ${notice.subject}`, answers: notice, text: words });
  expect(await desk.textTo(anna, 1)).toBe(words);
  await desk.text("It has arrived.", { from: emil.sms });
  expect(await desk.textTo(anna, 2)).toBe("It has arrived.");
  await desk.restart();
  await desk.text("ok", { from: emil.sms });
  await eventually(async () => expect((await desk.escalations())[0]?.acknowledged_by).toBe(emil.name));
  expect(desk.questions().map(({ text }) => text)).toEqual(["A refund, please"]);
});

it.concurrent("a person's answer reaches the customer before the platform has the conversation", async ({
  onTestFinished,
}) => {
  const desk = await openDesk(onTestFinished);
  desk.front.fail("POST /", { at: "before", how: { status: 422 } }, 1);
  await desk.text("Where is my lamp?");
  await desk.textTo(dora.sms);
  expect((await desk.escalations()).map(({ cause }) => cause)).toEqual(["turn-failed"]);
  await desk.text("On its way.", { from: dora.sms });
  expect(await desk.textTo(anna)).toBe("On its way.");
  await desk.quiet();
  expect(await desk.transcript(anna)).toEqual(["manual_assistant: On its way."]);
  expect(await desk.rows("SELECT mode FROM polls")).toEqual([{ mode: "manual" }]);
  await desk.look(anna);
  await desk.quiet();
  expect(desk.textsTo(anna)).toEqual(["On its way."]);
  // What she writes goes to Dora.
  await desk.text("Thank you");
  expect(await desk.textTo(dora.sms, 1)).toContain("Thank you");
  await desk.escalated("acknowledged");
});

it.concurrent("who has it hears what the platform does not take", async ({ onTestFinished }) => {
  const desk = await openDesk(onTestFinished, { escalation: doraAlone });
  await desk.text("A refund, please");
  await desk.textTo(dora.sms);
  await desk.text("ok", { from: dora.sms });
  await desk.escalated("acknowledged");
  await desk.quiet();
  desk.front.fail("POST /", { at: "before", how: { status: 422 } }, 1);
  await desk.text("Are you there?");
  expect(await desk.textTo(dora.sms, 2)).toContain("The customer wrote: Are you there?");
  expect(desk.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("mode ai ends nothing that the platform knows nothing of", async ({ onTestFinished }) => {
  const clock = movableClock();
  const desk = await openDesk(onTestFinished, { clock, escalation: doraAlone });
  await desk.text("Hello");
  await desk.textTo(anna);
  await desk.quiet();
  await desk.app().scheduler.commit((q) => q.run("UPDATE polls SET mode = 'manual'"));
  desk.api.fault({ code: 21211 }, { times: 1 });
  await desk.text("Where is my lamp?");
  await desk.textTo(dora.sms);
  await desk.quiet();
  await desk.look(anna);
  await desk.quiet();
  expect(await desk.rows("SELECT mode FROM polls")).toEqual([{ mode: "ai" }]);
  expect((await desk.escalations()).map(({ state, cause }) => [state, cause])).toEqual([["open", "turn-failed"]]);
  clock.forward(16 * 60_000);
  await desk.mailTo(chief.email);
});
