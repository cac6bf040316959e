// A reply that escalates: it is spoken completely, then the call is transferred as configured; without a configured
// transfer the call continues.

import { expect, test } from "vitest";
import type { PhoneCall } from "../../../src/sandbox/phone.ts";
import { dialedFixture, type VoiceFixture, type VoiceFixtureOptions } from "../../support/voice/adapter.ts";

const human = { dial: ["+15005550009"] };
const words = "Somebody else can help you with that.";
const spoken = (call: PhoneCall) => call.spoken.map(({ text }) => text.trim());
const verbs = (call: PhoneCall) => call.verbs.map(({ name }) => name);

/** No further than needed: what follows may happen in real time. */
async function transferred(fixture: VoiceFixture, call: PhoneCall): Promise<void> {
  for (let n = 0; n < 300 && !isEnding(call); n++) await fixture.clock.passes(100);
  expect(fixture.sessions("transferring")).toMatchObject([{ reason: "escalated" }]);
}

const isEnding = (call: PhoneCall) => call.frames.some(({ frame }) => frame["type"] === "end");

async function asked(options: VoiceFixtureOptions): Promise<{ fixture: VoiceFixture; call: PhoneCall }> {
  const { fixture, call } = await dialedFixture(options);
  await fixture.says(call, "I want a refund.");
  return { fixture, call };
}

const escalates = (fixture: VoiceFixture, call: PhoneCall) =>
  fixture.answer(call, words, undefined, { transfer: true });

test("over a socket: what is stored, the whole answer, then the human", async () => {
  const { fixture, call } = await asked({ config: { transfer: human } });
  expect(await escalates(fixture, call)).toMatchObject({ kind: "sent" });
  await call.hears(words);
  // Playing the text takes more than two seconds: the transfer waits until it ends.
  await fixture.clock.passes(1000);
  expect(fixture.sessions("transferring")).toMatchObject([{ reason: "escalated" }]);
  expect(isEnding(call)).toBe(false);
  await transferred(fixture, call);
  expect(await call.over).toBe("hangup");
  expect(verbs(call)).toContain("Dial");
  expect(spoken(call).at(-1)).toBe(words);
  const ended = call.requests.find(({ form }) => "HandoffData" in form);
  expect(JSON.parse(ended?.form["HandoffData"] ?? "")).toMatchObject({ reason: "escalated" });
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "transferred" }]);
});

test("over a socket: what the caller says under the answer does not keep the call", async () => {
  const { fixture, call } = await asked({ config: { transfer: human } });
  await escalates(fixture, call);
  await call.hears(words);
  call.interrupt();
  await transferred(fixture, call);
  expect(await call.over).toBe("hangup");
  expect(verbs(call)).toContain("Dial");
});

test("over a socket: the transfer is not answered, and the call returns to the agent", async () => {
  const { fixture, call } = await asked({
    config: { transfer: { ...human, no_answer: "agent" } },
    phone: { dialed: () => "no-answer" },
  });
  await escalates(fixture, call);
  await transferred(fixture, call);
  await call.until(({ connections }) => connections === 2);
  await call.hears("I am sorry");
  expect(fixture.channel.messages.filter(({ forHumans }) => forHumans)).toHaveLength(1);
  await fixture.says(call, "Then you help me.");
  expect(await fixture.answer(call, "I will.")).toMatchObject({ kind: "sent" });
});

test("over a socket: without a transfer target, the call continues", async () => {
  const { fixture, call } = await asked({});
  expect(await escalates(fixture, call)).toMatchObject({ kind: "sent" });
  await call.hears(words);
  await fixture.says(call, "Who?");
  expect(await fixture.answer(call, "Dora.")).toMatchObject({ kind: "sent" });
  await call.hears("Dora.");
  expect(fixture.sessions("transferring")).toEqual([]);
});

test("over a socket: an answer that comes too late transfers nothing", async () => {
  const { fixture, call } = await asked({ config: { transfer: human } });
  const late = fixture.channel.messages.at(-1)?.id ?? null;
  await fixture.says(call, "No, wait: where is my lamp?");
  expect(await fixture.answer(call, words, late, { transfer: true })).toMatchObject({ code: "superseded" });
  expect(await fixture.answer(call, "On its way.")).toMatchObject({ kind: "sent" });
  await call.hears("On its way.");
  await fixture.clock.passes(3000);
  expect(fixture.sessions("transferring")).toEqual([]);
});

/** Turn by turn: the call waits for the answer in a request that is held open. */
async function turnByTurn(config: object): Promise<{ fixture: VoiceFixture; call: PhoneCall }> {
  const { fixture, call } = await dialedFixture({ config: { dialect: "gather", ...config }, phone: { pace: 1 } });
  await call.until(({ state }) => state === "gathering");
  call.say("I want a refund.");
  await fixture.channel.until("the question", ({ messages }) => messages.length === 1);
  await expect.poll(async () => (await escalates(fixture, call)).kind).toBe("sent");
  return { fixture, call };
}

test("turn by turn: the answer and the human are one response", async () => {
  const { fixture, call } = await turnByTurn({ transfer: human });
  await call.over;
  expect(verbs(call).slice(-3)).toEqual(["Say", "Dial", "Hangup"]);
  expect(spoken(call).at(-1)).toBe(words);
  expect(fixture.sessions("transferring")).toMatchObject([{ reason: "escalated" }]);
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "transferred" }]);
});

test("turn by turn: without a transfer target, the call continues", async () => {
  const { fixture, call } = await turnByTurn({});
  await call.hears(words);
  await call.until(({ state }) => state === "gathering");
  call.say("Who?");
  await fixture.channel.until("the next question", ({ messages }) => messages.length === 2);
  // The request is held until the answer.
  await expect.poll(async () => (await fixture.answer(call, "Dora.")).kind).toBe("sent");
  await call.hears("Dora.");
  expect(fixture.sessions("transferring")).toEqual([]);
});
