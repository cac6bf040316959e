// Ways that end: who has the escalation cannot be reached, the configuration has changed, the platform is not there.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../support/clock.ts";
import { chief, colleague, dora, emil, policy, startEscalationDaemon } from "../support/daemon/escalation-daemon.ts";
import { anna } from "../support/daemon/phone-daemon.ts";

const doraAlone = { ...policy, tiers: [{ notify: ["dora"], by: ["sms"], repeat: "0s", next: "15m" }] };

it.concurrent("responders are notified again when the customer's message cannot be delivered", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: doraAlone });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.text("ok", { from: dora.sms });
  await daemon.escalated("acknowledged");
  await daemon.quiet();
  daemon.api.fault({ code: 21211 }, { times: 1 });
  await daemon.text("Are you there?");
  expect(await daemon.textTo(dora.sms, 2)).toContain("Still open: Escalation");
  expect(daemon.textsTo(dora.sms)[2]).toContain("Are you there?");
  expect((await daemon.escalated("open"))[0]?.acknowledged_by).toBe(null);
});

it.concurrent("no agent sees responders' replies when the policy is gone", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  await daemon.text("A refund, please");
  const notice = await daemon.mailTo(dora.email);
  await daemon.textTo(emil.sms);
  await daemon.quiet();
  await daemon.app().reload({ ...(await daemon.config()), escalation: null });
  const words = "It is on its way.";
  await daemon.write({ from: dora.email, subject: `Re: ${notice.subject}`, answers: notice, text: words });
  expect(await daemon.textTo(anna, 1)).toBe(words);
  await daemon.text("It has arrived.", { from: emil.sms });
  expect(await daemon.textTo(anna, 2)).toBe("It has arrived.");
  await daemon.restart();
  await daemon.text("ok", { from: emil.sms });
  await eventually(async () => expect((await daemon.escalations())[0]?.acknowledged_by).toBe(emil.name));
  expect(daemon.questions().map(({ text }) => text)).toEqual(["A refund, please"]);
});

it.concurrent("a person's answer reaches the customer before the platform has the conversation", async ({
  onTestFinished,
}) => {
  const daemon = await startEscalationDaemon(onTestFinished);
  daemon.proxy.fail("POST /", { at: "before", how: { status: 422 } }, 1);
  await daemon.text("Where is my lamp?");
  await daemon.textTo(dora.sms);
  expect((await daemon.escalations()).map(({ cause }) => cause)).toEqual(["turn-failed"]);
  await daemon.text("On its way.", { from: dora.sms });
  expect(await daemon.textTo(anna)).toBe("On its way.");
  await daemon.quiet();
  expect(await daemon.transcript(anna)).toEqual(["manual_assistant: On its way."]);
  expect(await daemon.rows("SELECT mode FROM polls")).toEqual([{ mode: "manual" }]);
  await daemon.look(anna);
  await daemon.quiet();
  expect(daemon.textsTo(anna)).toEqual(["On its way."]);
  // What she writes goes to Dora.
  await daemon.text("Thank you");
  expect(await daemon.textTo(dora.sms, 1)).toContain("Thank you");
  await daemon.escalated("acknowledged");
});

it.concurrent("reports to the owner what the platform rejects", async ({ onTestFinished }) => {
  const daemon = await startEscalationDaemon(onTestFinished, { escalation: doraAlone });
  await daemon.text("A refund, please");
  await daemon.textTo(dora.sms);
  await daemon.text("ok", { from: dora.sms });
  await daemon.escalated("acknowledged");
  await daemon.quiet();
  daemon.proxy.fail("POST /", { at: "before", how: { status: 422 } }, 1);
  await daemon.text("Are you there?");
  expect(await daemon.textTo(dora.sms, 2)).toContain("The customer wrote: Are you there?");
  expect(daemon.textsTo(anna)).toEqual([colleague]);
});

it.concurrent("mode ai ends nothing that the platform knows nothing of", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startEscalationDaemon(onTestFinished, { clock, escalation: doraAlone });
  await daemon.text("Hello");
  await daemon.textTo(anna);
  await daemon.quiet();
  await daemon.app().scheduler.commit((q) => q.run("UPDATE polls SET mode = 'manual'"));
  daemon.api.fault({ code: 21211 }, { times: 1 });
  await daemon.text("Where is my lamp?");
  await daemon.textTo(dora.sms);
  await daemon.quiet();
  await daemon.look(anna);
  await daemon.quiet();
  expect(await daemon.rows("SELECT mode FROM polls")).toEqual([{ mode: "ai" }]);
  expect((await daemon.escalations()).map(({ state, cause }) => [state, cause])).toEqual([["open", "turn-failed"]]);
  clock.forward(16 * 60_000);
  await daemon.mailTo(chief.email);
});
