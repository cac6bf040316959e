// Texts through the whole daemon: inbound webhook, agent, outbound text, and delivery receipts.

import { expect, it } from "vitest";
import { eventually, movableClock } from "../../support/clock.ts";
import { anna, ourNumber, startPhoneDaemon } from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";

const bert = "+12025550124";

it.concurrent("answers a text, and knows what became of the answer", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished, { smsSkill: { smsSignature: "The Team" } });
  const { tries } = await daemon.text("Hello?");
  expect(tries).toMatchObject([{ status: 200, type: expect.stringContaining("text/xml") as string }]);
  expect(tries[0]?.body, "nothing is said in the webhook's answer").toMatch(
    /^(<\?xml[^>]*\?>)?\s*<Response\s*(\/>|><\/Response>)\s*$/,
  );
  await daemon.api.until(({ callbacks }) => callbacks.length === 2);
  expect(daemon.textsTo()).toEqual([`${echoed("Hello?")}\nThe Team`]);
  expect(daemon.api.sent).toMatchObject([{ from: ourNumber, to: anna, direction: "outbound-api" }]);
  expect(daemon.api.callbacks.map(({ posted }) => posted.status)).toEqual([200, 200]);
  await daemon.idle();
  expect(await daemon.rows("SELECT state FROM drafts")).toEqual([{ state: "delivered" }]);
  const hops = daemon.log.filter(({ fields }) => fields["trace"] === "m1").map(({ message }) => message);
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
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("one");
  await daemon.api.until(() => daemon.textsTo().length === 1);
  await daemon.text("two");
  await daemon.text("hi", { from: bert });
  await daemon.api.until(() => daemon.textsTo().length === 2 && daemon.textsTo(bert).length === 1);
  const conversationOf = (text: string) => daemon.questions().find((one) => one.text === text)?.conversation;
  expect(conversationOf("two")).toBe(conversationOf("one"));
  expect(conversationOf("hi")).not.toBe(conversationOf("one"));
  expect(daemon.textsTo()).toEqual([echoed("one"), echoed("two")]);
});

it.concurrent("joins texts in quick succession into one question", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startPhoneDaemon(onTestFinished, { clock, sms: { debounce: "1m" } });
  await daemon.text("I have");
  await daemon.text("a question");
  await daemon.text("about lamps");
  await eventually(async () => expect(await daemon.rows("SELECT id FROM events WHERE state = 'stored'")).toEqual([]));
  clock.forward(60_000);
  await daemon.api.until(({ sent }) => sent.length > 0);
  await daemon.idle();
  expect(daemon.questions().map(({ text }) => text)).toEqual(["I have\na question\nabout lamps"]);
  expect(daemon.textsTo()).toHaveLength(1);
});

it.concurrent("answers the webhook without the agent", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  daemon.model.hold();
  const { tries } = await daemon.text("Are you slow?");
  expect(tries.map(({ status }) => status)).toEqual([200]);
  await eventually(() => expect(daemon.model.asked()).toBe(1));
  expect((await daemon.text("Still?")).tries.map(({ status }) => status)).toEqual([200]);
  expect(daemon.api.sent).toEqual([]);
  daemon.model.release();
  await daemon.api.until(({ sent }) => sent.length === 2);
  expect(daemon.textsTo()).toEqual([echoed("Are you slow?"), echoed("Still?")]);
});

it.concurrent("answers one text once, with any number of repeated webhooks", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  const { message } = await daemon.text("Hello?", { webhook: false });
  const tries = await Promise.all(Array.from({ length: 100 }, () => daemon.api.repeat(message)));
  expect(new Set(tries.flat().map(({ status }) => status))).toEqual(new Set([200]));
  await daemon.api.until(({ sent }) => sent.length > 0);
  await daemon.idle();
  await daemon.api.repeat(message);
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([echoed("Hello?")]);
  expect(daemon.questions()).toHaveLength(1);
  expect(await daemon.rows("SELECT id FROM events WHERE kind = 'message'")).toHaveLength(1);
});

it.concurrent("sends a long answer in numbered parts, each after the one before was taken", async ({
  onTestFinished,
}) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  daemon.api.fault({ slow: 700 }, { times: 1 });
  const question = `${"Where is my lamp? ".repeat(30)}End`;
  await daemon.text(question);
  await daemon.api.until(({ sent }) => sent.length >= 2);
  await daemon.idle();
  const [first, second] = daemon.api.creates;
  expect((second?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThanOrEqual(650);
  const texts = daemon.textsTo();
  expect(texts.map((text) => /\((\d+\/\d+)\)/.exec(text)?.[1])).toEqual(
    texts.map((_, index) => `${index + 1}/${texts.length}`),
  );
  const said = texts.map((text) => text.replace(/\(\d+\/\d+\)/, "").trim()).join(" ");
  expect(said.replaceAll(/\s+/g, " ")).toBe(echoed(question));
});

it.concurrent("keeps the parts in order when the first one has to wait", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  daemon.api.fault({ code: 20429, retryAfter: 1 }, { times: 1 });
  await daemon.text(`${"Where is my lamp? ".repeat(30)}End`);
  await daemon.api.until(({ sent }) => sent.length >= 2);
  await daemon.idle();
  const numbers = daemon.api.creates.map(({ form }) => /\((\d)\/\d\)/.exec(form["Body"] ?? "")?.[1]);
  expect(numbers.slice(0, 3)).toEqual(["1", "1", "2"]);
});

it.concurrent("keeps prefixes of other services as part of the address", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished, { sms: { number: `whatsapp:${ourNumber}` } });
  await daemon.text("Hello?", { from: `whatsapp:${anna}`, to: `whatsapp:${ourNumber}` });
  await daemon.api.until(({ sent }) => sent.length === 1);
  expect(daemon.api.sent).toMatchObject([{ from: `whatsapp:${ourNumber}`, to: `whatsapp:${anna}` }]);
});

it.concurrent("answers from the address that was written to, and finds what was missed there", async ({
  onTestFinished,
}) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  const pairs = [
    ["+12025550188", anna],
    [`whatsapp:${ourNumber}`, `whatsapp:${anna}`],
    ["rcs:brand_agent", `rcs:${anna}`],
    ["messenger:1029384756", "messenger:5647382910"],
  ] as const;
  for (const [to, from] of pairs) await daemon.text("Hello?", { from, to });
  await daemon.api.until(({ sent }) => sent.length === pairs.length);
  for (const [to, from] of pairs) await daemon.text("Missed?", { from, to, webhook: false });
  await daemon.api.until(({ sent }) => sent.length === 2 * pairs.length);
  await daemon.idle();
  const routes = daemon.api.sent.map(({ from, to, body }) => `${from} ${to} ${body}`);
  expect(new Set(routes)).toEqual(
    new Set(pairs.flatMap(([to, from]) => ["Hello?", "Missed?"].map((text) => `${to} ${from} ${echoed(text)}`))),
  );
});

it.concurrent("answers more than ten texts in ten minutes, with the defaults of SMS", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished, { sms: { caps: undefined } });
  for (let at = 0; at < 12; at++) {
    await daemon.text(`text ${at}`);
    await daemon.api.until(({ sent }) => sent.length === at + 1);
  }
  expect(daemon.textsTo()).toEqual(Array.from({ length: 12 }, (_, at) => echoed(`text ${at}`)));
});

it.concurrent("sends what waits for the rate of the channel once a reload has raised it", async ({
  onTestFinished,
}) => {
  const daemon = await startPhoneDaemon(onTestFinished, { sms: { rate: { messages: 1, per: "1h" } } });
  await daemon.text("Hello?", { from: "+15550000001" });
  await daemon.text("Hello?", { from: "+15550000002" });
  await daemon.api.until(({ sent }) => sent.length === 1);
  const waiting = "SELECT 1 FROM drafts WHERE state = 'queued'";
  await eventually(async () => expect(await daemon.rows(waiting)).toHaveLength(1));
  const config = await daemon.config();
  const channels = config.channels.map((one) => ({ ...one, core: { ...one.core, rate: undefined } }));
  await daemon.app().reload({ ...config, channels });
  await daemon.api.until(({ sent }) => sent.length === 2);
});

it.concurrent("reports a picture without text to the agent", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("", { media: [{ type: "image/jpeg", bytes: Buffer.from("jpeg") }] });
  await daemon.api.until(({ sent }) => sent.length === 1);
  expect(daemon.questions().map(({ text }) => text)).toEqual([expect.stringContaining("picture")]);
});

it.concurrent("fetches pictures with the credentials sent to the provider only", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  const jpeg = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff]), Buffer.alloc(50_000, "x")]);
  // The provider fails the first media request; the agent still gets the question.
  daemon.api.fault({ status: 503 }, { on: "media", times: 1 });
  await daemon.text("Which lamp is this?", { media: [{ type: "image/jpeg", bytes: jpeg }] });
  const unwell = "SELECT 1 FROM attachments WHERE due_at IS NOT NULL AND reason LIKE '%503'";
  await eventually(async () => expect(await daemon.rows(unwell)).toHaveLength(1));
  await daemon.text("And this?", { media: [{ type: "image/jpeg", bytes: Buffer.from("MZ no picture") }] });
  await daemon.api.until(({ sent }) => sent.length === 2);
  const kept = () =>
    daemon.rows<{ bytes: Buffer | null; size: number | null; attempts: number; reason: string | null }>(
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
  expect(daemon.api.fetched.map(({ authorization }) => authorization)).toEqual([false, false]);
});

it.concurrent("answers neither its own number nor unsigned webhooks", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("Loop", { from: ourNumber });
  await daemon.idle();
  expect(await daemon.rows("SELECT state, code FROM events WHERE kind = 'message'")).toEqual([
    { state: "ignored", code: "own" },
  ]);
  const { message } = await daemon.text("Hello?", {
    webhook: false,
    more: { MessageSid: `SM${"0".repeat(32)}` },
  });
  const forged = await daemon.forge(message);
  expect(forged).toBe(403);
  expect(await daemon.rows("SELECT id FROM events WHERE kind = 'message'")).toHaveLength(1);
  expect(daemon.api.sent).toEqual([]);
});

it.concurrent("finds texts that came while it was down, and answers them once", async ({ onTestFinished }) => {
  const clock = movableClock();
  const daemon = await startPhoneDaemon(onTestFinished, { clock, stopped: true });
  await daemon.text("Long ago", { webhook: false });
  clock.forward(3_600_000);
  await daemon.start();
  await daemon.stop();
  const { message, tries } = await daemon.text("Anybody?");
  expect(tries.every(({ status }) => status === null)).toBe(true);
  await daemon.text("Hello?", { from: bert });
  await daemon.start();
  await daemon.api.until(({ sent }) => sent.length === 2);
  await daemon.api.repeat(message);
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([echoed("Anybody?")]);
  expect(daemon.textsTo(bert)).toEqual([echoed("Hello?")]);
  expect(daemon.questions(), "what was there before the first start stays unanswered").toHaveLength(2);
});

it.concurrent("finds a text that the webhook lost while it runs", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished);
  await daemon.text("Anybody?", { webhook: false });
  await daemon.api.until(({ sent }) => sent.length === 1);
  expect(daemon.textsTo()).toEqual([echoed("Anybody?")]);
});

it.concurrent("says nothing that the platform answers after a stop twice", async ({ onTestFinished }) => {
  const daemon = await startPhoneDaemon(onTestFinished, { platform: { timeout: "10m" } });
  daemon.model.hold();
  await daemon.text("Hello?");
  await eventually(() => expect(daemon.model.asked()).toBe(1));
  await daemon.stop(200);
  daemon.model.release();
  await daemon.start();
  await daemon.api.until(({ sent }) => sent.length === 1);
  await daemon.idle();
  expect(daemon.textsTo()).toEqual([echoed("Hello?")]);
  expect(daemon.questions()).toHaveLength(1);
});
