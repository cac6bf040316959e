// Keys, and the ways to a human: what is stored first, then the sentence, then the frame.

import { expect, test } from "vitest";
import type { PhoneCall, PhoneOptions } from "../../../src/sandbox/phone.ts";
import { postSigned } from "../../../src/sandbox/twilio-webhooks.ts";
import {
  authToken,
  dialedFixture,
  openVoiceFixture,
  type VoiceFixture,
  type VoiceFixtureOptions,
} from "../../support/voice/adapter.ts";

const human = { dial: ["+15005550009", "sip:desk@example.com"], timeout: "20s" };
const verbs = (call: PhoneCall) => call.verbs.map((verb) => verb.name);
const xml = (call: PhoneCall, at = -1) => call.requests.at(at)?.posted.body ?? "";
const logs = (fixture: VoiceFixture) => JSON.stringify(fixture.channel.logged);

async function ask(fixture: VoiceFixture, options: { readonly key?: string } = {}): Promise<PhoneCall> {
  const call = await fixture.dial();
  call.digit(options.key ?? "0");
  await expect.poll(() => fixture.channel.calls.length).toBeGreaterThan(0);
  // No further than needed: a caller who comes back does so in real time.
  const transferred = () => call.frames.some(({ frame }) => frame["type"] === "end");
  for (let n = 0; n < 90 && !transferred(); n++) await fixture.clock.passes(100);
  await fixture.clock.passes(0);
  return call;
}
const withHuman = (over: object, phone: Partial<PhoneOptions> = {}): VoiceFixtureOptions => ({
  config: { transfer: { ...human, ...over } },
  phone,
});

test("keys are one message, ended by # or a pause, and never logged", async () => {
  const { fixture, call } = await dialedFixture();
  for (const key of "4321#") call.digit(key);
  await fixture.channel.until("the keys", (channel) => channel.messages.length === 1);
  for (const key of "0987") call.digit(key);
  await fixture.clock.passes(2400);
  expect(fixture.channel.messages).toHaveLength(1);
  await fixture.clock.passes(300);
  expect(fixture.channel.messages).toMatchObject([
    { text: "4321", notes: { input: "keypad" } },
    { text: "0987", notes: { input: "keypad" } },
  ]);
  expect(logs(fixture)).not.toMatch(/4321|0987/);
});

test("keys that were not complete when the connection was lost are a message, and so are the following ones", async () => {
  const { fixture, call } = await dialedFixture({ config: { transfer: human } });
  for (const key of "12") call.digit(key);
  await fixture.clock.passes(100);
  call.cut();
  await call.until((one) => one.connections === 2);
  for (const key of "34#") call.digit(key);
  await fixture.channel.until("the keys", (channel) => channel.messages.length === 2);
  expect(fixture.channel.messages).toMatchObject([
    { text: "12", notes: { input: "keypad" } },
    { text: "34", notes: { input: "keypad" } },
  ]);
  call.digit("0");
  await fixture.clock.passes(100);
  call.cut();
  await call.until((one) => one.connections === 3);
  expect([fixture.channel.messages.length, fixture.sessions("transferring")]).toEqual([2, []]);
});

test("keys can be kept from the agent", async () => {
  const { fixture, call } = await dialedFixture({ config: { digits: { as_message: false } } });
  for (const key of "4321#") call.digit(key);
  await fixture.clock.passes(4000);
  expect(fixture.channel.messages).toEqual([]);
});

test("the key for a human: stored transfer, sentence, end with data, Dial", async () => {
  const { fixture, call } = await dialedFixture(withHuman({}));
  call.digit("0");
  await expect.poll(() => fixture.channel.calls.length).toBeGreaterThan(0);
  const frames = () => call.frames.map(({ frame }) => frame);
  fixture.channel.hold();
  await fixture.clock.passes(9000);
  // Not before it is stored.
  expect(frames()).toEqual([]);
  fixture.channel.release();
  await call.hears("I am putting you through");
  expect(frames().some((frame) => frame["type"] === "end")).toBe(false);
  await fixture.clock.passes(6000);
  await call.over;
  expect(fixture.sessions("transferring")).toMatchObject([{ reason: "asked", session: call.sid }]);
  const data = String(frames().at(-1)?.["handoffData"]);
  expect(JSON.parse(data)).toEqual({ reason: "asked", call: call.sid, language: "en-US" });
  expect(call.requests.map(({ form }) => form["SessionStatus"] ?? form["DialCallStatus"])).toEqual([
    undefined,
    "ended",
    "completed",
  ]);
  expect(xml(call, 1)).toBe(
    '<?xml version="1.0" encoding="UTF-8"?><Response>' +
      '<Dial action="https://bridge.example/channels/line/dialed?r=asked" method="POST" timeout="20" answerOnBridge="true">' +
      "<Number>+15005550009</Number><Sip>sip:desk@example.com</Sip></Dial></Response>",
  );
  expect(xml(call)).toBe('<?xml version="1.0" encoding="UTF-8"?><Response><Hangup/></Response>');
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "transferred" }]);
});

test("without a transfer the key is a key", async () => {
  const fixture = await openVoiceFixture();
  await ask(fixture);
  expect(fixture.channel.messages.map((one) => one.text)).toEqual(["0"]);
  expect(fixture.sessions("transferring")).toEqual([]);
});

test("another key reaches a human where the configuration says so", async () => {
  const fixture = await openVoiceFixture({ config: { transfer: human, digits: { human: "9" } } });
  await ask(fixture, { key: "9" });
  expect(fixture.sessions("transferring")).toHaveLength(1);
});

test("Enqueue carries the task, Redirect the address; the call is over for us", async () => {
  const queue = { enqueue: { workflow_sid: "WW1", attributes: { "a<b": '"&' } } };
  const fixture = await openVoiceFixture({ config: { transfer: queue } });
  const call = await ask(fixture);
  expect(await call.over).toBe("enqueued");
  const task = `{&quot;a&lt;b&quot;:&quot;\\&quot;&amp;&quot;,&quot;call_sid&quot;:&quot;${call.sid}&quot;,&quot;reason&quot;:&quot;asked&quot;,&quot;language&quot;:&quot;en-US&quot;}`;
  expect(xml(call)).toContain(`<Enqueue workflowSid="WW1"><Task>${task}</Task></Enqueue>`);
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "transferred" }]);

  const studio = "https://webhooks.twilio.com/v1/Flows/FW1?FlowEvent=return&x=1";
  const other = await openVoiceFixture({ config: { transfer: { redirect: studio } } });
  const second = await ask(other);
  await second.until((one) => verbs(one).includes("Redirect"));
  const handed = second.requests.find(({ form }) => form["SessionStatus"] === "ended")?.posted.body;
  expect(handed).toContain(`<Redirect method="POST">${studio.replace("&", "&amp;")}</Redirect>`);
});

test.each(["busy", "no-answer", "failed"] as const)(
  "nobody takes it (%s): a message is left for humans",
  async (status) => {
    const fixture = await openVoiceFixture(withHuman({}, { dialed: () => status }));
    const call = await ask(fixture);
    expect(await call.over).toBe("hangup");
    expect(verbs(call).slice(-4)).toEqual(["Dial", "Say", "Record", "Hangup"]);
    const [message, ...more] = fixture.channel.messages;
    expect(more).toEqual([]);
    expect(message).toMatchObject({ forHumans: { subject: "Voicemail from +15005550001" } });
    expect(message?.text).toMatch(/Recording: https:\/\/api\.twilio\.com.*RE/);
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "voicemail" }]);
  },
);

test("the transfer is not answered: back to the agent, or the end, as configured", async () => {
  const back = await openVoiceFixture(withHuman({ no_answer: "agent" }, { dialed: () => "no-answer" }));
  const call = await ask(back);
  await call.until((one) => one.connections === 2);
  await call.hears("I am sorry");
  await back.says(call, "Then you help me.");
  expect(await back.answer(call, "I will.")).toMatchObject({ kind: "sent" });

  // The agent is unavailable and the transfer was not answered: the call does not start over.
  for (let n = 0; n < 2 && call.state !== "over"; n++) {
    call.cut();
    await call.until((one) => one.state === "over" || one.connections > 2 + n);
  }
  expect(await call.over).toBe("hangup");
  expect(verbs(call)).toContain("Record");

  const end = await openVoiceFixture(withHuman({ no_answer: "end" }, { dialed: () => "no-answer" }));
  const other = await ask(end);
  expect(await other.over).toBe("hangup");
  expect(end.sessions("closed")).toMatchObject([{ reason: "no-answer" }]);
  expect(end.channel.messages).toMatchObject([{ forHumans: { subject: "Missed call from +15005550001" } }]);
});

test("the transfer is not answered and nothing is recorded: responders are still notified of the call", async () => {
  const fixture = await openVoiceFixture(withHuman({}));
  const form = { CallSid: "CA1", From: "+15005550001", To: "+15005550006", Digits: "" };
  const url = "https://bridge.example/channels/line/voicemail";
  const { body } = await postSigned({ url, via: fixture.listener.url, form, token: authToken });
  expect(body).toContain("<Hangup/>");
  expect(fixture.channel.messages).toMatchObject([{ forHumans: { subject: "Missed call from +15005550001" } }]);
});

test("hand-off data alone transfers nothing", async () => {
  const { fixture, call } = await dialedFixture(withHuman({}));
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  const form = { CallSid: call.sid, SessionStatus: "ended", HandoffData: '{"reason":"asked"}' };
  const url = "https://bridge.example/channels/line/ended";
  const { body } = await postSigned({ url, via: fixture.listener.url, form, token: authToken });
  expect(body).not.toContain("Dial");
  expect(body).toContain("<Hangup/>");
});

test("an agent that cannot be reached leads to the human", async () => {
  const { fixture, call } = await dialedFixture({ config: { transfer: human, resume: { times: 0 } } });
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  call.cut();
  await call.over;
  expect(verbs(call).slice(-3)).toEqual(["Say", "Dial", "Hangup"]);
  expect(fixture.sessions("transferring")).toMatchObject([{ reason: "lost" }]);
});

const at = (path: string) => `https://bridge.example/channels/line/${path}`;
const apology = '<Say language="en-US">I am sorry, I cannot answer that right now.</Say>';
async function fallsBack(fixture: VoiceFixture, more: Record<string, string> = {}): Promise<string> {
  const form = { CallSid: "CA1", From: "+15005550001", To: "+15005550006", ...more };
  const posted = { url: at("fallback"), via: fixture.listener.url, form, token: authToken };
  return (await postSigned(posted)).body.replace(/^.*?<Response>(.*)<\/Response>$/, "$1");
}

/** The provider's status callback at the end of the call. */
async function reportEnd(fixture: VoiceFixture, CallSid: string): Promise<void> {
  const form = { CallSid, From: "+15005550001", To: "+15005550006", CallStatus: "completed" };
  const posted = postSigned({ url: at("status"), via: fixture.listener.url, form, token: authToken });
  await fixture.clock.passes(60_000);
  await posted;
}

test("the fallback needs nothing but the configuration", async () => {
  const fixture = await openVoiceFixture(withHuman({ caller_id: "+15005550006" }));
  fixture.channel.reject(1000);
  expect(await fallsBack(fixture)).toBe(
    `${apology}<Dial action="${at("dialed")}?r=lost" method="POST" timeout="20" callerId="+15005550006" answerOnBridge="true">` +
      "<Number>+15005550009</Number><Sip>sip:desk@example.com</Sip></Dial>",
  );
  expect(fixture.channel.calls).toEqual([]);
});

test.each([
  [{ enqueue: { workflow_sid: "WW1" } }, '<Enqueue workflowSid="WW1">'],
  [{ redirect: "https://studio.example/flow" }, '<Redirect method="POST">https://studio.example/flow</Redirect>'],
])("the fallback transfers a call as it is configured: %o", async (transfer, verb) => {
  const fixture = await openVoiceFixture({ config: { transfer } });
  expect(await fallsBack(fixture)).toContain(apology + verb);
});

test.each([
  ["voicemail", "Voicemail from +15005550001"],
  ["agent", "Voicemail from +15005550001"],
  ["end", "Missed call from +15005550001"],
] as const)(
  "responders are notified once of a call that fell back and was not answered (no_answer: %s)",
  async (no_answer, subject) => {
    const fixture = await openVoiceFixture(withHuman({ no_answer }, { dialed: () => "no-answer" }));
    const call = await fixture.dial({ url: at("nothing"), fallback: at("fallback") });
    expect(await call.over).toBe("hangup");
    expect(verbs(call)).toContain("Dial");
    await reportEnd(fixture, call.sid);
    expect(fixture.channel.messages.map(({ forHumans }) => forHumans?.subject)).toEqual([subject]);
  },
);

test.each(["before the agent had the call", "in the middle of the call"])(
  "responders are notified once of a caller who fell back %s and hangs up in the voicemail",
  async (when) => {
    const fixture = await openVoiceFixture(withHuman({}));
    const call = { CallSid: "CA1", From: "+15005550001", To: "+15005550006" };
    if (when === "in the middle of the call") await fixture.dial({ callSid: call.CallSid });
    await fallsBack(fixture);
    const form = { ...call, DialCallStatus: "no-answer" };
    const url = `${at("dialed")}?r=lost`;
    const { body } = await postSigned({ url, via: fixture.listener.url, form, token: authToken });
    expect(body).toContain("<Record");
    expect(fixture.channel.messages).toEqual([]);
    await reportEnd(fixture, call.CallSid);
    expect(fixture.channel.messages.map(({ forHumans }) => forHumans?.subject)).toEqual([
      "Missed call from +15005550001",
    ]);
    expect(fixture.sessions("closed")).toMatchObject([{ reason: "no-answer" }]);
  },
);

test("responders are notified of a call that fell back and cannot be transferred", async () => {
  const fixture = await openVoiceFixture();
  const call = await fixture.dial({ url: at("nothing"), fallback: at("fallback") });
  expect(await call.over).toBe("hangup");
  await fixture.channel.until("the missed call", ({ messages }) => messages.length === 1);
  expect(fixture.channel.messages).toMatchObject([{ forHumans: { subject: "Missed call from +15005550001" } }]);
});

test("the fallback of a Dial's result does not ring again, and answers without the store", async () => {
  const fixture = await openVoiceFixture(withHuman({}));
  fixture.channel.hold();
  const failed = { ErrorCode: "11200", ErrorUrl: `${at("dialed")}?r=lost` };
  expect(await fallsBack(fixture, failed)).toBe(`${apology}<Hangup/>`);
  fixture.channel.release();
  await fixture.channel.until("the missed call", ({ messages }) => messages.length === 1);
  fixture.channel.reject();
  expect(await fallsBack(fixture, { ...failed, CallSid: "CA2" })).toBe(`${apology}<Hangup/>`);
  await fixture.channel.until("the failure", ({ logged }) => logged.some(({ level }) => level === "error"));
});
