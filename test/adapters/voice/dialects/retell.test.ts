// Retell's custom LLM: a scripted call over a real socket, with frames as Retell's documentation has them.

import { createHmac } from "node:crypto";
import { describe, expect, it } from "vitest";
import { type Line, type Switchboard, sessionHistory, switchboard } from "../../../support/voice/adapter.ts";

const secret = "a-secret-of-some-length";
const apiKey = "key_0123456789";
const block = {
  dialect: "retell",
  retell: { secret, api_key: apiKey },
  greeting: "Hello, this is Ava.",
  fillers: { first: "30s" },
  collect: "20ms",
};
const address = (call = "call_1") => `/llm/${call}?secret=${secret}`;
const details = (call = "call_1", more = {}) => ({
  interaction_type: "call_details",
  call: {
    call_id: call,
    call_type: "phone_call",
    direction: "inbound",
    from_number: "+15005550001",
    to_number: "+15005550006",
    ...more,
  },
});
type Said = readonly (readonly ["agent" | "user", string])[];
const transcript = (said: Said) => said.map(([role, content]) => ({ role, content, words: [] }));
const required = (id: number, said: Said, kind = "response_required") => ({
  interaction_type: kind,
  response_id: id,
  transcript: transcript(said),
});
const greeting = ["agent", "Hello, this is Ava."] as const;

/** A call whose greeting was sent. */
async function call(more = {}): Promise<{ board: Switchboard; line: Line }> {
  const board = await switchboard({ ...block, ...more });
  const line = await board.dial(address());
  line.say(details());
  await line.until("greeting", ({ response_type: type }) => type === "response");
  return { board, line };
}
const spoken = ({ frames }: Line, id: number) =>
  frames
    .filter((frame) => frame["response_id"] === id)
    .map((frame) => String(frame["content"]))
    .join("");

describe("the URL that Retell builds", () => {
  const urls = [
    ["secret in the path, call appended", (given: string) => `/llm/${given}/call_1`],
    ["secret in the query, call appended to it", (given: string) => `/llm?secret=${given}/call_1`],
    ["secret in the query, call in the path", (given: string) => `/llm/call_1?secret=${given}`],
  ] as const;

  it.each(urls)("leads to the call: %s", async (_, url) => {
    const board = await switchboard({ ...block, retell: { secret: "a/secret?of #words", api_key: apiKey } });
    const line = await board.dial(url(encodeURIComponent("a/secret?of #words")));
    line.say(details());
    await line.until("greeting", ({ response_type: type }) => type === "response");
    line.say(required(1, [greeting, ["user", "When do you open?"]]));
    expect(await board.heard()).toBe("When do you open?");
    expect(board.channel.messages[0]?.thread).toEqual({ session: "call_1" });
  });

  it.each(urls)("is refused without the secret: %s", async (_, url) => {
    const board = await switchboard(block);
    for (const given of ["", "wrong", `${secret}x`, "%", "%ZZ"])
      expect(await board.refusal(url(given)), given).toBeOneOf([403, 404]);
  });

  it("is refused without a call", async () => {
    const board = await switchboard(block);
    for (const path of [`/llm/${secret}/`, `/llm/${secret}`, `/llm?secret=${secret}`, `/llm?secret=${secret}/`])
      expect(await board.refusal(path), path).toBeOneOf([400, 403, 404]);
  });
});

describe("a call through Retell", () => {
  it("is configured, greeted, asked, answered and ended", async () => {
    const { board, line } = await call();
    expect(line.frames[0]).toEqual({
      response_type: "config",
      config: { auto_reconnect: true, call_details: true, transcript_with_tool_calls: true },
    });
    expect(line.frames[1]).toEqual({
      response_type: "response",
      response_id: 0,
      content: "Hello, this is Ava.",
      content_complete: true,
    });
    line.say(required(1, [greeting, ["user", "When do you open?"]]));
    expect(await board.heard()).toBe("When do you open?");
    expect(await board.answer("At **nine**. On [Sundays](https://example.com) never.")).toMatchObject({
      kind: "sent",
    });
    await line.until("the last part", (frame) => frame["response_id"] === 1 && frame["content_complete"] === true);
    expect(spoken(line, 1)).toBe("At nine. On Sundays never.");
    expect(board.channel.messages[0]).toMatchObject({
      from: { address: "+15005550001" },
      to: [{ address: "+15005550006" }],
      thread: { session: "call_1" },
    });
    line.hangUp();
    await board.channel.until("lost", ({ stored }) =>
      stored.some((one) => one.kind === "session" && one.state === "lost"),
    );
    expect(
      (
        await post(board, {
          event: "call_ended",
          call: { call_id: "call_1", disconnection_reason: "user_hangup" },
        })
      ).status,
    ).toBe(204);
    expect(sessionHistory(board.channel)).toEqual(["opened", "lost socket", "closed hung-up"]);
  });

  it("answers the newest number only", async () => {
    const { board, line } = await call();
    line.say(required(1, [greeting, ["user", "My name is Mike"]]));
    await board.heard();
    line.say(required(2, [greeting, ["user", "My name is Mike Trump"]]));
    // What was handed on before is not handed on again.
    expect(await board.heard(1)).toBe("Trump");
    expect(await board.answer("Hello Mike.", "My name is Mike")).toMatchObject({
      kind: "refused",
      code: "superseded",
    });
    expect(await board.answer("Hello Mister Trump.")).toMatchObject({ kind: "sent" });
    expect(spoken(line, 1)).toBe("");
    await line.until("the answer", (frame) => frame["response_id"] === 2);
    expect(spoken(line, 2)).toBe("Hello Mister Trump.");
  });

  it("says again what was thrown away unheard", async () => {
    const { board, line } = await call();
    line.say(required(1, [greeting, ["user", "Are you open"]]));
    await board.heard();
    await board.answer("Yes, we are.");
    await line.until("the answer", (frame) => frame["response_id"] === 1);
    line.say(required(2, [greeting, ["user", "Are you open?"]]));
    await line.until("the answer again", (frame) => frame["response_id"] === 2);
    expect(spoken(line, 2)).toBe("Yes, we are.");
    expect(board.channel.messages).toHaveLength(1);
  });

  it("reports the played part on barge-in", async () => {
    const { board, line } = await call();
    line.say(required(1, [greeting, ["user", "Tell me all."]]));
    const all = await board.heard();
    await board.answer("We open at nine in the morning. We close at five in the evening.");
    await line.until("the answer", (frame) => frame["response_id"] === 1 && frame["content_complete"] === true);
    line.say(
      required(2, [greeting, ["user", "Tell me all."], ["agent", "We open at nine"], ["user", "Thanks, enough."]]),
    );
    expect(await board.heard(1)).toBe("Thanks, enough.");
    const cut = board.channel.stored.find((one) => one.kind === "session" && one.state === "interrupted");
    expect(cut).toMatchObject({
      heard: "We open at nine",
      about: board.channel.messages.find(({ text }) => text === all)?.id,
    });
  });

  it("does not call a whole answer interrupted, nor does it close the new response with the end of the old", async () => {
    const { board, line } = await call({
      fillers: { first: "20ms", second: "40ms", every: "40ms" },
      speaking_rate: 40,
    });
    line.say(required(1, [greeting, ["user", "Are you open?"]]));
    await board.heard();
    await line.until("a filler", (frame) => frame["response_id"] === 1);
    expect(line.frames.at(-1)).toMatchObject({ content_complete: false });
    line.say(required(2, [greeting, ["user", "Are you open?"], ["agent", "One moment please"], ["user", "Hello?"]]));
    await board.heard(1);
    await line.until("a filler for the new question", (frame) => frame["response_id"] === 2);
    expect(line.frames.filter((frame) => frame["response_id"] === 2)[0]).toMatchObject({
      content_complete: false,
    });
    expect(sessionHistory(board.channel)).toEqual(["opened"]);
  });

  it("asks a silent caller, twice, then ends", async () => {
    const { line, board } = await call({ speaking_rate: 40 });
    const goOn = [greeting] as const;
    line.say(required(1, goOn, "reminder_required"));
    await line.until("a question", (frame) => frame["response_id"] === 1);
    line.say(required(2, goOn, "reminder_required"));
    await line.until("another", (frame) => frame["response_id"] === 2);
    expect(spoken(line, 1)).not.toBe(spoken(line, 2));
    line.say(required(3, goOn, "reminder_required"));
    await line.until("goodbye", (frame) => frame["response_id"] === 3);
    await line.until("the end", (frame) => frame["end_call"] === true);
    expect(board.channel.messages).toEqual([]);
    expect(sessionHistory(board.channel)).toEqual(["opened", "closed silent"]);
  });

  it("transfers to a number", async () => {
    const { line, board } = await call({ transfer: { dial: ["+15005550009"] }, speaking_rate: 40 });
    line.say({
      interaction_type: "update_only",
      transcript: transcript([greeting]),
      transcript_with_tool_calls: [
        { role: "dtmf", digit: "0" },
        { role: "dtmf", digit: "#" },
      ],
    });
    expect(await line.until("the transfer", (frame) => "transfer_number" in frame)).toMatchObject({
      transfer_number: "+15005550009",
      content_complete: true,
    });
    await board.channel.until("the end", (channel) => sessionHistory(channel).length === 3);
    expect(sessionHistory(board.channel)).toEqual(["opened", "transferring asked", "closed transferred"]);
  });

  it("transfers after a reply that escalates, and continues where it cannot", async () => {
    const ask = required(1, [greeting, ["user", "I want a refund."]]);
    const { line, board } = await call({ transfer: { dial: ["+15005550009"] }, speaking_rate: 40 });
    line.say(ask);
    await board.heard();
    expect(await board.answer("Somebody else helps.", undefined, { transfer: true })).toMatchObject({
      kind: "sent",
    });
    const transfer = await line.until("the transfer", (frame) => "transfer_number" in frame);
    expect(transfer).toMatchObject({ transfer_number: "+15005550009" });
    expect(spoken(line, 1)).toBe("Somebody else helps.");
    await board.channel.until("the end", (channel) => sessionHistory(channel).length === 3);
    expect(sessionHistory(board.channel)).toEqual(["opened", "transferring escalated", "closed transferred"]);

    const other = await call();
    other.line.say(ask);
    await other.board.heard();
    await other.board.answer("Somebody else helps.", undefined, { transfer: true });
    other.line.say(required(2, [greeting, ["user", "I want a refund."], ["user", "Who?"]]));
    expect(await other.board.heard(1)).toContain("Who?");
    expect(await other.board.answer("Dora.")).toMatchObject({ kind: "sent" });
    expect(sessionHistory(other.board.channel).filter((one) => one.startsWith("transferring"))).toEqual([]);
  });

  it("collects keys without the same key twice", async () => {
    const { line, board } = await call();
    const frame = (...keys: string[]) => ({
      interaction_type: "update_only",
      transcript: transcript([greeting]),
      transcript_with_tool_calls: keys.map((digit) => ({ role: "dtmf", digit })),
    });
    line.say(frame("4"));
    line.say(frame("4", "2"));
    line.say(frame("4", "2", "#"));
    expect(await board.heard()).toBe("42");
  });

  it("responds to noise with an empty text at once", async () => {
    const { line, board } = await call();
    line.say(required(1, [greeting, ["user", "(unintelligible audio)"]]));
    expect(await line.until("an empty answer", (frame) => frame["response_id"] === 1)).toMatchObject({
      content: "",
      content_complete: true,
    });
    expect(board.channel.messages).toEqual([]);
  });

  it("echoes pings, and ignores what it does not know", async () => {
    const { line } = await call();
    line.say({ interaction_type: "ping_pong", timestamp: 1234 });
    expect(await line.until("a pong", ({ response_type: type }) => type === "ping_pong")).toEqual({
      response_type: "ping_pong",
      timestamp: 1234,
    });
    line.say({ interaction_type: "something_new", transcript: "odd" });
    line.say({ interaction_type: "update_only", transcript: [null, 7, { role: "user" }] });
    line.say({ interaction_type: "ping_pong", timestamp: 5 });
    await line.until("another pong", (frame) => frame["timestamp"] === 5);
  });

  it("resumes a call whose connection was cut: nothing is greeted, the pending answer is spoken", async () => {
    const { board, line } = await call();
    line.say(required(1, [greeting, ["user", "Are you open?"]]));
    await board.heard();
    line.cut();
    await board.channel.until("lost", ({ stored }) => stored.at(-1)?.kind === "session");
    expect(await board.answer("Yes, we are.")).toMatchObject({ kind: "deferred" });
    const again = await board.dial(address());
    again.say(details());
    // Response id 0 is in use: texts that we initiate have ids of their own.
    const first = await again.until("a word", ({ response_type: type }) => type === "agent_interrupt");
    expect(first["content"]).not.toContain("Ava");
    expect(await board.answer("Yes, we are.")).toMatchObject({ kind: "sent" });
    await again.until("the answer", (frame) => String(frame["content"]).includes("Yes, we are."));
    expect(sessionHistory(board.channel)).toEqual(["opened", "lost socket", "opened"]);
  });

  it("calls a person without number anonymous, and a called one by the number we called", async () => {
    const board = await switchboard(block);
    const web = await board.dial(address("call_2"));
    web.say({ interaction_type: "call_details", call: { call_id: "call_2", call_type: "web_call" } });
    const out = await board.dial(address("call_3"));
    out.say(details("call_3", { direction: "outbound", from_number: "+15005550006", to_number: "+15005550001" }));
    await board.channel.until("both", ({ stored }) => stored.length === 2);
    expect(board.channel.stored.map(({ ...one }) => ("from" in one ? one.from.address : ""))).toEqual(
      expect.arrayContaining(["anonymous:call_2", "+15005550001"]),
    );
  });
});

describe("a client that is not Retell", () => {
  it.each([
    "/llm/call_1",
    "/llm/call_1?secret=",
    `/llm/call_1?secret=${secret}x`,
    `/llm/call_1?secret=${secret.slice(1)}`,
    `/llm/call_1?Secret=${secret}`,
  ])("is refused before the upgrade: %s", async (path) => {
    const board = await switchboard(block);
    expect(await board.refusal(path)).toBe(403);
  });

  it("needs a call's id", async () => {
    const board = await switchboard(block);
    expect(await board.refusal(`/llm/a%20b?secret=${secret}`)).toBe(400);
    expect(await board.refusal(`/llm/?secret=${secret}`)).toBe(404);
  });

  it("is closed when the details are another call's, or no frames come", async () => {
    const board = await switchboard(block);
    const line = await board.dial(address());
    line.say(details("call_9"));
    expect(await line.closed).toBe(1008);
    const noise = await board.dial(address());
    noise.raw("}{");
    // Before the start there is no call to speak of.
    expect([1007, 1008]).toContain(await noise.closed);
    expect(board.channel.stored).toEqual([]);
  });
});

describe("Retell's webhook", () => {
  it.each([
    ["no signature", ""],
    ["another key", "other"],
  ])("is refused with %s", async (_, key) => {
    const { board } = await call();
    const response = await post(board, { event: "call_ended", call: { call_id: "call_1" } }, key);
    expect(response.status).toBe(403);
    expect(sessionHistory(board.channel)).toEqual(["opened"]);
  });

  it("is refused when it is old, from the future, or changed", async () => {
    const { board } = await call();
    const body = { event: "call_ended", call: { call_id: "call_1" } };
    const now = Date.now();
    expect((await post(board, body, apiKey, now - 301_000)).status).toBe(403);
    expect((await post(board, body, apiKey, now + 360_000)).status).toBe(403);
    const changed = await fetch(`${board.base}/events`, {
      method: "POST",
      headers: { "x-retell-signature": sign(JSON.stringify(body), apiKey, now) },
      body: JSON.stringify({ ...body, more: 1 }),
    });
    expect(changed.status).toBe(403);
    expect(sessionHistory(board.channel)).toEqual(["opened"]);
    expect(board.channel.logged.filter(({ message }) => message.startsWith("request rejected"))).toHaveLength(3);
  });

  it("notifies responders once of an unanswered transfer, and of no other", async () => {
    const { board, line } = await call({ transfer: { dial: ["+15005550009"] }, speaking_rate: 40 });
    const failed = { event: "transfer_cancelled", call: { call_id: "call_1" } };
    // No transfer has started yet, and the other call is unknown.
    await post(board, failed);
    await post(board, { ...failed, call: { call_id: "call_2" } });
    expect(board.channel.messages).toEqual([]);
    line.say({
      interaction_type: "update_only",
      transcript: transcript([greeting]),
      transcript_with_tool_calls: [{ role: "dtmf", digit: "0" }],
    });
    await board.channel.until("the end", (channel) => sessionHistory(channel).length === 3);
    await post(board, { ...failed, event: "transfer_bridged" });
    expect(board.channel.messages).toEqual([]);
    await post(board, failed);
    await post(board, failed);
    expect(board.channel.messages).toMatchObject([
      { forHumans: { subject: "Missed call from +15005550001" }, thread: { session: "call_1" } },
    ]);
  });

  it("ends a call once, and ignores other events and unknown calls", async () => {
    const { board } = await call();
    const end = { event: "call_ended", call: { call_id: "call_1", disconnection_reason: "inactivity" } };
    expect((await post(board, { event: "call_analyzed", call: { call_id: "call_1" } })).status).toBe(204);
    expect((await post(board, { ...end, call: { call_id: "call_7" } })).status).toBe(204);
    expect((await post(board, end)).status).toBe(204);
    expect((await post(board, end)).status).toBe(204);
    expect(sessionHistory(board.channel).filter((one) => one.startsWith("closed"))).toEqual(["closed inactivity"]);
  });
});

const sign = (body: string, key: string, now: number) =>
  `v=${now},d=${createHmac("sha256", key).update(`${body}${now}`).digest("hex")}`;

function post(board: Switchboard, event: unknown, key = apiKey, now = Date.now()): Promise<Response> {
  const body = JSON.stringify(event);
  const headers: Record<string, string> = key === "" ? {} : { "x-retell-signature": sign(body, key, now) };
  return fetch(`${board.base}/events`, { method: "POST", headers, body });
}
