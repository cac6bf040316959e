// Time in a call: a slow agent, a silent caller, a call without end.

import { expect, test } from "vitest";
import type { PhoneCall } from "../../../src/sandbox/phone.ts";
import { dialedFixture } from "../../support/voice/adapter.ts";

const said = (call: PhoneCall): string[] =>
  call.frames.filter(({ frame }) => frame["type"] === "text").map(({ frame }) => String(frame["token"]).trim());
const config = {
  collect: "0ms",
  phrases: [
    {
      language: "en",
      fillers: ["Filler A.", "Filler B.", "Filler C."],
      apology: "So sorry.",
      goodbye: "Bye.",
    },
  ],
};
const human = { dial: ["+15005550009"] };

test("an answer within the first second is spoken without a filler", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.says(call, "Hello?");
  await fixture.clock.passes(1100);
  await fixture.answer(call, "Yes.");
  await call.hears("Yes.");
  await fixture.clock.passes(3000);
  expect(said(call)).toEqual(["Yes."]);
});

test("fillers come at their times, each another, and the answer follows in the same cycle", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.says(call, "Hello?");
  const heard: (readonly [number, number])[] = [];
  for (let passed = 0; passed < 23_000; passed += 500) {
    await fixture.clock.passes(500);
    if (said(call).length !== (heard.at(-1)?.[1] ?? 0)) heard.push([passed + 500, said(call).length]);
  }
  expect(heard).toEqual([
    [1500, 1],
    [6000, 2],
    [14_000, 3],
    [22_000, 4],
  ]);
  await fixture.answer(call, "Here is your answer.");
  const cycle = await call.hears("Here is");
  expect(cycle.text).toBe("Filler A. Filler B. Filler C. Filler A. Here is your answer.");
  expect(cycle.done).toBe(true);
  await fixture.clock.passes(9000);
  expect(said(call)).toHaveLength(5);
});

test("a filler that becomes due during our own speech follows it", async () => {
  const greeting = "Good morning, this is the support line of Example."; // 50 characters, played in 3.6 s
  const { fixture, call } = await dialedFixture({ config: { ...config, greeting, interruptible: "none" } });
  await fixture.says(call, "Hello?");
  await fixture.clock.passes(3500);
  expect(said(call)).toEqual([]);
  await fixture.clock.passes(1000);
  expect(said(call)).toEqual(["Filler A."]);
  await fixture.clock.passes(5000);
  expect(said(call)).toEqual(["Filler A.", "Filler B."]);
});

test("no filler follows the answer, and the next wait begins with another filler", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.says(call, "One?");
  await fixture.clock.passes(1300);
  await fixture.answer(call, "First.");
  await fixture.says(call, "Two?");
  await fixture.clock.passes(1300);
  await call.hears("Filler B");
  expect(said(call)).toEqual(["Filler A.", "First.", "Filler B."]);
});

test("a newer question begins a new wait and closes the cycle that was open", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.says(call, "One?");
  await fixture.clock.passes(1300);
  await call.hears("Filler A");
  await fixture.says(call, "Two?");
  await fixture.clock.passes(1000);
  expect(said(call)).toEqual(["Filler A.", ""]);
  await fixture.clock.passes(300);
  expect(said(call)).toEqual(["Filler A.", "", "Filler B."]);
});

test.each([500, 5000, 12_000, 24_000])("an answer after %i ms is spoken once", async (ms) => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.says(call, "Hello?");
  await fixture.clock.passes(ms);
  expect(await fixture.answer(call, "The answer.")).toMatchObject({ kind: "sent" });
  await call.hears("The answer.");
  expect(said(call).filter((text) => text === "The answer.")).toHaveLength(1);
});

test.each([30_000, 60_000])(
  "an answer after %i ms is too late: the caller was informed and transferred",
  async (ms) => {
    const { fixture, call } = await dialedFixture({ config: { ...config, transfer: human } });
    const asked = await fixture.says(call, "Hello?");
    await fixture.clock.passes(ms);
    expect(await fixture.answer(call, "The answer.", asked)).toMatchObject({ kind: "refused", code: "ended" });
    await fixture.clock.passes(6000);
    expect(fixture.sessions("transferring")).toMatchObject([{ reason: "no-answer" }]);
    await call.until((one) => one.verbs.some((verb) => verb.name === "Dial"));
    await call.over;
    expect(said(call).slice(-2)).toEqual([
      "So sorry.",
      "I am putting you through to a colleague. Please hold the line.",
    ]);
    expect(said(call).join()).not.toContain("The answer");
  },
);

test("without a human, giving up ends the call", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.says(call, "Hello?");
  await fixture.clock.passes(40_000);
  expect(await call.over).toBe("hangup");
  expect(said(call).slice(-2)).toEqual(["So sorry.", "Bye."]);
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "no-answer" }]);
  expect(fixture.channel.messages.at(-1)).toMatchObject({
    forHumans: { subject: "Missed call from +15005550001" },
  });
  expect(fixture.sessions("lost")).toEqual([]);
});

test("a silent caller is asked twice, then the call ends", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.clock.passes(10_000);
  expect(said(call)).toEqual([]);
  await fixture.clock.passes(2000);
  expect(said(call)).toEqual(["Are you still there?"]);
  await fixture.clock.passes(13_000);
  expect(said(call)).toEqual(["Are you still there?", "I cannot hear you. Are you still on the line?"]);
  await fixture.clock.passes(20_000);
  expect(await call.over).toBe("hangup");
  expect(said(call).at(-1)).toBe("Bye.");
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "silent" }]);
});

test("any sign of life restarts the silence timeout", async () => {
  const { fixture, call } = await dialedFixture({ config });
  for (let n = 0; n < 4; n++) {
    await fixture.clock.passes(9000);
    call.send({ type: "info", name: "clientSpeaking", value: "on" });
    await call.until(() => true);
    await fixture.clock.passes(100);
  }
  expect(said(call)).toEqual([]);
});

const speaking = (call: PhoneCall, value: "on" | "off") => call.send({ type: "info", name: "clientSpeaking", value });

test("a caller who speaks without a pause is not silent until the provider reports the end", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.clock.passes(2000);
  speaking(call, "on");
  await fixture.clock.passes(40_000);
  expect(said(call)).toEqual([]);
  speaking(call, "off");
  await fixture.clock.passes(9500);
  expect(said(call)).toEqual([]);
  await fixture.clock.passes(1000);
  expect(said(call)).toEqual(["Are you still there?"]);
});

test("an utterance ends the caller's speech, too", async () => {
  const { fixture, call } = await dialedFixture({ config });
  speaking(call, "on");
  await fixture.says(call, "Hello?");
  await fixture.answer(call, "Short.");
  await fixture.clock.passes(12_000);
  expect(said(call)).toEqual(["Short.", "Are you still there?"]);
});

test("the end of the caller's speech is assumed after a minute", async () => {
  const { fixture, call } = await dialedFixture({ config });
  speaking(call, "on");
  await fixture.clock.passes(69_000);
  expect(said(call)).toEqual([]);
  await fixture.clock.passes(2000);
  expect(said(call)).toEqual(["Are you still there?"]);
});

test("text that is not final restarts the silence timeout, and does not suspend it", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.clock.passes(9000);
  call.say("When do", { partial: true });
  await fixture.clock.passes(9500);
  expect(said(call)).toEqual([]);
  await fixture.clock.passes(1500);
  expect(said(call)).toEqual(["Are you still there?"]);
});

test("a caller who speaks during the goodbye keeps the call open", async () => {
  const { fixture, call } = await dialedFixture({ config: { ...config, silence: { asks: 0 } } });
  await fixture.clock.passes(11_300);
  await call.hears("Bye.");
  call.interrupt("By");
  await fixture.says(call, "I am here!");
  expect(await fixture.answer(call, "Good.")).toMatchObject({ kind: "sent" });
  await call.hears("Good.");
  expect(call.state).toBe("talking");
  expect(fixture.sessions("closed")).toEqual([]);
});

test("silence is measured from the end of our speech, as the provider reports it", async () => {
  const { fixture, call } = await dialedFixture({ config });
  await fixture.says(call, "Hello?");
  await fixture.answer(call, "Short.");
  call.send({ type: "info", name: "agentSpeaking", value: "on" });
  await fixture.clock.passes(5000);
  call.send({ type: "info", name: "agentSpeaking", value: "off" });
  await fixture.clock.passes(9500);
  expect(said(call)).toEqual(["Short."]);
  await fixture.clock.passes(1500);
  expect(said(call)).toEqual(["Short.", "Are you still there?"]);
});

test("a call is not longer than it may be, over all its connections", async () => {
  const { fixture, call } = await dialedFixture({ config: { ...config, max_call: "60s", silence: { after: "20s" } } });
  await fixture.clock.passes(50_000);
  call.cut();
  await call.until((one) => one.connections === 2);
  await fixture.clock.passes(20_000);
  await call.over;
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "too-long" }]);
});
