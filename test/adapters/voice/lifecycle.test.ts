// A call from its start to its end, with lost connections: requests without a signature are rejected, and no utterance
// is lost silently.

import { getExpectedTwilioSignature } from "twilio/lib/webhooks/webhooks.js";
import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { callToken } from "../../../adapters/voice/proof.ts";
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

const relay = "wss://bridge.example/channels/line/relay";

/** What a stranger's websocket gets: the status of the refusal, or the close code. */
async function knock(
  fixture: VoiceFixture,
  headers: Record<string, string>,
  frames: readonly object[] = [],
): Promise<number> {
  const socket = new WebSocket(`${fixture.listener.url.replace("http", "ws")}/channels/line/relay`, { headers });
  return new Promise((resolve) => {
    socket.once("unexpected-response", (_, response) => resolve(response.statusCode ?? 0));
    socket.once("open", () => {
      for (const frame of frames) socket.send(JSON.stringify(frame));
    });
    socket.once("close", resolve);
    socket.on("error", () => undefined);
  });
}
const signed = (url = relay, token = authToken) => ({ "x-twilio-signature": signature(token, url) });
const setup = (callSid: string, token: string) => ({
  type: "setup",
  callSid,
  from: caller,
  to: ours,
  direction: "inbound",
  customParameters: { token },
});

test("an upgrade without the signature of exactly this address is refused", async () => {
  const fixture = await openVoiceFixture();
  const forged: Record<string, string>[] = [
    {},
    { "x-twilio-signature": "" },
    { "x-twilio-signature": "AAAA" },
    signed(relay, "another-token"),
    signed(relay.replace("wss", "https")),
    signed(`${relay}/`),
    signed(relay.replace("example", "example:443")),
    signed(relay.replace("relay", "call")),
  ];
  for (const headers of forged) expect(await knock(fixture, headers)).toBe(403);
  expect(fixture.channel.calls).toEqual([]);
});

test.each<[string, (fixture: VoiceFixture) => object]>([
  ["another call's token", (fixture) => setup("CA1", callToken(authToken, "CA2", fixture.clock.now() + 60_000))],
  ["a token of another key", (fixture) => setup("CA1", callToken("another", "CA1", fixture.clock.now() + 60_000))],
  ["no token", () => ({ ...setup("CA1", ""), customParameters: {} })],
  ["an old token", (fixture) => setup("CA1", callToken(authToken, "CA1", fixture.clock.now() - 1000))],
  ["no call", (fixture) => setup("", callToken(authToken, "", fixture.clock.now() + 60_000))],
  ["something before the setup", () => ({ type: "prompt", voicePrompt: "let me in", last: true })],
])("a signed socket with %s is closed, and nothing is stored", async (_, frame) => {
  const fixture = await openVoiceFixture();
  expect(await knock(fixture, signed(), [frame(fixture)])).toBe(1008);
  expect(fixture.channel.stored).toEqual([]);
});

test("a token works once", async () => {
  const { fixture, call } = await dialedFixture();
  const first = call.requests[0]?.posted.body ?? "";
  const token = /name="token" value="([^"]+)"/.exec(first)?.[1] ?? "";
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  expect(await knock(fixture, signed(), [setup(call.sid, token)])).toBe(1008);
  expect(fixture.sessions("opened")).toHaveLength(1);
  await fixture.says(call, "Still here?");
  expect(await fixture.answer(call, "Yes.")).toMatchObject({ kind: "sent" });
});

test("a socket that says nothing for five seconds is closed", async () => {
  const fixture = await openVoiceFixture();
  const closed = knock(fixture, signed());
  await expect.poll(() => fixture.listener.sockets()).toBe(1);
  await fixture.clock.passes(5100);
  expect(await closed).toBe(1008);
});

test("what is no frame closes the socket with 1007; unknown frames and fields do nothing", async () => {
  const { fixture, call } = await dialedFixture();
  for (const frame of [{ type: "new-thing" }, { type: 7 }, {}, { type: "prompt", voicePrompt: 7, last: true }])
    call.send(frame);
  await fixture.says(call, "Hello?");
  call.send("{");
  await call.until((one) => one.complaints.some((text) => text.includes("1007")));
});

type Phase = readonly [string, (fixture: VoiceFixture, call: Awaited<ReturnType<VoiceFixture["dial"]>>) => unknown];
const phases: readonly Phase[] = [
  ["in the greeting", () => undefined],
  ["while words are collected", (_, call) => call.say("Hello?")],
  ["while the agent thinks", (fixture, call) => fixture.says(call, "Hello?")],
  [
    "in a filler",
    async (fixture, call) => {
      await fixture.says(call, "Hello?");
      await fixture.clock.passes(1300);
    },
  ],
  [
    "in the answer",
    async (fixture, call) => {
      await fixture.says(call, "Hello?");
      await fixture.answer(call, "A long answer. With a second part.");
    },
  ],
  ["in the caller's silence", (fixture) => fixture.clock.passes(8000)],
];

test.each(phases)("a socket cut %s is lost, and the call continues over another", async (_, until) => {
  const { fixture, call } = await dialedFixture();
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  await until(fixture, call);
  call.cut();
  await call.until((one) => one.connections === 2);
  await fixture.channel.until("opened again", () => fixture.sessions("opened").length === 2);
  await fixture.channel.until("lost", () => fixture.sessions("lost").length === 1);
  await call.hears("Sorry, I lost you");
  await fixture.says(call, "And now?");
  expect(await fixture.answer(call, "Now it works.")).toMatchObject({ kind: "sent" });
  await call.hears("Now it works.");
  await call.hangUp();
  await fixture.channel.until("closed", () => fixture.sessions("closed").length === 1);
});

test("speech just before the connection broke is stored", async () => {
  const { fixture, call } = await dialedFixture();
  call.say("My last words.");
  await expect.poll(() => fixture.channel.calls.length).toBe(1);
  await fixture.clock.passes(50);
  call.cut();
  await fixture.channel.until("the words", (channel) => channel.messages.length === 1);
  expect(fixture.channel.messages[0]?.text).toBe("My last words.");
});

test("an answer that waits for the caller's return is spoken over the new connection", async () => {
  const { fixture, call } = await dialedFixture();
  const asked = await fixture.says(call, "Where is my order?");
  call.cut();
  await fixture.channel.until("lost", () => fixture.sessions("lost").length === 1);
  await call.until((one) => one.connections === 2);
  await fixture.channel.until("opened again", () => fixture.sessions("opened").length === 2);
  await fixture.clock.passes(6500);
  await call.hears("One moment");
  expect(await fixture.answer(call, "In Hamburg.", asked)).toMatchObject({ kind: "sent" });
  await call.hears("In Hamburg.");
});

test("without a line an answer waits; after the end it is refused", async () => {
  const { fixture, call } = await dialedFixture();
  await fixture.says(call, "Hello?");
  fixture.restart();
  expect(await fixture.answer(call, "Hi.")).toMatchObject({ kind: "deferred", retryAfterMs: 500 });
  await call.hangUp();
  await fixture.channel.until("closed", () => fixture.sessions("closed").length === 1);
  expect(await fixture.answer(call, "Hi.")).toMatchObject({ kind: "refused", code: "ended" });
});

test("a call is resumed three times, then it ends with an apology", async () => {
  const { fixture, call } = await dialedFixture();
  for (let connections = 2; connections <= 4; connections++) {
    call.cut();
    await call.until((one) => one.connections === connections);
    await fixture.channel.until("opened", () => fixture.sessions("opened").length === connections);
  }
  call.cut();
  expect(await call.over).toBe("hangup");
  expect(call.spoken.at(-1)?.text).toBe("I am sorry, I cannot answer that right now.");
  expect(fixture.sessions("closed")).toMatchObject([{ reason: "failed" }]);
});

test("a draining daemon lets the sentence end, and the call finds the next one", async () => {
  const { fixture, call } = await dialedFixture();
  await fixture.says(call, "Hello?");
  await fixture.answer(call, "A sentence of some length, which takes two seconds or so.");
  const drained = fixture.listener.retire(fixture.adapter.routes ?? [], 10_000);
  await fixture.clock.passes(2000);
  expect(fixture.sessions("lost")).toEqual([]);
  await fixture.clock.passes(5000);
  fixture.restart();
  await drained;
  expect(fixture.sessions("lost")).toMatchObject([{ reason: "restart" }]);
  await call.until((one) => one.complaints.length > 0);
  expect(call.complaints[0]).toContain("64105");
});

test("a draining daemon completes a transfer that was announced", async () => {
  const { fixture, call } = await dialedFixture({ config: { transfer: { dial: ["+15005550009"] } } });
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  call.digit("0");
  for (let n = 0; n < 100 && !call.spoken.some(({ text }) => text.includes("putting you through")); n++)
    await fixture.clock.passes(100);
  const drained = fixture.listener.retire(fixture.adapter.routes ?? [], 10_000);
  await fixture.clock.passes(8000);
  expect(await call.over).toBe("hangup");
  await drained;
  expect(call.frames.at(-1)?.frame).toMatchObject({ type: "end" });
  expect(call.verbs.map(({ name }) => name)).toEqual(["Connect", "Dial", "Hangup"]);
  expect(call.complaints).toEqual([]);
});

test("a store that rejects writes ends the connection, and the call is resumed", async () => {
  const { fixture, call } = await dialedFixture();
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  fixture.channel.reject(1);
  call.say("Hello?");
  await fixture.clock.passes(500);
  await call.until((one) => one.complaints.some((text) => text.includes("1011")));
  await call.until((one) => one.connections === 2);
  await call.hears("Sorry, I lost you");
  await fixture.says(call, "Hello again?");
  expect(fixture.channel.messages.map((one) => one.text)).toEqual(["Hello again?"]);
});

test("callers without a number are people of one call", async () => {
  const fixture = await openVoiceFixture();
  for (const from of ["anonymous", "+266696687", ""]) {
    const call = await fixture.dial({ from });
    await fixture.channel.until("opened", () => fixture.sessions("opened").some((one) => one.session === call.sid));
    expect(fixture.sessions("opened").at(-1)?.from.address).toBe(`anonymous:${call.sid}`);
  }
});

test("requests that are not signed are refused", async () => {
  const fixture = await openVoiceFixture();
  for (const path of ["call", "ended", "dialed", "voicemail", "status", "fallback"]) {
    const url = `${fixture.listener.url}/channels/line/${path}`;
    const body = new URLSearchParams({ CallSid: "CA1", SessionStatus: "completed" });
    expect((await fetch(url, { method: "POST", body })).status).toBe(403);
    const other = signature("another", `${publicUrl}/channels/line/${path}`, Object.fromEntries(body));
    expect((await fetch(url, { method: "POST", body, headers: { "x-twilio-signature": other } })).status).toBe(403);
  }
  expect(fixture.channel.calls).toEqual([]);
});

test("accepts repeated and blank parameters as they are signed, and refuses more of them than a provider sends", async () => {
  const fixture = await openVoiceFixture();
  const post = (pairs: readonly (readonly [string, string])[]) => {
    const form: Record<string, string | string[]> = {};
    for (const [name, value] of pairs) form[name] = name in form ? [form[name] ?? "", value].flat() : value;
    const signed = getExpectedTwilioSignature(authToken, `${publicUrl}/channels/line/status`, form);
    const body = new URLSearchParams(pairs.map(([name, value]): [string, string] => [name, value]));
    const url = `${fixture.listener.url}/channels/line/status`;
    return fetch(url, { method: "POST", body, headers: { "x-twilio-signature": signed } });
  };
  const pairs = [
    ["CallSid", "CA1"],
    ["CallStatus", "ringing"],
    ["CallerName", ""],
    ...["b", "a", "b"].map((value) => ["AddOns", value] as const),
  ] as const;
  expect((await post(pairs)).status).toBe(204);
  const many = Array.from({ length: 1001 }, (_, at) => [`field${at}`, ""] as const);
  expect((await post([...pairs, ...many])).status).toBe(403);
});

test("a connection that another one replaced does not report the call as lost", async () => {
  const fixture = await openVoiceFixture();
  const connect = async (): Promise<{ readonly socket: WebSocket; readonly heard: string[] }> => {
    const url = `${publicUrl}/channels/line/call`;
    const form = { CallSid: "CA1" };
    const { body } = await postSigned({ url, via: fixture.listener.url, form, token: authToken });
    const token = /name="token" value="([^"]+)"/.exec(body)?.[1] ?? "";
    const heard: string[] = [];
    const address = `${fixture.listener.url.replace("http", "ws")}/channels/line/relay`;
    const socket = new WebSocket(address, { headers: signed() });
    socket.on("message", (data: Buffer) => heard.push(String(JSON.parse(data.toString()).token)));
    socket.on("open", () => socket.send(JSON.stringify(setup("CA1", token))));
    return { socket, heard };
  };
  const first = await connect();
  const closed = new Promise((resolve) => first.socket.once("close", resolve));
  await fixture.channel.until("opened", () => fixture.sessions("opened").length === 1);
  const second = await connect();
  expect(await closed).toBe(1000);
  expect(fixture.sessions("opened")).toHaveLength(2);
  expect(fixture.sessions("lost")).toEqual([]);
  const call = { sid: "CA1" } as Parameters<VoiceFixture["answer"]>[0];
  expect(await fixture.answer(call, "Here.", null)).toMatchObject({ kind: "sent" });
  await expect.poll(() => second.heard).toEqual(["Here."]);
  expect(first.heard).toEqual([]);
  second.socket.terminate();
  await fixture.channel.until("lost", () => fixture.sessions("lost").length === 1);
});
