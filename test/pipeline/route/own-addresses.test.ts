// Several own addresses on one channel: each has its own thread, which is answered from the address that received the
// message.

import type { MessageEvent, Reply, SendOutcome } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { begin } from "../../../src/pipeline/outbound.ts";
import { noteOwnAddress, ownAddresses } from "../../../src/store/tables/conversations.ts";
import { suppress } from "../../../src/store/tables/suppressions.ts";
import { ann, openTexts, type TextOptions, type Texts, testClock } from "../../support/pipeline/pipeline.ts";

const whatsapp = "whatsapp:+15550100";
const second = "+15550200";
const annOnWhatsapp = `whatsapp:${ann}`;

/** `to` is ours. */
const written = (from: string, to: string, text = "hi"): Partial<MessageEvent> => ({
  text,
  from: { address: from },
  to: [{ address: to }],
  ...(to === "+15550100" ? {} : { via: to }),
});

const routes = (replies: readonly Reply[]) =>
  replies.map(({ from, to, text }) => `${from ?? "default"} > ${to[0]?.address}: ${text}`);

describe("answers from the address that was written to", () => {
  it("keeps a conversation for each of our addresses", async () => {
    const pipeline = await openTexts();
    await pipeline.say(written(ann, "+15550100", "one"));
    await pipeline.say(written(ann, second, "two"));
    await pipeline.say(written(annOnWhatsapp, whatsapp, "three"));
    await pipeline.say(written(ann, second, "four"), written(ann, "+15550100", "five"));
    expect(new Set(routes(pipeline.replies))).toEqual(
      new Set([
        `default > ${ann}: answer to one`,
        `${second} > ${ann}: answer to two`,
        `${whatsapp} > ${annOnWhatsapp}: answer to three`,
        `${second} > ${ann}: answer to four`,
        `default > ${ann}: answer to five`,
      ]),
    );
    expect(pipeline.platform.count("start")).toBe(3);
  });

  it("answers a HELP from there, too", async () => {
    const pipeline = await openTexts();
    await pipeline.say({ ...written(ann, second, "help"), consent: { word: "help", answer: "Call us." } });
    expect(routes(pipeline.replies)).toEqual([`${second} > ${ann}: Call us.`]);
  });

  it("continues an outbound conversation, from any number that the provider chose", async () => {
    const pipeline = await openTexts();
    const opening = { introduction: "Hello!", subject: null, context: null, speak: true };
    const wanted = { channel: "c", agent: "agent", address: ann, name: null, opening };
    const begun = await pipeline.scheduler.commit((q) => begin(q, pipeline.clock, wanted));
    await pipeline.settles();
    await pipeline.say(written(ann, second, "who is this?"));
    await pipeline.say(written(ann, second, "and now?"));
    expect(routes(pipeline.replies)).toEqual([
      `default > ${ann}: Hello!`,
      `${second} > ${ann}: answer to who is this?`,
      `${second} > ${ann}: answer to and now?`,
    ]);
    expect((await pipeline.state(1)).conversation).toBe(begun.conversation);
    // What is written to the default number has another thread.
    await pipeline.say(written(ann, "+15550100", "hello there"));
    expect(routes(pipeline.replies).at(-1)).toBe(`default > ${ann}: answer to hello there`);
  });

  it("knows at which addresses a channel has received, and leaves those that another one received at since", async () => {
    const pipeline = await openTexts({ clock: testClock(true) });
    await pipeline.say(written(ann, "+15550100"), written(annOnWhatsapp, whatsapp));
    pipeline.clock.forward(7_200_000);
    await pipeline.say(written(ann, second));
    const known = () => pipeline.db.read((q) => ownAddresses(q, "c"));
    expect(await known()).toEqual([second, ...(await known()).slice(1)]);
    expect(new Set(await known())).toEqual(new Set([second, whatsapp, "+15550100"]));
    await pipeline.db.tx((q) => noteOwnAddress(q, "d", whatsapp));
    expect(new Set(await known())).toEqual(new Set([second, "+15550100"]));
  });
});

describe("a sender that may not send", () => {
  const notFound: SendOutcome = {
    kind: "deferred",
    reason: "63007: no such channel",
    scope: "sender",
    cause: "set-up",
  };

  it("does not delay other senders", async () => {
    let broken = true;
    const pipeline = await openTexts({
      clock: testClock(true),
      provider: (_, text) => (broken && text.includes("whatsapp") ? notFound : undefined),
    });
    await pipeline.say(written(annOnWhatsapp, whatsapp, "by whatsapp"));
    await pipeline.say(written("+15550122", "+15550100", "by text"), written(ann, second, "by the other"));
    expect(pipeline.texts).toEqual([expect.stringContaining("answer to by"), expect.stringContaining("answer to by")]);
    // Its own drafts go out when it is mended, after minutes at most.
    await pipeline.passes(900_000, 5000);
    expect(pipeline.texts).toHaveLength(2);
    broken = false;
    await pipeline.passes(361_000, 5000);
    expect(pipeline.texts.at(-1)).toBe(`${annOnWhatsapp}: answer to by whatsapp`);
  });

  it("has a send rate of its own", async () => {
    const pipeline = await openTexts({
      clock: testClock(true),
      rules: { rate: { messages: 1, per: 60_000 } },
    });
    await pipeline.say(
      written(annOnWhatsapp, whatsapp, "one"),
      written(ann, second, "two"),
      written("+15550122", "+15550100", "three"),
      written("+15550133", "+15550100", "four"),
    );
    expect(pipeline.texts).toHaveLength(3);
    await pipeline.passes(61_000, 1000);
    expect(pipeline.texts).toHaveLength(4);
  });
});

describe("a person at a cap", () => {
  const told = "They are saved.";
  const hour = 3_600_000;
  const openCapped = (over: Partial<TextOptions> = {}): Promise<Texts> =>
    openTexts({
      clock: testClock(true),
      rules: { caps: { sender: [{ max: 2, per: 600_000 }], conversation: [], channel: [] }, cap_text: told },
      ...over,
    });
  const many = async (pipeline: Texts, count: number, from = ann) => {
    for (let at = 0; at < count; at++)
      await pipeline.say({ ...written(from, "+15550100", `text ${at}`), sentAt: new Date(pipeline.clock.now()) });
  };
  const notices = (pipeline: Texts) => pipeline.texts.filter((text) => text.endsWith(told)).length;

  it("is informed once, from the address it wrote to, and nothing is lost", async () => {
    const pipeline = await openCapped();
    for (let at = 0; at < 6; at++) await pipeline.say(written(ann, second, `text ${at}`));
    expect(pipeline.texts.slice(0, 2)).toEqual([`${ann}: answer to text 0`, `${ann}: answer to text 1`]);
    expect(pipeline.texts.slice(2)).toEqual([`${ann}: ${told}`]);
    expect(pipeline.replies.at(-1)).toMatchObject({ kind: "notice", from: second });
    expect(await pipeline.listed("held")).toEqual(Array.from({ length: 4 }, () => "cap-sender"));
    await pipeline.releases(3);
    expect(pipeline.texts.at(-1)).toBe(`${ann}: answer to text 2`);
  });

  it("is informed again in another window, but not within the hour", async () => {
    const pipeline = await openCapped();
    await many(pipeline, 4);
    await pipeline.passes(601_000, 100_000);
    await many(pipeline, 4);
    expect(notices(pipeline)).toBe(1);
    await pipeline.passes(hour, 600_000);
    await many(pipeline, 4);
    expect(notices(pipeline)).toBe(2);
  });

  it.each<[string, Partial<MessageEvent>]>([
    ["a short code", { from: { address: "72345" } }],
    ["another agent", { hops: 1 }],
  ])("is not informed when it is %s", async (_what, over) => {
    const pipeline = await openCapped();
    for (let at = 0; at < 4; at++) await pipeline.say({ ...written(ann, "+15550100", `text ${at}`), ...over });
    expect(await pipeline.listed("held")).toHaveLength(2);
    expect(notices(pipeline)).toBe(0);
  });

  it("is not informed after an opt-out, or without a configured text", async () => {
    const pipeline = await openCapped();
    await many(pipeline, 2);
    await pipeline.db.tx((q) => suppress(q, "c", ann, "STOP"));
    await many(pipeline, 2);
    expect(notices(pipeline)).toBe(0);
    const silent = await openCapped({
      rules: { caps: { sender: [{ max: 2, per: 600_000 }], conversation: [], channel: [] }, cap_text: "" },
    });
    await many(silent, 4);
    expect(silent.texts).toHaveLength(2);
  });
});
