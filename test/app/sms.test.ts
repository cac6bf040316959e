// Texts through the whole daemon: inbound webhook, agent, outbound text, and delivery receipts.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../support/clock.ts";
import { anna, openLines, ourNumber } from "../support/daemon/phone-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";

const bert = "+12025550124";

it.concurrent("answers a text, and knows what became of the answer", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished, { smsSkill: { smsSignature: "The Team" } });
  const { tries } = await world.text("Hello?");
  expect(tries).toMatchObject([{ status: 200, type: expect.stringContaining("text/xml") as string }]);
  expect(tries[0]?.body, "nothing is said in the webhook's answer").toMatch(
    /^(<\?xml[^>]*\?>)?\s*<Response\s*(\/>|><\/Response>)\s*$/,
  );
  await world.api.until(({ callbacks }) => callbacks.length === 2);
  expect(world.textsTo()).toEqual([`${echoed("Hello?")}\nThe Team`]);
  expect(world.api.sent).toMatchObject([{ from: ourNumber, to: anna, direction: "outbound-api" }]);
  expect(world.api.callbacks.map(({ posted }) => posted.status)).toEqual([200, 200]);
  await world.idle();
  expect(await world.rows("SELECT state FROM drafts")).toEqual([{ state: "delivered" }]);
  const hops = world.log.filter(({ fields }) => fields["trace"] === "m1").map(({ message }) => message);
  expect(hops).toEqual([
    "message received",
    "question asked",
    "question answered",
    "reply queued",
    "reply sent",
    "delivery receipt",
    "delivery receipt",
  ]);
});

it.concurrent("keeps one conversation with each person", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  await world.text("one");
  await world.api.until(() => world.textsTo().length === 1);
  await world.text("two");
  await world.text("hi", { from: bert });
  await world.api.until(() => world.textsTo().length === 2 && world.textsTo(bert).length === 1);
  const conversationOf = (text: string) => world.questions().find((one) => one.text === text)?.conversation;
  expect(conversationOf("two")).toBe(conversationOf("one"));
  expect(conversationOf("hi")).not.toBe(conversationOf("one"));
  expect(world.textsTo()).toEqual([echoed("one"), echoed("two")]);
});

it.concurrent("joins texts in quick succession into one question", async ({ onTestFinished }) => {
  const clock = movableClock();
  const world = await openLines(onTestFinished, { clock, sms: { debounce: "1m" } });
  await world.text("I have");
  await world.text("a question");
  await world.text("about lamps");
  await eventually(async () => expect(await world.rows("SELECT id FROM events WHERE state = 'stored'")).toEqual([]));
  clock.forward(60_000);
  await world.api.until(({ sent }) => sent.length > 0);
  await world.idle();
  expect(world.questions().map(({ text }) => text)).toEqual(["I have\na question\nabout lamps"]);
  expect(world.textsTo()).toHaveLength(1);
});

it.concurrent("answers the webhook without the agent", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  world.model.hold();
  const { tries } = await world.text("Are you slow?");
  expect(tries.map(({ status }) => status)).toEqual([200]);
  await eventually(() => expect(world.model.asked()).toBe(1));
  expect((await world.text("Still?")).tries.map(({ status }) => status)).toEqual([200]);
  expect(world.api.sent).toEqual([]);
  world.model.release();
  await world.api.until(({ sent }) => sent.length === 2);
  expect(world.textsTo()).toEqual([echoed("Are you slow?"), echoed("Still?")]);
});

it.concurrent("answers one text once, however often the provider tells of it", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  const { message } = await world.text("Hello?", { webhook: false });
  const tries = await Promise.all(Array.from({ length: 100 }, () => world.api.repeat(message)));
  expect(new Set(tries.flat().map(({ status }) => status))).toEqual(new Set([200]));
  await world.api.until(({ sent }) => sent.length > 0);
  await world.idle();
  await world.api.repeat(message);
  await world.idle();
  expect(world.textsTo()).toEqual([echoed("Hello?")]);
  expect(world.questions()).toHaveLength(1);
  expect(await world.rows("SELECT id FROM events WHERE kind = 'message'")).toHaveLength(1);
});

it.concurrent("sends a long answer in numbered parts, each after the one before was taken", async ({
  onTestFinished,
}) => {
  const world = await openLines(onTestFinished);
  world.api.fault({ slow: 700 }, { times: 1 });
  const question = `${"Where is my lamp? ".repeat(30)}End`;
  await world.text(question);
  await world.api.until(({ sent }) => sent.length >= 2);
  await world.idle();
  const [first, second] = world.api.creates;
  expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(650);
  const texts = world.textsTo();
  expect(texts.map((text) => /\((\d+\/\d+)\)/.exec(text)?.[1])).toEqual(
    texts.map((_, index) => `${index + 1}/${texts.length}`),
  );
  const said = texts.map((text) => text.replace(/\(\d+\/\d+\)/, "").trim()).join(" ");
  expect(said.replaceAll(/\s+/g, " ")).toBe(echoed(question));
});

it.concurrent("keeps the parts in order when the first one has to wait", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  world.api.fault({ code: 20429, retryAfter: 1 }, { times: 1 });
  await world.text(`${"Where is my lamp? ".repeat(30)}End`);
  await world.api.until(({ sent }) => sent.length >= 2);
  await world.idle();
  const numbers = world.api.creates.map(({ form }) => /\((\d)\/\d\)/.exec(form["Body"] ?? "")?.[1]);
  expect(numbers.slice(0, 3)).toEqual(["1", "1", "2"]);
});

it.concurrent("keeps prefixes of other services as part of the address", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished, { sms: { number: `whatsapp:${ourNumber}` } });
  await world.text("Hello?", { from: `whatsapp:${anna}`, to: `whatsapp:${ourNumber}` });
  await world.api.until(({ sent }) => sent.length === 1);
  expect(world.api.sent).toMatchObject([{ from: `whatsapp:${ourNumber}`, to: `whatsapp:${anna}` }]);
});

it.concurrent("answers from the address that was written to, and finds what was missed there", async ({
  onTestFinished,
}) => {
  const world = await openLines(onTestFinished);
  const pairs = [
    ["+12025550188", anna],
    [`whatsapp:${ourNumber}`, `whatsapp:${anna}`],
    ["rcs:brand_agent", `rcs:${anna}`],
    ["messenger:1029384756", "messenger:5647382910"],
  ] as const;
  for (const [to, from] of pairs) await world.text("Hello?", { from, to });
  await world.api.until(({ sent }) => sent.length === pairs.length);
  for (const [to, from] of pairs) await world.text("Missed?", { from, to, webhook: false });
  await world.api.until(({ sent }) => sent.length === 2 * pairs.length);
  await world.idle();
  const routes = world.api.sent.map(({ from, to, body }) => `${from} ${to} ${body}`);
  expect(new Set(routes)).toEqual(
    new Set(pairs.flatMap(([to, from]) => ["Hello?", "Missed?"].map((text) => `${to} ${from} ${echoed(text)}`))),
  );
});

it.concurrent("answers more than ten texts in ten minutes, with the defaults of SMS", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished, { sms: { caps: undefined } });
  for (let at = 0; at < 12; at++) {
    await world.text(`text ${at}`);
    await world.api.until(({ sent }) => sent.length === at + 1);
  }
  expect(world.textsTo()).toEqual(Array.from({ length: 12 }, (_, at) => echoed(`text ${at}`)));
});

it.concurrent("tells the agent of a picture that came without words", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  await world.text("", { media: [{ type: "image/jpeg", bytes: Buffer.from("jpeg") }] });
  await world.api.until(({ sent }) => sent.length === 1);
  expect(world.questions().map(({ text }) => text)).toEqual([expect.stringContaining("picture")]);
});

it.concurrent("fetches pictures with the credentials sent to the provider only", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  const jpeg = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff]), Buffer.alloc(50_000, "x")]);
  // A provider that is not well at first; the agent is asked all the same.
  world.api.fault({ status: 503 }, { on: "media", times: 1 });
  await world.text("Which lamp is this?", { media: [{ type: "image/jpeg", bytes: jpeg }] });
  const unwell = "SELECT 1 FROM attachments WHERE due_at IS NOT NULL AND reason LIKE '%503'";
  await eventually(async () => expect(await world.rows(unwell)).toHaveLength(1));
  await world.text("And this?", { media: [{ type: "image/jpeg", bytes: Buffer.from("MZ no picture") }] });
  await world.api.until(({ sent }) => sent.length === 2);
  const kept = () =>
    world.rows<{ bytes: Buffer | null; size: number | null; attempts: number; reason: string | null }>(
      `SELECT blobs.bytes, size, attempts, reason FROM attachments LEFT JOIN blobs ON blobs.id = attachments.blob
       WHERE due_at IS NULL ORDER BY event`,
    );
  await eventually(async () => expect(await kept()).toHaveLength(2));
  const [picture, program] = await kept();
  expect(picture).toMatchObject({ size: jpeg.length, attempts: 2, reason: null });
  expect(picture?.bytes?.equals(jpeg)).toBe(true);
  expect(program).toEqual({
    bytes: null,
    size: null,
    attempts: 1,
    reason: "fetching media: the content does not match its announced type",
  });
  expect(world.api.fetched.map(({ authorization }) => authorization)).toEqual([false, false]);
});

it.concurrent("answers neither its own number nor unsigned webhooks", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  await world.text("Loop", { from: ourNumber });
  await world.idle();
  expect(await world.rows("SELECT state, code FROM events WHERE kind = 'message'")).toEqual([
    { state: "ignored", code: "own" },
  ]);
  const { message } = await world.text("Hello?", {
    webhook: false,
    more: { MessageSid: `SM${"0".repeat(32)}` },
  });
  const forged = await world.forge(message);
  expect(forged).toBe(403);
  expect(await world.rows("SELECT id FROM events WHERE kind = 'message'")).toHaveLength(1);
  expect(world.api.sent).toEqual([]);
});

it.concurrent("finds texts that came while it was down, and answers them once", async ({ onTestFinished }) => {
  const clock = movableClock();
  const world = await openLines(onTestFinished, { clock, stopped: true });
  await world.text("Long ago", { webhook: false });
  clock.forward(3_600_000);
  await world.start();
  await world.stop();
  const { message, tries } = await world.text("Anybody?");
  expect(tries.every(({ status }) => status === null)).toBe(true);
  await world.text("Hello?", { from: bert });
  await world.start();
  await world.api.until(({ sent }) => sent.length === 2);
  await world.api.repeat(message);
  await world.idle();
  expect(world.textsTo()).toEqual([echoed("Anybody?")]);
  expect(world.textsTo(bert)).toEqual([echoed("Hello?")]);
  expect(world.questions(), "what was there before the first start stays unanswered").toHaveLength(2);
});

it.concurrent("finds a text that the webhook lost while it runs", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished);
  await world.text("Anybody?", { webhook: false });
  await world.api.until(({ sent }) => sent.length === 1);
  expect(world.textsTo()).toEqual([echoed("Anybody?")]);
});

it.concurrent("says nothing that the platform answers after a stop twice", async ({ onTestFinished }) => {
  const world = await openLines(onTestFinished, { platform: { timeout: "10m" } });
  world.model.hold();
  await world.text("Hello?");
  await eventually(() => expect(world.model.asked()).toBe(1));
  await world.stop(200);
  world.model.release();
  await world.start();
  await world.api.until(({ sent }) => sent.length === 1);
  await world.idle();
  expect(world.textsTo()).toEqual([echoed("Hello?")]);
  expect(world.questions()).toHaveLength(1);
});
