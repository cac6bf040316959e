// Calls that come back: after a transfer, after their end was stored, while we go down, over two connections at once.

import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { postSigned, signature } from "../../../src/sandbox/twilio-webhooks.ts";
import {
  authToken,
  caller,
  dialedFixture,
  openVoiceFixture,
  ours,
  publicUrl,
  type VoiceFixture,
} from "../../support/voice/adapter.ts";

const base = `${publicUrl}/channels/line`;
const human = { dial: ["+15005550009"] };

/** The response to the provider's request at one of our URLs. */
async function posted(fixture: VoiceFixture, path: string, form: Record<string, string>): Promise<string> {
  const all = { CallSid: "CA1", From: caller, To: ours, Direction: "inbound", ...form };
  return (await postSigned({ url: base + path, via: fixture.listener.url, form: all, token: authToken })).body;
}

/** Another connection of the call `CA1`. */
async function connects(fixture: VoiceFixture): Promise<WebSocket> {
  const token = /name="token" value="([^"]+)"/.exec(await posted(fixture, "/call", {}))?.[1] ?? "";
  const headers = { "x-twilio-signature": signature(authToken, `${base.replace("https", "wss")}/relay`) };
  const socket = new WebSocket(`${fixture.listener.url.replace("http", "ws")}/channels/line/relay`, { headers });
  const setup = { type: "setup", callSid: "CA1", from: caller, to: ours, customParameters: { token } };
  socket.on("error", () => undefined);
  socket.on("open", () => socket.send(JSON.stringify(setup)));
  return socket;
}

test("speech after an unanswered transfer is new speech, also turn by turn", async () => {
  const config = { dialect: "gather", transfer: { ...human, no_answer: "agent" } };
  const { fixture, call } = await dialedFixture({ config, phone: { pace: 1, dialed: () => "no-answer" } });
  await call.until((one) => one.state === "gathering");
  call.say("Where is it?");
  await fixture.channel.until("the first words", ({ messages }) => messages.length === 1);
  await expect.poll(async () => (await fixture.answer(call, "In Hamburg.")).kind).toBe("sent");
  await call.hears("In Hamburg.");
  await call.until((one) => one.state === "gathering");
  call.digit("0");
  await call.hears("I am sorry");
  await call.until((one) => one.state === "gathering");
  call.say("Then you help me.");
  await fixture.channel.until("the new words", ({ messages }) =>
    messages.some(({ text }) => text === "Then you help me."),
  );
  await expect.poll(async () => (await fixture.answer(call, "I will.")).kind).toBe("sent");
  await call.hears("I will.");
  expect(fixture.sessions("opened")).toHaveLength(2);
  await call.hangUp();
});

test("turn by turn: a call without requests is not over while humans talk", async () => {
  const fixture = await openVoiceFixture({ config: { dialect: "gather", transfer: human } });
  await posted(fixture, "/gather", {});
  expect(await posted(fixture, "/gather?n=1&q=0", { Digits: "0" })).toContain("<Dial ");
  await fixture.clock.passes(200_000);
  expect(fixture.sessions("closed")).toEqual([]);
  await posted(fixture, "/dialed?r=asked", { DialCallStatus: "completed" });
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "transferred" }]);
});

test("turn by turn: a clock that was set back does not silence a waiting call", async () => {
  const fixture = await openVoiceFixture({ config: { dialect: "gather" } });
  await posted(fixture, "/gather", {});
  void posted(fixture, "/gather?n=1", { SpeechResult: "Where is it?" });
  await fixture.channel.until("the question", ({ messages }) => messages.length === 1);
  fixture.restart();
  // Asked an hour after now, in another process.
  const since = (fixture.clock.now() + 3_600_000).toString(36);
  const waits = posted(fixture, `/gather?n=2&t=${since}`, {});
  await fixture.clock.passes(2000);
  expect(await waits).toContain("One moment, please.");
});

test("a transfer whose frame was never sent still leads to the human", async () => {
  const fixture = await openVoiceFixture({ config: { transfer: human } });
  const line = await connects(fixture);
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  line.send(JSON.stringify({ type: "dtmf", digit: "0" }));
  fixture.channel.hold();
  const under = () => fixture.channel.calls.length > 1;
  for (let n = 0; n < 200 && !under(); n++) await fixture.clock.passes(100);
  line.terminate();
  await fixture.clock.passes(100);
  fixture.channel.release();
  await fixture.channel.until("lost", () => fixture.sessions("lost").length === 1);
  expect(fixture.sessions("transferring")).toMatchObject([{ reason: "asked" }]);
  const body = await posted(fixture, "/ended?n=0", { SessionStatus: "failed", ErrorCode: "64105" });
  expect(body).toContain("<Number>+15005550009</Number>");
});

test("a stored goodbye ends the call, although the connection broke before the provider received it", async () => {
  const fixture = await openVoiceFixture({});
  await connects(fixture);
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  await posted(fixture, "/status", { CallStatus: "completed" });
  const body = await posted(fixture, "/ended?n=0", { SessionStatus: "failed", ErrorCode: "64105" });
  expect(body).toContain("<Response><Hangup/></Response>");
});

const missed = { forHumans: { subject: `Missed call from ${caller}` } };
test.each<[string, string | null, Record<string, string> | null, object[], string]>([
  ["hangs up while a human is called", null, null, [missed], "no-answer"],
  ["hangs up before the tone of the voicemail", "no-answer", null, [missed], "no-answer"],
  [
    "leaves a voicemail",
    "no-answer",
    { RecordingSid: "RE1", RecordingUrl: "https://api.twilio.com/RE1" },
    [{ forHumans: { subject: `Voicemail from ${caller}` } }],
    "voicemail",
  ],
  ["has spoken to a human", "completed", null, [], "transferred"],
])("a caller who %s: the status callback, which comes first, knows it", async (_, dialed, voicemail, messages, end) => {
  const fixture = await openVoiceFixture({ config: { transfer: human } });
  const line = await connects(fixture);
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  line.send(JSON.stringify({ type: "dtmf", digit: "0" }));
  for (let n = 0; n < 200 && fixture.sessions("transferring").length === 0; n++) await fixture.clock.passes(100);
  line.terminate();
  expect(await posted(fixture, "/ended?n=0", { SessionStatus: "ended" })).toContain("<Dial ");
  if (voicemail !== null)
    expect(await posted(fixture, "/dialed?r=asked", { DialCallStatus: "no-answer" })).toContain("<Record ");
  const answers: string[] = [];
  void posted(fixture, "/status", { CallStatus: "completed" }).then((body) => answers.push(body));
  if (voicemail !== null) await posted(fixture, "/voicemail", voicemail);
  else if (dialed !== null) await posted(fixture, "/dialed?r=asked", { DialCallStatus: dialed });
  for (let n = 0; n < 90 && answers.length === 0; n++) await fixture.clock.passes(100);
  expect(answers).toEqual([""]);
  expect(fixture.channel.messages).toMatchObject(messages);
  expect(fixture.sessions("closed")).toMatchObject([{ reason: end }]);
});

test.each([
  ["hangs up before the tone", null, missed],
  [
    "leaves a voicemail",
    { RecordingSid: "RE1", RecordingUrl: "https://api.twilio.com/RE1" },
    { forHumans: { subject: `Voicemail from ${caller}` } },
  ],
])("a caller who %s, when the provider sends no status callback", async (_, voicemail, message) => {
  const transfer = { ...human, voicemail_length: "60s" };
  const fixture = await openVoiceFixture({ config: { transfer } });
  expect(await posted(fixture, "/dialed?r=lost", { DialCallStatus: "no-answer" })).toContain("<Record ");
  await fixture.clock.passes(59_000);
  expect(fixture.channel.messages).toEqual([]);
  if (voicemail !== null) await posted(fixture, "/voicemail", voicemail);
  await fixture.clock.passes(61_000);
  await fixture.channel.until("the end", () => fixture.sessions("closed").length === 1);
  expect(fixture.channel.messages).toMatchObject([message]);
  await posted(fixture, "/status", { CallStatus: "completed" });
  expect(fixture.channel.messages).toHaveLength(1);
  expect(fixture.sessions("closed")).toHaveLength(1);
});

test("a call that continues after its end was stored ends again", async () => {
  const fixture = await openVoiceFixture({});
  await connects(fixture);
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  await posted(fixture, "/status", { CallStatus: "completed" });
  await posted(fixture, "/status", { CallStatus: "completed" });
  expect(fixture.sessions("closed")).toHaveLength(1);
  await connects(fixture);
  await fixture.channel.until("opened again", () => fixture.sessions("opened").length === 2);
  await posted(fixture, "/status", { CallStatus: "completed" });
  expect(fixture.sessions("closed")).toHaveLength(2);
});

test("tries to reach a door that is closed are not spent at once", async () => {
  const fixture = await openVoiceFixture({});
  const form = { SessionStatus: "failed", ErrorCode: "64102" };
  const first = await posted(fixture, "/ended?n=0", form);
  expect(first).toMatch(/<Response><Say [^>]*>One moment, please.<\/Say><Pause length="3"\/><Connect /);
  expect(await posted(fixture, "/ended?n=1", form)).toContain('<Pause length="6"/><Connect ');
  expect(await posted(fixture, "/ended?n=1", { ...form, ErrorCode: "64105" })).not.toContain("Pause");
});

test("a connection that breaks while the next one arrives does not report the call as lost", async () => {
  const fixture = await openVoiceFixture({});
  const first = await connects(fixture);
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  const read = fixture.channel.session.bind(fixture.channel);
  const gate = Promise.withResolvers<void>();
  let waiting = 0;
  Object.assign(fixture.channel, {
    session: async (id: Parameters<typeof read>[0]) => {
      const facts = await read(id);
      if (facts && facts.openings > 1) waiting += 1;
      if (facts && facts.openings > 1) await gate.promise;
      return facts;
    },
  });
  const second = await connects(fixture);
  await expect.poll(() => waiting).toBe(1);
  const closed = new Promise((resolve) => first.once("close", resolve));
  first.terminate();
  await closed;
  await fixture.clock.passes(500);
  expect(fixture.sessions("lost")).toEqual([]);
  gate.resolve();
  const heard = new Promise((resolve) => second.once("message", (data: Buffer) => resolve(data.toString())));
  const call = { sid: "CA1" } as Parameters<VoiceFixture["answer"]>[0];
  await expect.poll(async () => (await fixture.answer(call, "Here.", null)).kind).toBe("sent");
  expect(await heard).toContain("Here.");
});
