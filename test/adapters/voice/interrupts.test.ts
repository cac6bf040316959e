// Barge-in in every phase of a call: speech stops at once, nothing is lost, and nothing is spoken twice.

import { expect, test } from "vitest";
import type { PhoneCall } from "../../../src/sandbox/phone.ts";
import { dialedFixture, openVoiceFixture, type VoiceFixture } from "../../support/voice/adapter.ts";

type Phase = readonly [string, (fixture: VoiceFixture, call: PhoneCall) => unknown];
const phases: readonly Phase[] = [
  ["in the greeting", () => undefined],
  ["while words are collected", (_, call) => call.say("Hello?")],
  ["while the agent thinks", (fixture, call) => fixture.says(call, "Hello?")],
  [
    "in a filler",
    async (fixture, call) => {
      await fixture.says(call, "Hello?");
      await fixture.clock.passes(1300);
      await call.hears("One moment");
    },
  ],
  [
    "in the answer",
    async (fixture, call) => {
      await fixture.says(call, "Hello?");
      await fixture.answer(call, "This is the first. This is the second.");
      await call.hears("the second");
    },
  ],
  [
    "after the answer",
    async (fixture, call) => {
      await fixture.says(call, "Hello?");
      await fixture.answer(call, "Short.");
      await fixture.clock.passes(4000);
    },
  ],
  [
    "in the question whether anybody is there",
    async (fixture, call) => {
      await fixture.clock.passes(12_500);
      await call.hears("Are you still there?");
    },
  ],
];

test.each(phases)("an interrupt %s leaves a call that continues", async (_, until) => {
  const { fixture, call } = await dialedFixture();
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  await until(fixture, call);
  call.interrupt();
  // Every open cycle is closed; the next text opens a new one.
  await fixture.clock.passes(300);
  expect(call.spoken.every((one) => one.done)).toBe(true);
  await fixture.says(call, "Something else.");
  expect(await fixture.answer(call, "Something it is.")).toMatchObject({ kind: "sent" });
  expect((await call.hears("Something it is.")).text).toBe("Something it is.");
  expect(call.spoken.filter((one) => one.text === "Something it is.")).toHaveLength(1);
  expect(call.complaints).toEqual([]);
});

test("an interrupt in the text before a transfer does not stop it", async () => {
  const { fixture, call } = await dialedFixture({ config: { transfer: { dial: ["+15005550009"] } } });
  call.digit("0");
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  await fixture.clock.passes(2700);
  await call.hears("I am putting you through");
  call.interrupt("I am");
  await call.over;
  expect(fixture.sessions("transferring")).toHaveLength(1);
});

test("two hundred interrupts and questions in any order leave one answer to the last", async () => {
  const { fixture, call } = await dialedFixture();
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  let seed = 7;
  const chance = (most: number) => (seed = (seed * 16_807) % 2_147_483_647) % most;
  for (let n = 0; n < 200; n++) {
    const what = chance(5);
    if (what === 0) call.interrupt("x");
    else if (what === 1) call.say(`Question ${n}.`);
    else if (what === 2) await fixture.answer(call, `Answer to ${fixture.channel.messages.at(-1)?.text ?? "nothing"}`);
    else if (what === 3) call.send({ type: "info", name: "agentSpeaking", value: chance(2) ? "on" : "off" });
    else await fixture.clock.passes(chance(700));
  }
  await fixture.says(call, "The last question?");
  expect(await fixture.answer(call, "The last answer.")).toMatchObject({ kind: "sent" });
  await call.hears("The last answer.");
  expect(call.spoken.filter((one) => one.text.includes("The last answer"))).toHaveLength(1);
  expect(call.complaints).toEqual([]);
});

test("a hundred calls at once are each answered in their own line", async () => {
  const fixture = await openVoiceFixture();
  const calls = await Promise.all(Array.from({ length: 100 }, () => fixture.dial()));
  for (const call of calls) call.say(`I am ${call.sid}.`);
  for (let n = 0; n < 200 && fixture.channel.messages.length < calls.length; n++) await fixture.clock.passes(100);
  expect(fixture.channel.messages).toHaveLength(100);
  const said = new Map(
    fixture.channel.messages.map((one) => [("session" in one.thread && one.thread.session) || "", one]),
  );
  const outcomes = await Promise.all(
    calls.map((call) => fixture.answer(call, `You are ${call.sid}.`, said.get(call.sid)?.id ?? null)),
  );
  expect(new Set(outcomes.map((one) => one.kind))).toEqual(new Set(["sent"]));
  await Promise.all(calls.map((call) => call.hears(`You are ${call.sid}.`)));
  expect(calls.every((call) => call.spoken.filter((one) => one.by === "relay").length === 1)).toBe(true);
});
