// jambonz: a scripted feature server over a real socket, and jambonz's own application library as the judge of our frames.

import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createEndpoint, type Session } from "@jambonz/node-client-ws";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket } from "ws";
import { listen } from "../../../support/machine/network.ts";
import {
  type Frame,
  type Line,
  type Switchboard,
  sessionHistory,
  switchboard,
} from "../../../support/voice/adapter.ts";
import { type CallOptions, jambonzCall } from "../../../support/voice/jambonz.ts";

const block = {
  dialect: "jambonz",
  jambonz: { user: "jambonz", password: "a-password" },
  greeting: "Hello, this is Ava.",
  fillers: { first: "30s" },
  silence: { after: "60s" },
  collect: "20ms",
};
const basic = (login: string) => ({
  headers: { authorization: `Basic ${Buffer.from(login).toString("base64")}` },
});
const login = { ...basic("jambonz:a-password"), protocols: ["ws.jambonz.org"] };
/** Every outgoing frame, for validation by the library. */
const sent: Frame[] = [];

async function call(more = {}, options: CallOptions = {}) {
  const board = await switchboard({ ...block, ...more });
  const line = await dial(board);
  const phone = jambonzCall(line, options);
  phone.begin();
  await line.until("the greeting", says("Hello, this is Ava."));
  return { board, line, phone };
}
async function dial(board: Switchboard): Promise<Line> {
  const line = await board.dial("/relay", login);
  line.watch((frame) => sent.push(frame));
  return line;
}
const says = (text: string) => (frame: Frame) => frame["data"]?.[0]?.text === text;
const until = (what: string, test: () => boolean) => expect.poll(test, { message: what }).toBe(true);

describe("a call through jambonz", () => {
  it("is answered, greeted, asked, answered, and over when the caller hangs up", async () => {
    const { board, phone } = await call();
    expect(phone.listening).toBe(true);
    phone.speak("When do you open?");
    expect(await board.heard()).toBe("When do you open?");
    expect(await board.answer("At **nine**. On Sundays never.")).toMatchObject({ kind: "sent" });
    await until("all is spoken", () => phone.played.length === 3);
    expect(phone.played).toEqual(["Hello, this is Ava.", "At nine.", "On Sundays never."]);
    expect(phone.unanswered).toBe(0);
    expect(phone.strays).toEqual([]);
    phone.hangUp();
    await board.channel.until("the end", (channel) => sessionHistory(channel).length === 2);
    expect(sessionHistory(board.channel)).toEqual(["opened", "closed hung-up"]);
    expect(board.channel.messages[0]).toMatchObject({
      from: { address: "+15005550001" },
      to: [{ address: "+15005550006" }],
    });
  });

  it("queues an answer behind a filler, which is not cut", async () => {
    const { board, phone, line } = await call(
      { fillers: { first: "30ms", second: "60ms", every: "50ms" }, speaking_rate: 40 },
      { slow: true },
    );
    phone.finish();
    phone.speak("When do you open?");
    await board.heard();
    await line.until(
      "a filler",
      (frame) =>
        frame["queueCommand"] === true && !says("Hello, this is Ava.")(frame) && frame["data"][0].verb === "say",
    );
    await board.answer("At nine.");
    await line.until("the answer", says("At nine."));
    // One filler or some more, as it happens: the answer is behind all of them.
    for (let n = 0; n < 100 && !phone.played.includes("At nine."); n++) phone.finish();
    expect(phone.cut).toEqual([]);
    expect(phone.played.at(-1)).toBe("At nine.");
    expect(phone.played.length).toBeGreaterThanOrEqual(3);
  });

  it("reports the played part on barge-in, and stops the speech", async () => {
    const { board, phone, line } = await call({}, { slow: true });
    phone.finish();
    phone.speak("Tell me all.");
    const all = await board.heard();
    await board.answer("First this. Then that. And finally more.");
    await line.until("all sentences", says("And finally more."));
    phone.finish();
    phone.speak("Enough.");
    expect(await board.heard(1)).toBe("Enough.");
    expect(phone.played).toEqual(["Hello, this is Ava.", "First this."]);
    expect(phone.cut).toEqual(["Then that."]);
    const cut = board.channel.stored.find((one) => one.kind === "session" && one.state === "interrupted");
    expect(cut).toMatchObject({
      heard: "First this.",
      about: board.channel.messages.find(({ text }) => text === all)?.id,
    });
    expect(await board.answer("As you like.")).toMatchObject({ kind: "sent" });
    await line.until("the next answer", says("As you like."));
    expect(await board.answer("Late.", "Tell me all.")).toMatchObject({
      kind: "refused",
      code: "superseded",
    });
  });

  it.each([
    [0, null],
    [1, "First this."],
    [2, "First this. Then that."],
    [3, undefined],
  ])("is interrupted after %s of three sentences", async (finished, heard) => {
    const { board, phone, line } = await call({}, { slow: true });
    phone.finish();
    phone.speak("Tell me all.");
    await board.heard();
    await board.answer("First this. Then that. And more.");
    await line.until("all sentences", says("And more."));
    for (let n = 0; n < finished; n++) phone.finish();
    phone.speak("Enough.");
    expect(await board.heard(1)).toBe("Enough.");
    const cuts = board.channel.stored.filter((one) => one.kind === "session" && one.state === "interrupted");
    // A caller who heard everything did not interrupt. If the first sentence was cut, its heard part is unknown.
    expect(cuts.map((one) => ("heard" in one ? one.heard : null))).toEqual(heard === undefined ? [] : [heard]);
    expect(phone.played).toHaveLength(1 + finished);
  });

  it("never ends an idle call by stopping", async () => {
    const { board, phone, line } = await call({}, { slow: true });
    phone.speak("Hello?");
    await board.heard();
    await line.until("a stop", (frame) => frame["queueCommand"] === false);
    expect(phone.cut).toEqual(["Hello, this is Ava."]);
    expect(await board.answer("Yes?")).toMatchObject({ kind: "sent" });
    await line.until("the answer", says("Yes?"));
    expect(sessionHistory(board.channel)).toEqual(["opened"]);
  });

  it("takes partial transcripts as a sign of life only", async () => {
    const { board, phone, line } = await call();
    phone.partial("when do");
    phone.speak("When do you open?");
    expect(await board.heard()).toBe("When do you open?");
    await until("acknowledgements", () => phone.unanswered === 0);
    expect(board.channel.messages).toHaveLength(1);
    expect(line.frames.filter(({ type }) => type === "ack")).toHaveLength(3);
  });

  it("hands keys on, and never logs them", async () => {
    const { board, phone } = await call();
    phone.press("471123");
    expect(await board.heard()).toBe("471123");
    expect(board.channel.messages[0]?.notes).toEqual({ input: "keypad" });
    expect(JSON.stringify(board.channel.logged)).not.toContain("471123");
  });

  it.each([
    ["a number", ["+15005550009"], [{ type: "phone", number: "+15005550009" }]],
    [
      "several, all at once",
      ["+15005550009", "sip:desk@example.com"],
      [
        { type: "phone", number: "+15005550009" },
        { type: "sip", sipUri: "sip:desk@example.com" },
      ],
    ],
  ])("reaches a human at %s", async (_, numbers, target) => {
    const transfer = { dial: numbers, caller_id: "+15005550006", timeout: "20s" };
    const { board, phone } = await call({ transfer });
    phone.press("0");
    await board.channel.until("the transfer", (channel) => sessionHistory(channel).length === 2);
    expect(sessionHistory(board.channel)).toEqual(["opened", "transferring asked"]);
    await until("the dial", () => phone.done.length > 0);
    expect(phone.done[0]).toEqual({
      verb: "dial",
      actionHook: "/dialed",
      answerOnBridge: true,
      timeout: 20,
      callerId: "+15005550006",
      target,
    });
    // The application does not listen to the transferred call; the sentence before it was played.
    expect(phone.listening).toBe(false);
    expect(phone.played.at(-1)).toMatch(/colleague/);
  });

  it("asks a silent caller, then says goodbye and hangs up", async () => {
    const { board, phone } = await call({ silence: { after: "30ms" } });
    await board.channel.until("the end", (channel) => sessionHistory(channel).length === 2);
    await until("the line is down", () => phone.done.some(({ verb }) => verb === "hangup"));
    expect(phone.played).toHaveLength(4);
    expect(new Set(phone.played).size).toBe(4);
    expect(sessionHistory(board.channel)).toEqual(["opened", "closed silent"]);
  });

  it("changes the language of voice and ear", async () => {
    const languages = [{ code: "de-DE", voice: "de-DE-Wavenet-B", tts_provider: "Google" }];
    const { board, phone, line } = await call({ languages });
    phone.speak("Wann machen Sie auf?", "de-DE");
    await board.heard();
    await board.answer("Um neun Uhr.");
    const answer = await line.until("the answer", says("Um neun Uhr."));
    const synthesizer = { vendor: "google", language: "de-DE", voice: "de-DE-Wavenet-B" };
    expect(answer["data"][0].synthesizer).toEqual(synthesizer);
    expect(phone.configs.at(-1)).toMatchObject({ synthesizer, recognizer: { language: "de-DE" } });
    expect(phone.listening).toBe(true);
  });

  it("resumes a call whose connection was cut: nothing is greeted, the pending answer is spoken", async () => {
    const { board, phone, line } = await call();
    phone.speak("When do you open?");
    await board.heard();
    line.cut();
    await board.channel.until("lost", (channel) => sessionHistory(channel).length === 2);
    const again = await dial(board);
    const resumed = jambonzCall(again);
    resumed.begin("session:reconnect");
    await until("a word", () => again.frames.length > 1);
    expect(again.frames[0]).toMatchObject({ type: "ack" });
    expect(await board.answer("At nine.")).toMatchObject({ kind: "sent" });
    await until("the answer", () => resumed.played.includes("At nine."));
    expect(resumed.played).not.toContain("Hello, this is Ava.");
    expect(sessionHistory(board.channel)).toEqual(["opened", "lost socket", "opened"]);
  });

  it("begins a call whose connection was lost before its beginning was acknowledged", async () => {
    const board = await switchboard(block);
    const line = await dial(board);
    const phone = jambonzCall(line, { unacknowledged: true });
    phone.begin("session:reconnect");
    await until("a word", () => phone.played.length > 0);
    expect(phone.listening).toBe(true);
    phone.speak("Hello?");
    expect(await board.heard()).toBe("Hello?");
  });

  it.each([
    ["+15005550001", "+15005550001"],
    ["15005550001", "+15005550001"],
    ["1001", "sip:1001"],
    ["anonymous", "anonymous:5f1c6e1e-0a76-4f0e-9a4b-8d8c1d9c0a01"],
    ["", "anonymous:5f1c6e1e-0a76-4f0e-9a4b-8d8c1d9c0a01"],
  ])("knows the caller %s as %s", async (from, address) => {
    const { board } = await call({}, { from });
    expect(board.channel.stored[0]).toMatchObject({ from: { address } });
  });

  it("knows whom it called", async () => {
    const { board } = await call({}, { direction: "outbound", from: "+15005550006", to: "+15005550001" });
    expect(board.channel.stored[0]).toMatchObject({ from: { address: "+15005550001" } });
  });

  it("ignores what it does not know, acknowledging what has to be, and closes on what is no frame", async () => {
    const { board, phone, line } = await call();
    line.say({ type: "llm:event", msgid: "x1", data: {} });
    line.say({ type: "verb:status", msgid: "x2", data: { event: "finished" } });
    line.say({
      type: "verb:hook",
      msgid: "x3",
      hook: "/elsewhere",
      data: { speech: { alternatives: "none" } },
    });
    await line.until("an acknowledgement", (frame) => frame["msgid"] === "x3");
    phone.speak("Still there?");
    expect(await board.heard()).toBe("Still there?");
    line.raw("}{");
    expect(await line.closed).toBe(1007);
    await board.channel.until("lost", (channel) => sessionHistory(channel).length === 2);
  });
});

describe("a client that is not our jambonz", () => {
  it.each([
    ["nobody", {}],
    ["another user", basic("other:a-password")],
    ["a wrong password", basic("jambonz:a-passwort")],
    ["an empty one", basic("jambonz:")],
    ["a token", { headers: { authorization: "Bearer a-password" } }],
  ])("is refused before the upgrade: %s", async (_, options) => {
    const board = await switchboard(block);
    expect(await board.refusal("/relay", { ...options, protocols: login.protocols })).toBe(401);
  });

  it("has to speak the protocol", async () => {
    const board = await switchboard(block);
    expect(await board.refusal("/relay", basic("jambonz:a-password"))).toBe(400);
  });
});

// The other side of the library is the application's: it makes frames as we do, and checks each verb against jambonz's
// specification. Every frame that left in the tests above is made once more by it.
describe("jambonz's own library", () => {
  const server = createServer();
  let session: Session;
  const made: Frame[] = [];
  let phone: WebSocket;

  beforeAll(async () => {
    await listen(server);
    const service = createEndpoint({ server })({ path: "/app" });
    const began = once(service, "session:new");
    phone = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}/app`, ["ws.jambonz.org"]);
    await once(phone, "open");
    phone.on("message", (data) => made.push(JSON.parse((data as Buffer).toString()) as Frame));
    const answered = once(phone, "message");
    phone.send(JSON.stringify({ type: "session:new", msgid: "m0", call_sid: "c", data: { call_sid: "c" } }));
    [session] = (await began) as [Session];
    session.send();
    await answered;
  });
  afterAll(() => {
    phone.terminate();
    server.close();
  });

  it("makes the same frames", async () => {
    expect(made[0]).toEqual({ type: "ack", msgid: "m0" });
    const commands = sent.filter(({ type }) => type === "command");
    expect(commands.length).toBeGreaterThan(20);
    const start = made.length;
    for (const { data, queueCommand } of commands) {
      for (const { verb, ...payload } of data as Frame[]) session.addVerb(verb as string, payload);
      session.send({ execImmediate: !queueCommand });
    }
    await expect.poll(() => made.length - start).toBe(commands.length);
    expect(made.slice(start)).toEqual(commands);
    const kinds = new Set(commands.flatMap(({ data }) => (data as Frame[]).map(({ verb }) => verb as string)));
    expect([...kinds].sort()).toEqual(["config", "dial", "hangup", "say"]);
  });

  it("knows the verbs with which calls begin", () => {
    const [begun] = sent.filter(({ type, data }) => type === "ack" && data !== undefined);
    expect(begun).toBeDefined();
    for (const { verb, ...payload } of (begun?.["data"] ?? []) as Frame[]) {
      expect(() => session.addVerb(verb as string, payload)).not.toThrow();
    }
    expect(() => session.addVerb("config", { bargein: {} }), "the judge is awake").toThrow();
  });
});
