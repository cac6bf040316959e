// Telnyx Conversation Relay: webhooks signed with a real Ed25519 key, TeXML as text, and a scripted call over a real socket.

import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import { wallClock } from "bridgehead/contract/testing";
import { describe, expect, it } from "vitest";
import voice from "../../../../adapters/voice/index.ts";
import {
  type Frame,
  type Line,
  type Switchboard,
  sessionHistory,
  switchboard,
} from "../../../support/voice/adapter.ts";

const { publicKey, privateKey } = generateKeyPairSync("ed25519");
const rsaKey = generateKeyPairSync("rsa", { modulusLength: 2048 }).publicKey;
const raw = publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64");
const block = {
  dialect: "telnyx",
  telnyx: { public_key: raw, token_key: "a-key-for-tokens" },
  greeting: "Hello & <welcome>.",
  fillers: { first: "30s" },
  silence: { after: "60s" },
  collect: "20ms",
};
const call = "v3:9X2vxPDFY2RHSJ1EdMS0RHRksMTg7ldNxdjWbVr9zBjbGjGsSe-aiQ";
const form = (more = {}) => ({
  AccountSid: "f5586561-8ff0-4291-a51b-c7dfe4139ff9",
  CallSid: call,
  From: "+15005550001",
  To: "+15005550006",
  Direction: "inbound",
  CallStatus: "in-progress",
  ...more,
});
const setup = {
  type: "setup",
  sessionId: "7a7e6a4f-1d44-4f0c-b5d4-9f9bf3a5c1f2",
  callSid: "v2:T02llQxIyaRkhfRKxgAP8nY511EhFLizdvdUKJiSw8d6A9BborherQ",
  callControlId: call,
  callSessionId: "ff55a038-6f5d-11ef-9692-02420aeffb1f",
  from: "+15005550001",
  to: "+15005550006",
  direction: "inbound",
  callStatus: "active",
  customParameters: {},
};

interface Posting {
  readonly key?: KeyObject;
  readonly seconds?: number;
  readonly body?: string;
  readonly headers?: Record<string, string>;
}

function post(board: Switchboard, path: string, params: Record<string, string>, posting: Posting = {}) {
  const { key = privateKey, seconds = Math.floor(Date.now() / 1000) } = posting;
  const body = new URLSearchParams(params).toString();
  const url = path.startsWith("http") ? path : board.base + path;
  return fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/x-www-form-urlencoded",
      "telnyx-timestamp": String(seconds),
      "telnyx-signature-ed25519": sign(null, Buffer.from(`${seconds}|${body}`), key).toString("base64"),
      ...posting.headers,
    },
    body: posting.body ?? body,
  });
}
const attribute = (xml: string, name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(xml)?.[1] ?? "";
const starting = async (board: Switchboard) => (await post(board, "/call", form())).text();

/** A call up to its setup. */
async function live(more = {}): Promise<{ board: Switchboard; line: Line; xml: string }> {
  const board = await switchboard({ ...block, ...more });
  const xml = await starting(board);
  const line = await board.dial(attribute(xml, "url"));
  line.say(setup);
  await board.channel.until("opened", ({ stored }) => stored.length === 1);
  return { board, line, xml };
}
const spoken = (frames: readonly Frame[]) =>
  frames
    .filter(({ type }) => type === "text")
    .map(({ token }) => token as string)
    .join("");

describe("a call through Telnyx", () => {
  it("uses the signed body and ignores the query", async () => {
    const board = await switchboard(block);
    const xml = await (await post(board, "/call?CallSid=another&From=%2B15005559999", form())).text();
    const line = await board.dial(attribute(xml, "url"));
    line.say(setup);
    await board.channel.until("opened", ({ stored }) => stored.length === 1);
    expect(board.channel.stored[0]).toMatchObject({ session: call, from: { address: "+15005550001" } });
  });

  it("starts with TeXML that sets every attribute the dialect relies on", async () => {
    const board = await switchboard({
      ...block,
      voice: "Telnyx.Natural.abbie",
      transcription_provider: "deepgram",
    });
    const response = await post(board, "/call", form());
    expect(response.headers.get("content-type")).toMatch(/^text\/xml/);
    const xml = await response.text();
    const url = attribute(xml, "url");
    expect(url).toMatch(/^ws:\/\/127\.0\.0\.1:\d+\/channels\/phone\/relay\/[\w-]+~[\w.-]+$/);
    expect(xml.replace(url, "URL").replace(board.base, "BASE")).toBe(
      '<?xml version="1.0" encoding="UTF-8"?><Response><Connect action="BASE/ended?n=0" method="POST">' +
        '<ConversationRelay url="URL" welcomeGreeting="Hello &amp; &lt;welcome&gt;." welcomeGreetingInterruptible="any"' +
        ' voice="Telnyx.Natural.abbie" language="en" transcriptionProvider="deepgram" interruptible="any"' +
        ' dtmfDetection="true"/></Connect></Response>',
    );
  });

  it("names further languages in their short form", async () => {
    const languages = [{ code: "de-AT", voice: "Telnyx.NaturalHD.astra", tts_provider: "telnyx" }];
    const xml = await starting(await switchboard({ ...block, languages }));
    expect(xml).toContain('<Language code="de" ttsProvider="telnyx" voice="Telnyx.NaturalHD.astra"/>');
  });

  it("is asked and answered; partial transcripts are ignored", async () => {
    const { board, line } = await live();
    line.say({ type: "prompt", voicePrompt: "when do", lang: "en", last: false });
    line.say({ type: "prompt", voicePrompt: "When do you open?", lang: "en", last: true });
    expect(await board.heard()).toBe("When do you open?");
    expect(await board.answer("At **nine**. On Sundays never.")).toMatchObject({ kind: "sent" });
    await line.until("the last part", (frame) => frame["last"] === true);
    expect(spoken(line.frames)).toBe("At nine. On Sundays never.");
    expect(line.frames.every(({ type }) => type === "text")).toBe(true);
    expect(board.channel.messages).toHaveLength(1);
    // The session has the caller's address from the webhook, even if the socket reports another one.
    expect(board.channel.messages[0]).toMatchObject({
      from: { address: "+15005550001" },
      thread: { session: call },
    });
  });

  it("reports the played part on barge-in", async () => {
    const { board, line } = await live();
    line.say({ type: "prompt", voicePrompt: "Tell me all.", lang: "en", last: true });
    await board.heard();
    await board.answer("First this. Then that.");
    await line.until("the answer", (frame) => frame["last"] === true);
    line.say({ type: "interrupt", utteranceUntilInterrupt: "First this. Th", durationUntilInterruptMs: 820 });
    line.say({ type: "prompt", voicePrompt: "Enough.", lang: "en", last: true });
    expect(await board.heard(1)).toBe("Enough.");
    expect(board.channel.stored).toContainEqual(
      expect.objectContaining({ state: "interrupted", heard: "First this. Th" }),
    );
  });

  it("changes voice and ear when the caller speaks another language", async () => {
    const { board, line } = await live({ languages: [{ code: "de-DE" }] });
    line.say({ type: "prompt", voicePrompt: "Wann machen Sie auf?", lang: "de", last: true });
    await board.heard();
    expect(line.frames[0]).toEqual({ type: "language", ttsLanguage: "de", transcriptionLanguage: "de" });
    await board.answer("Um neun Uhr.");
    expect(await line.until("the answer", ({ type }) => type === "text")).toEqual({
      type: "text",
      token: "Um neun Uhr.",
      last: true,
      lang: "de",
    });
  });

  it("reaches a human: sentence, end, then Dial", async () => {
    const { board, line } = await live({
      transfer: { dial: ["+15005550009"] },
      digits: { pause: "50ms" },
      speaking_rate: 40,
    });
    line.say({ type: "dtmf", digit: "0" });
    expect(await line.until("the end", ({ type }) => type === "end")).toEqual({ type: "end" });
    expect(spoken(line.frames)).toMatch(/colleague/);
    expect(sessionHistory(board.channel)).toEqual(["opened", "transferring asked"]);
    const xml = await (await post(board, "/ended?n=0", form())).text();
    expect(xml).toContain(`<Dial action="${board.base}/dialed`);
    expect(xml).toContain("<Number>+15005550009</Number></Dial>");
    expect(await (await post(board, "/dialed", form({ DialCallStatus: "completed" }))).text()).toContain("<Hangup/>");
    expect(sessionHistory(board.channel).at(-1)).toBe("closed transferred");
    expect(await (await post(board, "/ended?n=0", form())).text()).toContain("<Response><Hangup/></Response>");
  });

  it("rings humans and reports the result when its webhook has failed", async () => {
    const board = await switchboard({ ...block, transfer: { dial: ["+15005550009"], no_answer: "end" } });
    const xml = await (await post(board, "/fallback", form())).text();
    expect(xml).toContain(`<Dial action="${board.base}/dialed?r=lost"`);
    const over = await post(board, "/dialed?r=lost", form({ DialCallStatus: "no-answer" }));
    expect(await over.text()).toContain("<Hangup/>");
    expect(board.channel.messages).toMatchObject([{ forHumans: { subject: "Missed call from +15005550001" } }]);
  });

  it("reaches a human after an answer that escalates", async () => {
    const { board, line } = await live({ transfer: { dial: ["+15005550009"] }, speaking_rate: 40 });
    line.say({ type: "prompt", voicePrompt: "I want a refund.", lang: "en", last: true });
    await board.heard();
    expect(await board.answer("Somebody else helps.", undefined, { transfer: true })).toMatchObject({
      kind: "sent",
    });
    await line.until("the end", ({ type }) => type === "end");
    expect(spoken(line.frames)).toBe("Somebody else helps.");
    expect(sessionHistory(board.channel)).toEqual(["opened", "transferring escalated"]);
    expect(await (await post(board, "/ended?n=0", form())).text()).toContain("<Number>+15005550009</Number>");
  });

  it.each([
    ["a lost socket, as its reason has it", { Reason: "customer_disconnect" }],
    ["a lost socket, without a reason", {}],
    ["a lost socket, as Twilio would say it", { SessionStatus: "failed", ErrorCode: "64105" }],
  ])("is taken up again after %s, over a new address", async (_, more) => {
    const { board, line, xml } = await live();
    line.cut();
    await board.channel.until("lost", (channel) => sessionHistory(channel).length === 2);
    const again = await (await post(board, "/ended?n=0", form(more))).text();
    expect(attribute(again, "welcomeGreeting")).not.toContain("welcome");
    expect(attribute(again, "action")).toBe(`${board.base}/ended?n=1`);
    expect(attribute(again, "url")).not.toBe(attribute(xml, "url"));
    const resumed = await board.dial(attribute(again, "url"));
    resumed.say(setup);
    await board.channel.until("opened again", (channel) => sessionHistory(channel).length === 3);
    expect(sessionHistory(board.channel)).toEqual(["opened", "lost socket", "opened"]);
  });

  it("waits before the next connection when the last one was refused, as by a daemon that ends", async () => {
    const { board, line } = await live();
    line.cut();
    await board.channel.until("lost", (channel) => sessionHistory(channel).length === 2);
    const first = await (await post(board, "/ended?n=0", form())).text();
    expect(first).not.toContain("<Pause");
    const second = await (await post(board, "/ended?n=1", form())).text();
    expect(second).toContain('<Pause length="6"/><Connect');
    const resumed = await board.dial(attribute(second, "url"));
    resumed.say(setup);
    await board.channel.until("opened again", (channel) => sessionHistory(channel).length === 3);
    const other = { CallSid: "v3:never-opened" };
    expect(await (await post(board, "/ended?n=0", form(other))).text()).toContain('<Pause length="3"/><Connect');
  });

  it("is over when the caller hung up", async () => {
    const { board, line } = await live();
    line.hangUp();
    await board.channel.until("lost", (channel) => sessionHistory(channel).length === 2);
    const xml = await (await post(board, "/ended?n=0", form({ CallStatus: "completed" }))).text();
    expect(xml).toBe('<?xml version="1.0" encoding="UTF-8"?><Response></Response>');
    expect(sessionHistory(board.channel)).toEqual(["opened", "lost socket", "closed hung-up"]);
  });
});

describe("the address of the socket", () => {
  it("works once", async () => {
    const { board, xml } = await live();
    const again = await board.dial(attribute(xml, "url"));
    again.say(setup);
    expect(await again.closed).toBe(1008);
    expect(sessionHistory(board.channel)).toEqual(["opened"]);
  });

  it("holds for its call, its channel and a minute", async () => {
    const board = await switchboard(block);
    const url = attribute(await starting(board), "url");
    const [path = "", pass = ""] = url.split("/relay/");
    const [name = "", token = ""] = pass.split("~");
    const other = Buffer.from("v3:another").toString("base64url");
    for (const wrong of [
      `${other}~${token}`,
      `${name}~`,
      `~${token}`,
      name,
      "x",
      `${name}~${token}x`,
      `${name}~x.${token}`,
    ]) {
      expect(await board.refusal(`${path}/relay/${wrong}`), wrong).toBe(403);
    }
    expect(await board.refusal(`${path}/relay/`)).toBe(404);
    const stranger = await switchboard({ ...block, telnyx: { ...block.telnyx, token_key: "another" } });
    expect(
      await board.refusal(
        attribute(await starting(stranger), "url").replace(stranger.base.replace("http", "ws"), path),
      ),
    ).toBe(403);
    expect(board.channel.stored).toEqual([]);
  });

  it("does not hold for long", async () => {
    let ahead = 0;
    const clock = { ...wallClock(), now: () => Date.now() + ahead };
    const board = await switchboard(block, { clock });
    const url = attribute(await starting(board), "url");
    ahead = 61_000;
    expect(await board.refusal(url)).toBe(403);
  });
});

describe("a webhook that Telnyx did not sign", () => {
  const other = generateKeyPairSync("ed25519").privateKey;
  const now = () => Math.floor(Date.now() / 1000);
  it.each<[string, () => Posting]>([
    ["with another key", () => ({ key: other })],
    ["long ago", () => ({ seconds: now() - 301 })],
    ["in the future", () => ({ seconds: now() + 360 })],
    ["for another body", () => ({ body: new URLSearchParams(form({ From: "+15005550002" })).toString() })],
    ["for another time", () => ({ headers: { "telnyx-timestamp": String(now() - 1) } })],
    ["at no time", () => ({ headers: { "telnyx-timestamp": "" } })],
    ["at a strange time", () => ({ headers: { "telnyx-timestamp": "1e9" } })],
    ["at all", () => ({ headers: { "telnyx-signature-ed25519": "" } })],
    ["with 64 zeros", () => ({ headers: { "telnyx-signature-ed25519": Buffer.alloc(64).toString("base64") } })],
    ["in base64", () => ({ headers: { "telnyx-signature-ed25519": "%%%" } })],
  ])("is refused: %s", async (_, posting) => {
    const board = await switchboard(block);
    for (const path of ["/call", "/ended", "/dialed", "/voicemail", "/fallback"]) {
      expect((await post(board, path, form(), posting())).status, path).toBe(403);
    }
    expect(board.channel.stored).toEqual([]);
  });

  it.each([
    ["too short", "bm90IGEga2V5"],
    ["too long", Buffer.alloc(33, 7).toString("base64")],
    ["hexadecimal", Buffer.alloc(32, 7).toString("hex")],
    ["of another kind", rsaKey.export({ format: "der", type: "spki" }).toString("base64")],
    ["empty", ""],
  ])("is not even set up with a key that is %s", (_, key) => {
    for (const given of [key, [raw, key]]) {
      const { error } = voice.config.safeParse({ ...block, telnyx: { ...block.telnyx, public_key: given } });
      expect(error?.issues[0]?.path.slice(0, 2), JSON.stringify(given)).toEqual(["telnyx", "public_key"]);
    }
  });

  it("is let in with any key of a list, while one is replaced", async () => {
    const next = generateKeyPairSync("ed25519");
    const nextRaw = next.publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64");
    const board = await switchboard({ ...block, telnyx: { ...block.telnyx, public_key: [raw, nextRaw] } });
    expect((await post(board, "/call", form())).status).toBe(200);
    expect((await post(board, "/call", form(), { key: next.privateKey })).status).toBe(200);
    const stranger = generateKeyPairSync("ed25519").privateKey;
    expect((await post(board, "/call", form(), { key: stranger })).status).toBe(403);
  });

  it("is let in when the key is given in DER", async () => {
    const der = publicKey.export({ format: "der", type: "spki" }).toString("base64");
    const board = await switchboard({ ...block, telnyx: { ...block.telnyx, public_key: der } });
    expect((await post(board, "/call", form())).status).toBe(200);
  });
});
