// Calls turn by turn, without a websocket: <Gather> asks, and requests are held open while the agent thinks.

import { expect, test } from "vitest";
import type { PhoneCall } from "../../../../src/sandbox/phone.ts";
import { postSigned } from "../../../../src/sandbox/twilio-webhooks.ts";
import { openVoiceFixture, type VoiceFixture, type VoiceFixtureOptions } from "../../../support/voice/adapter.ts";

const gather = (config: object = {}, more: Partial<VoiceFixtureOptions> = {}): Promise<VoiceFixture> =>
  openVoiceFixture({ ...more, config: { dialect: "gather", ...config } });
const spoken = (call: PhoneCall) => call.spoken.map((one) => one.text);

/** The caller says it, and the core has it. */
async function says(fixture: VoiceFixture, call: PhoneCall, text: string): Promise<void> {
  await call.until((one) => one.state === "gathering");
  const before = fixture.channel.messages.length;
  call.say(text);
  await fixture.channel.until(`"${text}"`, (channel) => channel.messages.length > before);
}
/** The answer, tried again until a request waits for it. */
async function answer(fixture: VoiceFixture, call: PhoneCall, text: string): Promise<void> {
  const before = call.spoken.length;
  await expect.poll(async () => (await fixture.answer(call, text)).kind).toBe("sent");
  await call.until((one) => one.spoken.length > before);
  await fixture.clock.passes(0); // what was said is followed by the listening
}

test("a call continues turn by turn until the caller hangs up", async () => {
  const fixture = await gather({}, { phone: { pace: 1 } });
  const call = await fixture.dial();
  expect(spoken(call)).toEqual(["Hello there."]);
  await says(fixture, call, "When do you open?");
  await answer(fixture, call, "At **nine**. [Really](https://example.com).");
  await call.hears("Really.");
  await says(fixture, call, "And close?");
  await answer(fixture, call, "At five.");
  await call.hears("At five.");
  expect(fixture.sessions("opened")).toMatchObject([{ session: call.sid }]);
  expect(fixture.channel.messages.map((one) => [one.id, one.text])).toEqual([
    [`${call.sid}/gather/1`, "When do you open?"],
    [`${call.sid}/gather/2`, "And close?"],
  ]);
  expect(call.complaints).toEqual([]);
});

test("the first question is asked with everything we rely on written out", async () => {
  const fixture = await gather({ hints: ["R&D"] }, { phone: { pace: 1 } });
  const call = await fixture.dial();
  const bodies = call.requests.map(({ posted }) => posted.body);
  expect(bodies[0]).toMatch(
    /<Redirect method="POST">https:\/\/bridge\.example\/channels\/line\/gather\?say=[\w-]+<\/Redirect>/,
  );
  expect(bodies[1]).toBe(
    '<?xml version="1.0" encoding="UTF-8"?><Response><Gather input="speech dtmf"' +
      ' action="https://bridge.example/channels/line/gather?n=1" method="POST" language="en-US"' +
      ' speechTimeout="auto" timeout="10" finishOnKey="#" actionOnEmptyResult="true" hints="R&amp;D">' +
      '<Say language="en-US">Hello there.</Say></Gather></Response>',
  );
});

test("a request that is not signed is rejected, and the log says so", async () => {
  const fixture = await gather();
  const route = fixture.adapter.routes?.find((one) => one.kind === "http" && one.path === "/gather");
  const request = new Request(fixture.channel.url("/gather"), {
    method: "POST",
    body: new URLSearchParams({ a: "b" }),
  });
  expect(route?.kind === "http" && (await route.handle(request)).status).toBe(403);
  const message = "request rejected: unauthorized, invalid signature";
  expect(fixture.channel.logged).toContainEqual({ level: "warn", fields: { path: "/gather" }, message });
});

test("a slow agent is bridged by fillers, and then answers", async () => {
  const fixture = await gather({}, { phone: { pace: 1 } });
  const call = await fixture.dial();
  await says(fixture, call, "Where is it?");
  await fixture.clock.passes(1300);
  await call.hears("One moment, please.");
  await fixture.clock.passes(5000);
  await call.hears("I am looking into it.");
  await answer(fixture, call, "In Hamburg.");
  await call.hears("In Hamburg.");
  expect(spoken(call)).toEqual(["Hello there.", "One moment, please.", "I am looking into it.", "In Hamburg."]);
});

test("an agent that never answers leads to the human", async () => {
  const fixture = await gather({ transfer: { dial: ["+15005550009"] } }, { phone: { pace: 1 } });
  const call = await fixture.dial();
  await says(fixture, call, "Where is it?");
  for (let n = 0; n < 300 && call.state !== "over"; n++) await fixture.clock.passes(200);
  await call.over;
  expect(call.verbs.map((verb) => verb.name).slice(-3)).toEqual(["Say", "Dial", "Hangup"]);
  expect(fixture.sessions("transferring")).toMatchObject([{ reason: "no-answer" }]);
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "transferred" }]);
});

test("silence is asked about twice, then the call ends", async () => {
  const fixture = await gather();
  const call = await fixture.dial();
  expect(await call.over).toBe("hangup");
  expect(spoken(call)).toEqual([
    "Hello there.",
    "Are you still there?",
    "I cannot hear you. Are you still on the line?",
    "Thank you for calling. Goodbye.",
  ]);
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "silent" }]);
});

test("keys are a message, except the one for a human", async () => {
  const fixture = await gather({ transfer: { dial: ["+15005550009"] } }, { phone: { pace: 1 } });
  const call = await fixture.dial();
  call.digit("123");
  await fixture.channel.until("the keys", (channel) => channel.messages.length === 1);
  expect(fixture.channel.messages).toMatchObject([{ text: "123", notes: { input: "keypad" } }]);
  await answer(fixture, call, "Thanks.");
  call.digit("0");
  await call.over;
  expect(fixture.sessions("transferring")).toMatchObject([{ reason: "asked" }]);
});

test("another process continues the call where it stands", async () => {
  const fixture = await gather({}, { phone: { pace: 1 } });
  const call = await fixture.dial();
  await says(fixture, call, "Where is it?");
  fixture.restart();
  expect(await fixture.answer(call, "In Hamburg.")).toMatchObject({ kind: "deferred" });
  await fixture.clock.passes(1300); // the held request ends with a filler, the next one meets the new process
  await call.hears("One moment");
  await answer(fixture, call, "In Hamburg.");
  await call.hears("In Hamburg.");
});

test("the answer to an older message is refused", async () => {
  const fixture = await gather({}, { phone: { pace: 1 } });
  const call = await fixture.dial();
  await says(fixture, call, "One?");
  await answer(fixture, call, "First.");
  const [first] = fixture.channel.messages;
  await says(fixture, call, "Two?");
  expect(await fixture.answer(call, "First again.", first?.id ?? null)).toMatchObject({ code: "superseded" });
  await answer(fixture, call, "Second.");
});

test("a call without further requests ends", async () => {
  const fixture = await gather({}, { phone: { pace: 1 } });
  const call = await fixture.dial();
  await fixture.clock.passes(200_000);
  await fixture.channel.until("closed", () => fixture.sessions("closed").length === 1);
  expect(fixture.sessions("closed")).toMatchObject([{ session: call.sid, reason: "no-sign" }]);
});

test("a websocket that cannot be reached falls back to it", async () => {
  const fixture = await openVoiceFixture({ config: { fallback: "gather" }, phone: { pace: 1 } });
  const call = await fixture.dial({ callSid: "CA77" });
  // As Twilio reports a websocket that it could not open.
  const url = "https://bridge.example/channels/line/ended?n=0";
  const form = { CallSid: "CA78", SessionStatus: "failed", ErrorCode: "64102" };
  const { body } = await postSigned({ url, via: fixture.listener.url, form, token: "the-auth-token" });
  expect(body).toContain('<Redirect method="POST">https://bridge.example/channels/line/gather</Redirect>');
  const second = await fixture.dial({ url: "https://bridge.example/channels/line/gather", callSid: "CA78" });
  await says(fixture, second, "Hello?");
  await answer(fixture, second, "I hear you.");
  await second.hears("I hear you.");
  expect(call.state).toBe("talking");
});
