// Texts whose webhook never reached us, found in the provider's list; and how the channel's health follows the list.

import { type Cursor, cursor, externalId } from "bridgehead/contract";
import { type RecordingChannel, recordingChannel, wallClock } from "bridgehead/contract/testing";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { SmsApi } from "../../../../src/sandbox/sms-api.ts";
import { movableClock } from "../../../support/clock.ts";
import {
  openTwilio,
  ours,
  person,
  type Settings,
  sendText,
  signed,
  startApi,
  textForm,
} from "../../../support/sms/providers.ts";

let api: SmsApi;
beforeEach(async () => {
  api = await startApi();
});
afterEach(() => api.close());

const minute = 60_000;
const missed = (body: string, more: Partial<Parameters<SmsApi["receive"]>[0]> = {}) =>
  api.receive({ from: person, body, webhook: false, ...more });

/** Runs the adapter for the time of `body`, and waits for its end; what it threw, if it did. */
async function running(
  here: ReturnType<typeof openTwilio>,
  start: Cursor | null,
  body: (channel: RecordingChannel) => Promise<void>,
): Promise<unknown> {
  const abort = new AbortController();
  const end = here.adapter.inbound?.run(start, abort.signal).then(
    () => null,
    (error: unknown) => error,
  );
  try {
    await body(here.channel);
  } finally {
    abort.abort();
  }
  return end;
}

/** The cursor of a channel that began a day ago and looked last so long ago. */
const ago = (ms: number) => cursor(`${wallClock().now() - ms}/${wallClock().now() - 24 * 3_600_000}`);
const complete = (channel: RecordingChannel) => Number(channel.cursor?.split("/")[0]);
const looks = (channel: RecordingChannel, count: number) =>
  channel.until(`${count} looks`, ({ calls }) => calls.length >= count);
const texts = (channel: RecordingChannel) => channel.messages.map(({ text }) => text);

it("answers nothing of the past on the very first start, however recent", async () => {
  const clock = { ahead: -20 * minute };
  const history = await startApi({ clock: { ...wallClock(), now: () => wallClock(clock.ahead).now() } });
  await history.receive({ from: person, body: "long ago", webhook: false });
  clock.ahead = -2000;
  await history.receive({ from: person, body: "just before", webhook: false });
  const here = openTwilio(history.url);
  await running(here, null, (channel) => looks(channel, 3));
  expect([texts(here.channel), here.channel.statuses.at(-1)?.state]).toEqual([[], "ready"]);
  expect(complete(here.channel)).toBeGreaterThan(wallClock().now() - minute);
  clock.ahead = 0;
  await history.receive({ from: person, body: "from now on", webhook: false });
  const next = openTwilio(history.url, {}, here.channel);
  await running(next, here.channel.cursor, (channel) =>
    channel.until("the text", ({ messages }) => messages.length > 0),
  );
  expect(texts(here.channel)).toEqual(["from now on"]);
  await history.close();
});

it("starts over at a cursor of another provider", async () => {
  await missed("before");
  const here = openTwilio(api.url);
  await running(here, cursor("bind:42"), (channel) => looks(channel, 1));
  expect(complete(here.channel)).toBeGreaterThan(wallClock().now() - minute);
});

it("finds texts although our clock was an hour ahead for a while", async () => {
  const here = openTwilio(api.url);
  const start = cursor(`${wallClock().now() + 60 * minute}/0`);
  await missed("meanwhile");
  await running(here, start, (channel) => channel.until("the text", ({ messages }) => messages.length > 0));
  expect(complete(here.channel)).toBeLessThanOrEqual(wallClock().now());
});

it("finds texts of the time after a first start by a clock that was an hour ahead", async () => {
  const here = openTwilio(api.url);
  const ahead = wallClock().now() + 60 * minute;
  await running(here, cursor(`${ahead}/${ahead}`), async (channel) => {
    await looks(channel, 1);
    await missed("from now on");
    await channel.until("the text", ({ messages }) => messages.length > 0);
  });
  expect(texts(here.channel)).toEqual(["from now on"]);
});

it("finds texts while our clock is an hour ahead", async () => {
  const here = openTwilio(api.url, {}, recordingChannel({ clock: wallClock(60 * minute) }));
  await running(here, ago(0), async (channel) => {
    await looks(channel, 2);
    await missed("by a clock ahead");
    await channel.until("the text", ({ messages }) => messages.length > 0);
  });
});

it("fetches the texts that arrived during the downtime, oldest first, once", async () => {
  for (const body of ["one", "two", "three"]) await missed(body);
  const here = openTwilio(api.url);
  await running(here, ago(minute), (channel) => looks(channel, 3));
  // All within one second, which is as exact as the list is.
  expect(texts(here.channel)).toEqual(["one", "two", "three"]);
  const event = here.channel.messages[0];
  expect(event).toMatchObject({
    from: { address: person },
    to: [{ address: ours }],
    thread: { answers: [] },
  });
  expect(api.inbound.map(({ sid }) => sid)).toContain(event?.id);
});

it("marks what a lost state of the store has answered already", async () => {
  // All of it happens before the adapter starts; the list's times are whole seconds.
  const clock = { ahead: -2000 };
  const history = await startApi({ clock: { ...wallClock(), now: () => wallClock(clock.ahead).now() } });
  onTestFinished(() => history.close());
  for (const body of ["answered", "open"]) {
    const from = body === "open" ? "+15005550009" : person;
    await history.receive({ from, body, webhook: false });
  }
  // An answer that no store remembers: sent by a channel of its own.
  await sendText(openTwilio(history.url), person, "the answer");
  clock.ahead = 0;
  const here = openTwilio(history.url);
  await running(here, ago(minute), (channel) => looks(channel, 3));
  expect(here.channel.messages.map(({ text, handledBefore }) => [text, handledBefore?.by])).toEqual([
    ["answered", "other"],
    ["open", undefined],
  ]);
  await missed("afterwards");
  const next = openTwilio(api.url, {}, here.channel);
  await running(next, here.channel.cursor, (channel) =>
    channel.until("the text", ({ messages }) => messages.length === 3),
  );
  expect(here.channel.messages.at(-1)?.text).toBe("afterwards");
});

it("asks what waited when an answer was sent whose id the store may not have", async () => {
  const clock = { ahead: -2000 };
  const history = await startApi({ clock: { ...wallClock(), now: () => wallClock(clock.ahead).now() } });
  onTestFinished(() => history.close());
  await history.receive({ from: person, body: "waiting", webhook: false });
  // The process was killed between the provider's answer and its commit.
  await sendText(openTwilio(history.url), person, "the answer to an earlier text");
  const handled = async () => {
    const here = openTwilio(history.url, {}, recordingChannel({ unconfirmed: [person] }));
    await running(here, ago(minute), (channel) => looks(channel, 2));
    return here.channel.messages.map(({ text, handledBefore }) => [text, handledBefore?.by]);
  };
  clock.ahead = 0;
  expect(await handled()).toEqual([["waiting", undefined]]);
  // One unconfirmed draft does not explain two texts.
  clock.ahead = -2000;
  await sendText(openTwilio(history.url), person, "an answer of a lost state of the store");
  clock.ahead = 0;
  expect(await handled()).toEqual([["waiting", "other"]]);
});

it("reads every page of a long list, in one commit", async () => {
  await Promise.all(Array.from({ length: 2100 }, (_, n) => missed(`text ${n}`)));
  const here = openTwilio(api.url);
  await running(here, ago(minute), (channel) => looks(channel, 2));
  expect([new Set(texts(here.channel)).size, here.channel.messages.length]).toEqual([2100, 2100]);
  expect(here.channel.calls.filter(({ events }) => events.length > 0).length).toBe(1);
});

it("gives a text the id that its webhook gives it", async () => {
  const { message } = await missed("both ways");
  const here = openTwilio(api.url);
  const request = () =>
    signed("https://bridge.example/channels/test-channel/inbound", textForm(message.sid, "both ways"));
  await here.post("/inbound", request());
  await running(here, ago(minute), (channel) => looks(channel, 3));
  await here.post("/inbound", request());
  expect(here.channel.messages.length).toBe(1);
  // What is stored is not even handed over again.
  const handed = here.channel.calls.flatMap(({ events }) => events);
  expect(handed.length).toBe(2);
});

it("finds new messages in the next backfill, and continues at the cursor", async () => {
  const here = openTwilio(api.url);
  await running(here, ago(minute), async (channel) => {
    await looks(channel, 1);
    await missed("later");
    await channel.until("the text", ({ messages }) => messages.length === 1);
  });
  await missed("while away");
  const next = openTwilio(api.url, {}, here.channel);
  await running(next, here.channel.cursor, (channel) =>
    channel.until("the text", ({ messages }) => messages.length === 2),
  );
  expect(texts(here.channel)).toEqual(["later", "while away"]);
});

it("leaves what is young to the webhook, which knows more", async () => {
  await missed("just now");
  const here = openTwilio(api.url, { backfill: { every: "50ms", after: "1h", overlap: "1m" } });
  await running(here, ago(10 * minute), (channel) => looks(channel, 3));
  expect(texts(here.channel)).toEqual([]);
  // And does not forget it: the cursor stays behind what was left.
  expect(complete(here.channel)).toBeLessThanOrEqual(wallClock().now() - 10 * minute + 1000);
});

it("reads a long absence in pieces, each with its commit", async () => {
  const clock = { ahead: -5 * 3_600_000 };
  const history = await startApi({ clock: { ...wallClock(), now: () => wallClock(clock.ahead).now() } });
  for (const hours of [5, 3, 1]) {
    clock.ahead = -hours * 3_600_000;
    await history.receive({ from: person, body: `${hours} hours ago`, webhook: false });
  }
  const here = openTwilio(history.url);
  await running(here, ago(6 * 3_600_000), (channel) =>
    channel.until("all of them", ({ messages }) => messages.length === 3),
  );
  expect(texts(here.channel)).toEqual(["5 hours ago", "3 hours ago", "1 hours ago"]);
  const commits = here.channel.calls.filter(({ events }) => events.length > 0);
  expect(commits.length).toBe(3);
  expect(
    here.channel.messages.map(({ sentAt }) => Math.round((wallClock().now() - sentAt.getTime()) / 3_600_000)),
  ).toEqual([5, 3, 1]);
  await history.close();
});

it("hands the cursor over with what it covers, or not at all", async () => {
  await missed("not stored yet");
  const here = openTwilio(api.url);
  const start = ago(minute);
  here.channel.reject();
  const error = await running(here, start, (channel) =>
    channel.until("its end", ({ statuses }) => statuses.at(-1)?.state === "degraded"),
  );
  expect([String(error), here.channel.cursor]).toEqual(["Error: accept: the store is away (planted)", null]);
});

it.each<[string, Settings, string | undefined]>([
  ["texts of other numbers", {}, "+15550999"],
  ["texts of other services", { number: undefined, messaging_service: "MG1" }, undefined],
])("leaves %s alone", async (_what, more, to) => {
  await missed("not ours", to === undefined ? {} : { to });
  const here = openTwilio(api.url, more);
  await running(here, ago(minute), (channel) => looks(channel, 2));
  expect(texts(here.channel)).toEqual([]);
});

it("finds the pictures of a missed text", async () => {
  const media = [{ type: "image/png", bytes: new Uint8Array([0x89, 0x50]) }];
  const { message } = await missed("Look", { media });
  const here = openTwilio(api.url);
  await running(here, ago(minute), (channel) => looks(channel, 2));
  const ref = {
    url: `${api.url}/2010-04-01/Accounts/${"AC".padEnd(34, "a")}/Messages/${message.sid}/Media/${message.media[0]?.sid}`,
    message: message.sid,
    mediaType: "image/png",
  };
  expect(here.channel.messages[0]?.attachments).toMatchObject([{ mediaType: "image/png", ref }]);
});

it("holds a text for which the provider sent no webhook because a machine seems to have written it", async () => {
  const [{ message }] = await Promise.all([missed("Thanks, we will get back to you."), missed("STOP")]);
  for (const one of api.inbound) Object.assign(one, { status: "failed", errorCode: 30039 });
  const here = openTwilio(api.url);
  await running(here, ago(minute), (channel) => looks(channel, 2));
  const held = here.channel.messages.find(({ id }) => id === externalId(message.sid));
  expect(held?.refusal).toMatchObject({ code: "possible-auto-reply", hold: true });
  expect(here.channel.messages.find(({ text }) => text === "STOP")).toMatchObject({ consent: { word: "stop" } });
});

it("is unauthorized with a wrong token, degraded at a peer that is away, and ready again after it", async () => {
  const wrong = openTwilio(api.url, { auth_tokens: ["wrong"] });
  expect(
    String(
      await running(wrong, ago(minute), (channel) =>
        channel.until("the status", ({ statuses }) => statuses.length > 1),
      ),
    ),
  ).toMatch(/401/);
  expect(wrong.channel.statuses.map(({ state }) => state)).toEqual(["connecting", "unauthorized"]);
  const here = openTwilio(api.url);
  api.fault({ status: 500 }, { on: "list" });
  await running(here, ago(minute), (channel) => channel.until("the status", ({ statuses }) => statuses.length > 1));
  api.heal();
  await running(here, ago(minute), (channel) => looks(channel, 1));
  await here.channel.until("ready", ({ statuses }) => statuses.at(-1)?.state === "ready");
  expect(here.channel.statuses.map(({ state }) => state)).toEqual(["connecting", "degraded", "ready"]);
});

it("becomes ready again in a second run, after the first one was stopped", async () => {
  const here = openTwilio(api.url);
  const isReady = ({ statuses }: RecordingChannel) => statuses.at(-1)?.state === "ready";
  for (let run = 1; run <= 2; run++) {
    await running(here, ago(minute), (channel) => channel.until("ready", isReady));
    here.channel.statuses.push({ state: "degraded", code: "connection", reason: "the channel's lease was lost" });
  }
});

it("says when the provider cannot reach us, however well we reach it", async () => {
  const local = recordingChannel({ publicUrl: "http://127.0.0.1:8025/channels/x" });
  const far = { api_url: "https://api.twilio.example" };
  const here = openTwilio(far.api_url, {}, local);
  await running(here, ago(minute), (channel) => channel.until("a status", ({ statuses }) => statuses.length > 0));
  expect(local.statuses[0]).toMatchObject({ state: "degraded", code: "public-url" });
  // A sandbox on this machine reaches it.
  const beside = openTwilio(api.url, {}, recordingChannel({ publicUrl: "http://127.0.0.1:8025/channels/x" }));
  expect(await beside.adapter.probe?.(AbortSignal.timeout(60_000))).toEqual({ state: "ready" });
});

it("accepts a consent keyword at once, and polls again soon for texts that its webhook may still deliver", async () => {
  await missed("hello?");
  await missed("STOP");
  const clock = movableClock();
  const asleep = Promise.withResolvers<void>();
  const after = { backfill: { every: "1h", after: "10m", overlap: "1m" } };
  const here = openTwilio(
    api.url,
    after,
    recordingChannel({
      clock: {
        ...clock,
        sleep(ms, signal) {
          if (ms >= 10 * minute) asleep.resolve();
          return clock.sleep(ms, signal);
        },
      },
    }),
  );
  await running(here, ago(minute), async (channel) => {
    await channel.until("the word", ({ messages }) => messages.length > 0);
    expect(texts(channel)).toEqual(["STOP"]);
    expect(channel.messages[0]?.consent?.word).toBe("stop");
    // Time passes between the two looks only: a request that takes a minute is given up.
    await asleep.promise;
    clock.forward(12 * minute);
    await channel.until("the other text", ({ messages }) => messages.length > 1);
    expect(texts(channel)).toEqual(["STOP", "hello?"]);
  });
});

describe("texts at our further addresses", () => {
  const further = ["+15550300", "whatsapp:+15550100", "rcs:brand_agent", "messenger:1029384756"];

  it("are found where the configuration names them, and at no other number of the account", async () => {
    for (const to of [ours, ...further, "+15550999"]) await missed(`to ${to}`, { to });
    const here = openTwilio(api.url, { further_numbers: further });
    await running(here, ago(minute), (channel) => looks(channel, 3));
    expect(new Set(texts(here.channel))).toEqual(new Set([ours, ...further].map((to) => `to ${to}`)));
    expect(here.channel.messages.length).toBe(1 + further.length);
    const vias = here.channel.messages.map(({ via, text }) => `${text}: ${via ?? "default"}`);
    expect(new Set(vias)).toEqual(new Set([`to ${ours}: default`, ...further.map((to) => `to ${to}: ${to}`)]));
  });

  it("are answered already when the answer came from the same address", async () => {
    const clock = { ahead: -2000 };
    const history = await startApi({ clock: { ...wallClock(), now: () => wallClock(clock.ahead).now() } });
    onTestFinished(() => history.close());
    const [customer, whatsapp] = [`whatsapp:${person}`, `whatsapp:${ours}`];
    await history.receive({ from: customer, to: whatsapp, body: "over WhatsApp", webhook: false });
    await history.receive({ from: person, to: ours, body: "to the number", webhook: false });
    await history.receive({ from: person, to: "+15550300", body: "to the other number", webhook: false });
    for (const to of [customer, person]) await sendText(openTwilio(history.url), to, "the answer");
    clock.ahead = 0;
    const here = openTwilio(history.url, { further_numbers: ["+15550300", whatsapp] });
    await running(here, ago(minute), (channel) => looks(channel, 4));
    expect(new Map(here.channel.messages.map(({ text, handledBefore }) => [text, handledBefore?.by]))).toEqual(
      new Map([
        ["over WhatsApp", "other"],
        ["to the number", "other"],
        ["to the other number", undefined],
      ]),
    );
  });

  it("are found where a webhook has brought one before", async () => {
    const here = openTwilio(api.url);
    for (const [at, To] of further.entries()) {
      const form = textForm(`SM${at}`, "before", { To });
      await here.post("/inbound", signed("https://bridge.example/channels/test-channel/inbound", form));
      await missed(`to ${To}`, { to: To });
    }
    await missed("not ours", { to: "+15550999" });
    await running(here, ago(minute), (channel) => looks(channel, 2 + further.length));
    const found = texts(here.channel).filter((text) => text !== "before");
    expect(new Set(found)).toEqual(new Set(further.map((to) => `to ${to}`)));
  });

  it("are found in addition to those of a messaging service", async () => {
    await missed("by rcs", { to: "rcs:brand_agent" });
    await missed("not ours", { to: "+15550999" });
    const service = { number: undefined, messaging_service: "MG1", further_numbers: ["rcs:brand_agent"] };
    const here = openTwilio(api.url, service);
    await running(here, ago(minute), (channel) => looks(channel, 2));
    expect(texts(here.channel)).toEqual(["by rcs"]);
  });
});
