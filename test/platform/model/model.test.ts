// A model's endpoint that answers piece by piece, late, in part, or not at all.

import { readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { chat } from "../../../src/platform/brain/dialects.ts";
import { call, complete, watchSilence } from "../../../src/platform/brain/model.ts";
import { readAgents } from "../../../src/platform/index.ts";
import { type Fault, hang, json, startFaultServer, status, text } from "../../support/machine/network.ts";
import {
  cutting,
  done,
  event,
  fallingSilent,
  finish,
  hello,
  impatientClock,
  modelAt,
  streaming,
  trickling,
  word,
} from "../../support/platform/platform.ts";

const messages = [{ role: "user", content: "Hi" }] as const;
const never = new AbortController().signal;
/** Waits differ by a fifth, so that many do not come back at once. */
const about = (ms: number) => expect.toSatisfy((given: number) => given >= ms * 0.8 && given <= ms * 1.2);
const whole = (content: unknown, total_tokens?: number) => ({
  choices: [{ message: { role: "assistant", content }, finish_reason: "stop" }],
  ...(total_tokens === undefined ? {} : { usage: { total_tokens } }),
});

async function asking(more = "timeout: 600, total_timeout: 3600", clock = systemClock) {
  const server = await startFaultServer();
  onTestFinished(() => server.close());
  const model = modelAt(server.url, more);
  const ask = (over: { signal?: AbortSignal; withinMs?: number } = {}) =>
    complete(model, messages, { clock, signal: never, ...over });
  const bodies = () => server.received.map(({ body }) => JSON.parse(body) as { [key: string]: unknown });
  const script = (...faults: Fault[]) => server.script(...faults);
  return { received: server.received, script, close: () => server.close(), model, ask, bodies };
}

describe("a stream", () => {
  test("is the answer's pieces, with its usage from the last one", async () => {
    const { script, ask, bodies } = await asking();
    script(streaming(hello));
    expect(await ask()).toMatchObject({ text: "Hello.", tokens: 21 });
    expect(bodies()).toEqual([
      {
        model: "tiny",
        temperature: 0.2,
        messages,
        stream: true,
        stream_options: { include_usage: true },
      },
    ]);
  });

  test.each([
    ["comes byte by byte", trickling(word("Größe ") + word("\u{1F44D}") + finish() + done), "Größe \u{1F44D}"],
    ["has other ends of lines", trickling(hello.replaceAll("\n", "\r\n")), "Hello."],
    ["has returns alone", streaming(`${hello.replaceAll("\n", "\r")}\r`), "Hello."],
    ["begins with a mark", streaming(`\u{FEFF}${hello}`), "Hello."],
    ["has comments, garbage lines and other fields", streaming(`: hm\n\ngarbage\nid: 7\nretry: x\n${hello}`), "Hello."],
    ["has events of other kinds", streaming(event({ type: "ping" }) + event("7") + hello), "Hello."],
    ["has one datum in many lines", streaming(word("Hello.").replace(",", ",\ndata: ") + finish() + done), "Hello."],
    ["says nothing at times", streaming(word("") + word(null) + hello), "Hello."],
    ["has other choices", streaming(event({ choices: [{ index: 1, delta: { content: "No" } }] }) + hello), "Hello."],
    ["forgets to say that it is done", streaming(word("Hello.") + finish()), "Hello."],
    ["forgets the reason", streaming(word("Hello.") + done), "Hello."],
    ["goes on behind its end", streaming(`${hello}${word("More")}data: {broken\n\n`), "Hello."],
    ["breaks behind its last word", streaming(`${word("Hello.")}${finish()}data: {broken\n\n`), "Hello."],
    ["has no type", (_request, response) => void response.end(hello), "Hello."],
    ["is none after all", json(whole("Hello.")), "Hello."],
  ] as [string, Fault, string][])("that %s is understood", async (_name, fault, expected) => {
    const { script, ask, received } = await asking();
    script(fault);
    expect((await ask()).text).toBe(expected);
    expect(received).toHaveLength(1);
  });

  test("that falls silent behind its last word is the answer, without a count of tokens", async () => {
    const { script, ask } = await asking();
    script(fallingSilent(word("Hello.") + finish()));
    expect(await ask()).toEqual({ kind: "answered", text: "Hello.", tokens: 0 });
  });

  test.each([
    ["ends too soon", streaming(word("Hel")), "it cut its answer off"],
    ["breaks", streaming(`${word("Hel")}data: {broken\n\n${hello}`), "it said something unreadable"],
    ["fails", streaming(word("Hel") + event({ error: { message: "m" } })), "it failed while it answered"],
    ["is too long for the model", streaming(word("Hel") + finish("length") + done), "longer than it may be"],
    ["is filtered", streaming(word("Hel") + finish("content_filter") + done), "its answer was filtered"],
    ["has no text", streaming(finish() + done), "its answer has no text"],
    ["is too long for anybody", streaming(word("x".repeat(2 ** 20 + 1)) + finish()), "exceeds 1048576"],
  ])("that %s is no answer, and not asked for again", async (_name, fault, why) => {
    const { script, ask, received } = await asking();
    script(fault, streaming(hello));
    await expect(ask()).rejects.toThrow(why);
    expect(received).toHaveLength(1);
  });

  test("that is cut in the middle is never an answer in part", async () => {
    const { script, ask } = await asking("timeout: 600", impatientClock());
    script(cutting(word("Hel")));
    await expect(ask()).rejects.toThrow(/cut its answer off|the connection failed \(\w+\)/);
  });

  test.each([
    ["nothing is heard", hang],
    ["only its beginning is heard", fallingSilent(word("Hel"))],
  ])("of which %s for too long is given up, and not asked for again", async (_name, fault) => {
    const { script, ask, received } = await asking("timeout: 0.2");
    script(fault);
    await expect(ask()).rejects.toThrow("asking the model: it was silent for 0.2 s");
    expect(received.length).toBeLessThanOrEqual(1);
  });

  test("that sends keep-alives without an end is given up on timeout", async () => {
    const { script, ask } = await asking();
    script((_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      const beat = setInterval(() => response.write(": still here\n\n"), 10);
      response.on("close", () => clearInterval(beat));
    });
    await expect(ask({ withinMs: 300 })).rejects.toThrow("asking the model: no answer within 0.3 s");
  });

  test("without a waiting client is cancelled", async () => {
    const { script, ask } = await asking();
    const caller = new AbortController();
    const closed = new Promise<void>((resolve) => {
      script((_request, response) => {
        response.on("close", resolve);
        response.writeHead(200).write(word("Hel"));
        caller.abort();
      });
    });
    await expect(ask({ signal: caller.signal })).rejects.toThrow("asking the model: the request was aborted");
    await closed;
  });
});

test("silence is measured from the last sign of life, also after a busy event loop", async () => {
  let now = 0;
  let sleepers: { readonly until: number; readonly wake: () => void }[] = [];
  const clock = {
    now: () => now,
    monotonic: () => now,
    sleep: (ms: number) =>
      new Promise<void>((wake) => {
        sleepers.push({ until: now + ms, wake });
      }),
  };
  /** Ends every sleep whose time has come, and resolves when the next one has begun: only the clock blocks it. */
  const pass = async (ms: number) => {
    now += ms;
    const due = sleepers.filter(({ until }) => until <= now);
    sleepers = sleepers.filter(({ until }) => until > now);
    for (const { wake } of due) wake();
    await new Promise((resolve) => setImmediate(resolve));
  };
  let fallen = 0;
  const silence = watchSilence(clock, 30_000, () => fallen++);
  onTestFinished(() => silence.stop());
  for (let n = 0; n < 10; n++) {
    await pass(20_000);
    silence.restart();
  }
  await pass(30_000);
  silence.restart();
  await pass(50);
  expect(fallen).toBe(0);
  await pass(30_000);
  expect(fallen).toBe(0);
  await pass(50);
  expect(fallen).toBe(1);
});

describe("before its first word a model is asked again", () => {
  test.each([
    ["too many", status(429, { "retry-after": "7" }), [7_000]],
    ["too many until a date", status(429, { "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }), [0]],
    ["down", status(503, { "retry-after": "0.5" }), [500]],
    ["broken", status(500), [about(250)]],
    ["cut", cutting(""), [about(250)]],
    ["ended", streaming(": hm\n\n"), [about(250)]],
    ["unreadable", streaming("data: {broken\n\n"), [about(250)]],
    ["failed in the stream", streaming(word("") + event({ error: {} })), [about(250)]],
    ["no JSON", text("<html>", "application/json"), [about(250)]],
  ])("%s", async (_name, fault, waits) => {
    const waited: number[] = [];
    const { script, ask, received } = await asking("timeout: 600", impatientClock(waited));
    script(fault, streaming(word("Hello.") + done));
    expect((await ask()).text).toBe("Hello.");
    expect(received).toHaveLength(2);
    expect(waited).toEqual(waits);
  });

  test("three times in all, and then the reason is reported", async () => {
    const waited: number[] = [];
    const { script, ask, received } = await asking("timeout: 600", impatientClock(waited));
    script(json({ error: { code: "server_overloaded" } }, 503));
    await expect(ask()).rejects.toThrow("asking the model: HTTP 503 (server_overloaded)");
    expect(received).toHaveLength(3);
    expect(waited).toEqual([about(250), about(500)]);
  });

  test.each([
    ["is to be left alone for long", status(429, { "retry-after": "3600" }), "HTTP 429"],
    ["refuses the key", status(401), "HTTP 401"],
    ["does not know the model", json({ error: { message: "no such model" } }, 404), "HTTP 404"],
    ["refuses what is asked", json({ error: { code: "context_length_exceeded" } }, 400), "(context_length_exceeded)"],
    ["points elsewhere", (_request, response) => void response.writeHead(302, { location: "/" }).end(), "HTTP 302"],
  ] as [string, Fault, string][])("but not when it %s", async (_name, fault, why) => {
    const { script, ask, received } = await asking();
    script(fault, streaming(hello));
    await expect(ask()).rejects.toThrow(why);
    expect(received).toHaveLength(1);
  });

  test("also when no server listens at its address", async () => {
    const waited: number[] = [];
    const { close, ask } = await asking("timeout: 600", impatientClock(waited));
    await close();
    await expect(ask()).rejects.toThrow("asking the model: the connection failed (ECONNREFUSED)");
    expect(waited).toHaveLength(2);
  });
});

describe("an endpoint that refuses", () => {
  const refusing = (word: string): Fault => json({ error: { message: `${word} is not supported` } }, 400);

  test("streams is asked for whole answers, from then on", async () => {
    const { script, ask, bodies } = await asking();
    script(refusing("'stream'"), json(whole("One.", 7)), json(whole("Two.")));
    expect(await ask()).toMatchObject({ text: "One.", tokens: 7 });
    expect(await ask()).toMatchObject({ text: "Two.", tokens: 0 });
    expect(bodies().map(({ stream }) => stream ?? false)).toEqual([true, false, false]);
  });

  test("to count tokens is asked for streams without, from then on", async () => {
    const { script, ask, bodies } = await asking();
    const plain = streaming(word("Hello.") + finish() + done);
    script(json({ detail: [{ loc: ["body", "stream_options"], msg: "extra" }] }, 422), plain);
    expect(await ask()).toMatchObject({ text: "Hello.", tokens: 0 });
    await ask();
    expect(bodies().map(({ stream, stream_options }) => [stream, stream_options !== undefined])).toEqual([
      [true, true],
      [true, false],
      [true, false],
    ]);
  });

  test("everything without a word is asked for a whole answer, once", async () => {
    const { script, ask, received } = await asking();
    script(text("", "text/plain", 400));
    await expect(ask()).rejects.toThrow("asking the model: HTTP 400");
    expect(received).toHaveLength(2);
  });

  test("streams may take its time for a whole answer", async () => {
    const { script, model } = await asking("timeout: 0.001");
    script((_request, response) => {
      const body = JSON.stringify(whole("Slow."));
      response.writeHead(200, { "content-type": "application/json" }).write(" ");
      void systemClock.sleep(200).then(() => response.end(body));
    });
    const question = { model, messages, schema: null };
    expect(await call(chat, question, "whole", { clock: systemClock, signal: never })).toMatchObject({
      text: "Slow.",
    });
  });
});

describe("POST /responses", () => {
  const delta = (text: string) => event({ type: "response.output_text.delta", delta: text });
  const ended = (over: object = {}) => ({
    object: "response",
    status: "completed",
    output: [
      { type: "reasoning", summary: [] },
      { type: "message", content: [{ type: "output_text", text: "Hello." }] },
    ],
    usage: { total_tokens: 9 },
    ...over,
  });
  const settings = `api: responses, temperature: null, top_p: 0.5, reasoning_effort: high, reasoning_mode: pro, timeout: 600`;

  test("receives all settings, and streams", async () => {
    const { script, model, received } = await asking(settings);
    script(streaming(delta("Hel") + delta("lo.") + event({ type: "response.completed", response: ended() })));
    const schema = { type: "object" };
    expect(await complete(model, messages, { clock: systemClock, signal: never, schema })).toMatchObject({
      text: "Hello.",
      tokens: 9,
    });
    expect(received[0]?.path).toBe("/v1/responses");
    expect(JSON.parse(received[0]?.body ?? "")).toEqual({
      model: "tiny",
      input: messages,
      store: false,
      top_p: 0.5,
      reasoning: { effort: "high", mode: "pro" },
      text: { format: { type: "json_schema", name: "answer", strict: true, schema } },
      stream: true,
    });
  });

  test("may answer whole", async () => {
    const { script, ask } = await asking(settings);
    script(json(ended()));
    expect(await ask()).toMatchObject({ text: "Hello.", tokens: 9 });
  });

  test.each([
    ["incomplete", event({ type: "response.incomplete", response: ended({ status: "incomplete" }) }), "longer than"],
    [
      "filtered",
      event({
        type: "response.incomplete",
        response: ended({ status: "incomplete", incomplete_details: { reason: "content_filter" } }),
      }),
      "its answer was filtered",
    ],
    ["failed", event({ type: "response.failed", response: ended({ status: "failed" }) }), "it failed while"],
    ["an error", event({ type: "error", message: "m" }), "it failed while"],
    ["cut", "", "it cut its answer off"],
  ])("that is %s is no answer", async (_name, last, why) => {
    const { script, ask, received } = await asking(settings);
    script(streaming(delta("Hel") + last), json(ended()));
    await expect(ask()).rejects.toThrow(why);
    expect(received).toHaveLength(1);
  });
});

test("the example of the manual is read", () => {
  const manual = readFileSync(new URL("../../../docs/platform.md", import.meta.url), "utf8");
  const block = /```yaml\n( {4}model:\n.*?)```/s.exec(manual)?.[1] ?? "";
  const text = `organization: { name: A }\nagents:\n  a:\n    key: some-key-1\n${block}`;
  expect(readAgents(text, "a.yaml")[0]?.model).toMatchObject({
    listedAs: "<model_family>-5-mini",
    topP: 0.9,
    reasoningEffort: "low",
    outputSchema: { enabled: true },
    silenceMs: 30_000,
    totalMs: 300_000,
  });
});

test("a key is sent to its endpoint alone: no error contains it", async () => {
  const key = "sk-very-secret-key";
  const { script, ask, received } = await asking(`key: ${key}, timeout: 600`, impatientClock());
  const body = { error: { code: key, message: `bad key ${key}`, type: key } };
  for (const fault of [json(body, 401, { "x-key": key }), streaming(word("a") + event(body)), cutting(key)]) {
    script(fault);
    const error: unknown = await ask().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    const { message, stack, cause } = error as Error;
    expect(JSON.stringify([message, stack, cause ?? null])).not.toContain(key);
  }
  expect(received[0]?.headers["authorization"]).toBe(`Bearer ${key}`);
});

test.each([
  ['url: "https://user:secret@models.test/v1", name: m', /a key stands under `key`/],
  ['url: "https://models.test/v1", name: m, key: "two words"', /model\.key: a key has visible ASCII/],
  ['url: "https://models.test/v1", name: m, listed_as: tiny', /model\.listed_as: a name of the interface's list/],
  ['url: "https://models.test/v1", name: m, output_json_schema: "{"', /model\.output_json_schema: a JSON Schema is/],
  ['url: "https://models.test/v1", name: m, output_json_schema: { type: 7 }', /model\.output_json_schema: /],
  ['url: "https://models.test/v1", name: m, api: assistants', /model\.api: /],
])("%s is refused with its place", (block, problem) => {
  const text = `organization: { name: A }\nagents:\n  a: { key: some-key-1, model: { ${block} } }`;
  expect(() => readAgents(text, "a.yaml")).toThrow(/^a\.yaml:3: agents\.a\.model/);
  expect(() => readAgents(text, "a.yaml")).toThrow(problem);
});
