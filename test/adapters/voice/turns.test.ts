// Turns of a call over a real websocket: what is asked, what is spoken, and what never is.

import { expect, test } from "vitest";
import { caller, dialedFixture, ours } from "../../support/voice/adapter.ts";

const texts = (call: { spoken: readonly { text: string }[] }) => call.spoken.map((one) => one.text.trim());

test("a call is opened, asked, answered sentence by sentence, and closed", async () => {
  const { fixture, call } = await dialedFixture();
  expect(texts(call)).toEqual(["Hello there."]);
  await fixture.says(call, "When do you open?");
  const [opened] = fixture.sessions("opened");
  expect(opened).toMatchObject({ session: call.sid, from: { address: caller } });
  expect(fixture.channel.messages).toMatchObject([
    {
      text: "When do you open?",
      thread: { session: call.sid },
      from: { address: caller },
      to: [{ address: ours }],
    },
  ]);
  const outcome = await fixture.answer(call, "We open at **nine**. See [our page](https://example.com/hours).");
  expect(outcome.kind).toBe("sent");
  const spoken = await call.hears("nine");
  expect(spoken.tokens.map((token) => token.text)).toEqual(["We open at nine. ", "See our page."]);
  expect(spoken.done).toBe(true);
  await fixture.clock.passes(5000);
  await call.hangUp();
  await fixture.channel.until("closed", () => fixture.sessions("closed").length > 0);
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "hung-up", session: call.sid }]);
  expect(fixture.sessions("closed")[0]?.durationMs).toBeGreaterThanOrEqual(5000);
  expect(call.complaints).toEqual([]);
});

test("neither signature nor introduction is spoken", async () => {
  const { fixture, call } = await dialedFixture();
  await fixture.says(call, "Hello?");
  await fixture.answer(call, "Good day.");
  await call.hears("Good day");
  expect(texts(call).join(" ")).not.toContain("Kind regards");
});

test("prompts in quick succession are one message; empty ones are none", async () => {
  const { fixture, call } = await dialedFixture();
  for (const text of ["I want", "...", "  ", "to cancel my order."]) call.say(text);
  await expect.poll(() => call.frames.length).toBe(0);
  await fixture.clock.passes(100);
  expect(fixture.channel.messages).toEqual([]);
  await fixture.clock.passes(400);
  expect(fixture.channel.messages.map((one) => one.text)).toEqual(["I want to cancel my order."]);
});

test("partial prompts ask nothing, and a giant one is cut with a mark", async () => {
  const { fixture, call } = await dialedFixture();
  call.say("When do", { partial: true });
  await fixture.clock.passes(1000);
  expect(fixture.channel.messages).toEqual([]);
  for (const giant of ["word ".repeat(5000), "🙂a".repeat(2000)]) {
    await fixture.says(call, giant);
    const last = fixture.channel.messages.at(-1)?.text ?? "";
    expect(last.length).toBeLessThanOrEqual(2048);
    expect(last).toMatch(/ \[\.\.\.\]$/);
    expect(last.isWellFormed()).toBe(true);
  }
  await fixture.says(call, "a".repeat(2048));
  expect(fixture.channel.messages.at(-1)?.text).toBe("a".repeat(2048));
});

test("the answer to an older message is refused, also while the newer one is still being collected", async () => {
  const { fixture, call } = await dialedFixture();
  const first = await fixture.says(call, "Where is my order?");
  call.say("No, wait.");
  await fixture.clock.passes(50);
  const early = await fixture.answer(call, "It is in Hamburg.", first);
  expect(early).toMatchObject({ kind: "refused", code: "superseded" });
  await fixture.clock.passes(300);
  expect(fixture.channel.messages).toHaveLength(2);
  expect(await fixture.answer(call, "It is in Hamburg.", first)).toMatchObject({ code: "superseded" });
  expect(await fixture.answer(call, "I am waiting.")).toMatchObject({ kind: "sent" });
  await call.hears("I am waiting");
  expect(texts(call).join(" ")).not.toContain("Hamburg");
});

test("what a human writes, which answers no message, waits for the end of the caller's words", async () => {
  const { fixture, call } = await dialedFixture();
  await fixture.says(call, "Where is my order?");
  call.say("No, wait.");
  await fixture.clock.passes(50);
  expect(await fixture.answer(call, "This is Dora.", null)).toMatchObject({ kind: "deferred" });
  await fixture.clock.passes(300);
  expect(fixture.channel.messages).toHaveLength(2);
  expect(await fixture.answer(call, "This is Dora.", null)).toMatchObject({ kind: "sent" });
  await call.hears("This is Dora.");
});

test("a message has an id that no other connection of the call gives", async () => {
  const { fixture, call } = await dialedFixture();
  const ids = [await fixture.says(call, "one")];
  call.cut();
  await call.until((one) => one.connections === 2);
  ids.push(await fixture.says(call, "two"), await fixture.says(call, "three"));
  expect(new Set(ids).size).toBe(3);
});

test("a long answer is spoken in part, and the rest is offered", async () => {
  const { fixture, call } = await dialedFixture({ config: { max_sentences: 2 } });
  await fixture.says(call, "Tell me everything.");
  await fixture.answer(call, "One is first. Two is second. Three is third. Four is fourth.");
  const spoken = await call.hears("One is first");
  expect(spoken.text).toBe("One is first. Two is second. There is more to say about it. Shall I go on?");
});

test("an interrupt is stored with the part that was played and with the message whose answer was cut", async () => {
  const { fixture, call } = await dialedFixture();
  const asked = await fixture.says(call, "Tell me about it.");
  await fixture.answer(call, "It begins here. Then it goes on for long.");
  await call.hears("It begins");
  call.interrupt("It begins");
  await fixture.channel.until("interrupted", () => fixture.sessions("interrupted").length > 0);
  expect(fixture.sessions("interrupted")).toMatchObject([{ heard: "It begins", about: asked }]);
});

test("an interrupted greeting or filler concerns no message", async () => {
  const { fixture, call } = await dialedFixture();
  call.interrupt("Hel");
  await fixture.says(call, "Hello?");
  await fixture.clock.passes(1300);
  await call.hears("One moment");
  call.interrupt("One");
  await fixture.clock.passes(100);
  expect(fixture.sessions("interrupted")).toEqual([]);
  // The filler's open cycle is closed with an empty token; the next text opens a new cycle.
  expect(call.spoken.find((one) => one.text.startsWith("One moment"))?.done).toBe(true);
  expect(await fixture.answer(call, "Here I am.")).toMatchObject({ kind: "sent" });
  expect((await call.hears("Here I am")).text).toBe("Here I am.");
});

test("the language of the caller is answered in", async () => {
  const { fixture, call } = await dialedFixture({ config: { languages: [{ code: "de-DE" }] } });
  call.say("Guten Tag", { lang: "de" });
  await fixture.clock.passes(1600);
  await call.hears("Einen Moment");
  await fixture.answer(call, "Hallo.");
  await call.hears("Hallo");
  const frames = call.frames.map(({ frame }) => frame);
  expect(frames.filter((frame) => frame["type"] === "language")).toEqual([{ type: "language", ttsLanguage: "de-DE" }]);
  expect(frames.filter((frame) => frame["type"] === "text").map((frame) => frame["lang"])).toEqual(["de-DE", "de-DE"]);
});
