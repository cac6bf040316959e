// The scripted caller, against a bridge of a few lines that says what the test wants.

import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import twilio from "twilio";
import { expect, it, type TestContext } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { readTwiml } from "../../src/sandbox/call-flow.ts";
import { Phone, type PhoneOptions } from "../../src/sandbox/phone.ts";
import { eventually } from "../support/clock.ts";
import { closeServer, listen, serve } from "../support/machine/network.ts";

type Finished = TestContext["onTestFinished"];
type Form = Record<string, string>;

interface Bridge {
  readonly url: string;
  readonly ws: string;
  readonly handshakes: boolean[];
  readonly forms: { path: string; form: Form; proven: boolean }[];
  readonly frames: Record<string, unknown>[];
  socket(): WebSocket;
}

/** Answers each path with its TwiML; `__WS__` becomes the websocket's address. */
async function bridge(finished: Finished, pages: Record<string, string | ((form: Form) => string)>): Promise<Bridge> {
  const handshakes: boolean[] = [];
  const forms: Bridge["forms"] = [];
  const frames: Record<string, unknown>[] = [];
  const sockets: WebSocket[] = [];
  const server = createServer((request, response) => {
    void formOf(request).then((form) => {
      const path = request.url ?? "";
      const signature = String(request.headers["x-twilio-signature"]);
      forms.push({ path, form, proven: twilio.validateRequest("token", signature, url + path, form) });
      const page = pages[path];
      const body = typeof page === "function" ? page(form) : page;
      if (body === undefined) return void response.writeHead(404).end();
      response.writeHead(200, { "content-type": "text/xml" }).end(body.replaceAll("__WS__", `${ws}/relay`));
    });
  });
  const relays = new WebSocketServer({ server });
  relays.on("connection", (socket, request) => {
    const signature = String(request.headers["x-twilio-signature"]);
    handshakes.push(twilio.validateRequest("token", signature, `${ws}/relay`, {}));
    sockets.push(socket);
    socket.on("message", (data: Buffer) => frames.push(JSON.parse(data.toString()) as Record<string, unknown>));
  });
  await listen(server);
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const ws = `ws://127.0.0.1:${port}`;
  finished(async () => {
    for (const socket of sockets) socket.terminate();
    await closeServer(server);
  });
  return {
    url,
    ws,
    handshakes,
    forms,
    frames,
    socket() {
      const [socket] = sockets.slice(-1);
      if (!socket) throw new Error("nobody is connected");
      return socket;
    },
  };
}

const formOf = async (request: IncomingMessage): Promise<Form> =>
  Object.fromEntries(new URLSearchParams(await text(request)));

const from = "+15550100200";
const to = "+15550100100";
const relay = (more = "", inside = "") =>
  `<Response><Connect action="/ended"><ConversationRelay url="__WS__" ${more}>${inside}</ConversationRelay></Connect></Response>`;

async function call(finished: Finished, at: Bridge, more: Partial<PhoneOptions> = {}, first?: unknown) {
  const phone = new Phone({ accountSid: "AC1", authToken: "token", pace: 0.01, ...more });
  finished(() => phone.close());
  return phone.dial({ url: `${at.url}/call`, from, to, ...(first === undefined ? {} : { first }) });
}

const speak = (at: Bridge, token: string, last: boolean) =>
  at.socket().send(JSON.stringify({ type: "text", token, last }));

it("connects as Twilio does: signed form, signed handshake, setup with the parameters", async ({ onTestFinished }) => {
  const at = await bridge(onTestFinished, {
    "/call": relay('welcomeGreeting="Hi &amp; hello"', '<Parameter name="token" value="t&lt;1"/>'),
  });
  const talk = await call(onTestFinished, at);
  await eventually(() => expect(at.frames).not.toEqual([]));
  expect(at.forms).toMatchObject([{ path: "/call", proven: true, form: { CallSid: talk.sid, From: from } }]);
  expect(at.handshakes).toEqual([true]);
  expect(at.frames[0]).toMatchObject({
    type: "setup",
    callSid: talk.sid,
    from,
    to,
    customParameters: { token: "t<1" },
  });
  expect(talk.spoken).toMatchObject([{ by: "greeting", text: "Hi & hello" }]);
});

it("talks: prompts, cycles of tokens, an interruption, digits", async ({ onTestFinished }) => {
  const at = await bridge(onTestFinished, { "/call": relay() });
  const talk = await call(onTestFinished, at);
  talk.say("one", { partial: true });
  talk.say("one two");
  talk.digit("7");
  await eventually(() => expect(at.frames).toHaveLength(4));
  expect(at.frames.slice(1)).toEqual([
    { type: "prompt", voicePrompt: "one", lang: "en-US", last: false },
    { type: "prompt", voicePrompt: "one two", lang: "en-US", last: true },
    { type: "dtmf", digit: "7" },
  ]);
  speak(at, "First. ", false);
  speak(at, "Second.", true);
  speak(at, "Third", false);
  expect(await talk.hears("Third")).toMatchObject({ text: "Third", done: false });
  expect(talk.spoken).toMatchObject([{ text: "First. Second.", done: true }, { text: "Third" }]);
  talk.interrupt("Thi");
  await eventually(() => expect(at.frames).toHaveLength(5));
  expect(at.frames[4]).toMatchObject({ type: "interrupt", utteranceUntilInterrupt: "Thi" });
  expect(talk.spoken[1]?.interruptedAt).not.toBeNull();
  speak(at, "", true);
  await talk.until(({ spoken }) => spoken[1]?.done);
  expect(talk.complaints).toEqual([]);
});

it("complains of frames that Twilio would not take", async ({ onTestFinished }) => {
  const at = await bridge(onTestFinished, { "/call": relay() });
  const talk = await call(onTestFinished, at);
  for (const bad of ["no json", '{"type":"stop"}', '{"type":"text"}', '{"type":"text","token":"a","final":true}'])
    at.socket().send(bad);
  await talk.until(({ complaints }) => complaints.length === 4);
  expect(talk.complaints).toEqual(["no JSON object", "unknown type stop", "text without token", "text: final"]);
  expect(talk.spoken).toEqual([]);
});

it("asks the action address when the line breaks, and connects again as that says", async ({ onTestFinished }) => {
  const at = await bridge(onTestFinished, { "/call": relay(), "/ended": relay('welcomeGreeting="Again"') });
  const talk = await call(onTestFinished, at);
  talk.cut();
  await talk.until(({ connections }) => connections === 2);
  await talk.hears("Again");
  expect(at.forms[1]).toMatchObject({
    path: "/ended",
    proven: true,
    form: { CallSid: talk.sid, SessionStatus: "failed", ErrorCode: "64105", CallStatus: "in-progress" },
  });
  at.socket().close(1012);
  await talk.until(({ connections }) => connections === 3);
  await talk.hangUp();
  expect(await talk.over).toBe("hung-up");
  expect(at.forms.at(-1)).toMatchObject({
    path: "/ended",
    form: { SessionStatus: "completed", CallStatus: "completed" },
  });
});

it("follows a transfer to a human, to voicemail and to its end", async ({ onTestFinished }) => {
  const at = await bridge(onTestFinished, {
    "/call": relay(),
    "/ended": '<Response><Say>One moment</Say><Dial action="/dialed"><Number>+15550100300</Number></Dial></Response>',
    "/dialed": '<Response><Record action="/voicemail"/></Response>',
    "/voicemail": "<Response><Hangup/></Response>",
  });
  const talk = await call(onTestFinished, at, {
    dialed: (target) => (target === "+15550100300" ? "busy" : "completed"),
  });
  at.socket().send(JSON.stringify({ type: "end", handoffData: '{"reason":"asked"}' }));
  expect(await talk.over).toBe("hangup");
  expect(at.forms.slice(1)).toMatchObject([
    { path: "/ended", form: { SessionStatus: "ended", HandoffData: '{"reason":"asked"}' } },
    { path: "/dialed", form: { DialCallStatus: "busy" } },
    { path: "/voicemail", form: { RecordingDuration: "7" } },
  ]);
  expect(talk.verbs.map(({ name }) => name)).toEqual(["Connect", "Say", "Dial", "Record", "Hangup"]);
  expect(talk.spoken.at(-1)).toMatchObject({ by: "say", text: "One moment" });
});

it("speaks into a Gather, and is silent in one", async ({ onTestFinished }) => {
  const listening = '<Response><Gather input="speech" action="/said"><Say>Go on</Say></Gather><Hangup/></Response>';
  const at = await bridge(onTestFinished, { "/call": listening, "/said": listening });
  const talk = await call(onTestFinished, at, { pace: 0.1 });
  expect(talk.state).toBe("gathering");
  talk.say("Hello");
  expect(await talk.over, "then nothing is said").toBe("hangup");
  expect(at.forms[1]).toMatchObject({ path: "/said", form: { SpeechResult: "Hello" } });
});

it("is refused before the upgrade with 64102, and goes to the fallback without TwiML", async ({ onTestFinished }) => {
  const at = await bridge(onTestFinished, {
    "/call": '<Response><Connect action="/ended"><ConversationRelay url="ws://127.0.0.1:1/x"/></Connect></Response>',
    "/late": "<Response><Say>Sorry</Say></Response>",
  });
  const phone = new Phone({ accountSid: "AC1", authToken: "token" });
  const talk = await phone.dial({ url: `${at.url}/call`, fallback: `${at.url}/late`, from, to });
  expect(await talk.over).toBe("done");
  expect(at.forms.map(({ path }) => path)).toEqual(["/call", "/ended", "/late"]);
  expect(at.forms[1]?.form).toMatchObject({ SessionStatus: "failed", ErrorCode: "64102" });
  expect(talk.spoken).toMatchObject([{ text: "Sorry" }]);
});

it("connects to the configured address, and signs what is configured", async ({ onTestFinished }) => {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    void formOf(request).then((form) => {
      const signature = String(request.headers["x-twilio-signature"]);
      const good = twilio.validateRequest("token", signature, "https://bridge.example.com/call?a=1", form);
      seen.push(`${request.url} ${good}`);
      response.writeHead(200, { "content-type": "text/xml" }).end("<Response/>");
    });
  });
  const via = await serve(server, onTestFinished);
  const phone = new Phone({ accountSid: "AC1", authToken: "token", via });
  const talk = await phone.dial({ url: "https://bridge.example.com/call?a=1#rc=2", from, to });
  expect(await talk.over).toBe("done");
  expect(seen).toEqual(["/call?a=1 true"]);
});

it.each([
  ["an ampersand", "<Response><Say>a & b</Say></Response>", "no entity"],
  ["an angle in an attribute", '<Response><Say a="<"/></Response>', "bad XML"],
  ["a wrong end", "<Response><Say></Response>", "closes <Say>"],
  ["no end", "<Response><Say>", "is not closed"],
  ["two responses", "<Response/><Response/>", "not one"],
  ["an attribute twice", '<Response a="1" a="2"/>', "twice"],
  ["words outside", "hello", "not one"],
])("refuses TwiML with %s", (_what, xml, complaint) => {
  expect(() => readTwiml(xml)).toThrow(complaint);
});
