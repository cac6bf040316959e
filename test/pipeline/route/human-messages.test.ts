// Messages for humans: each is sent to `notify` once, in a conversation of its own, and never to the agent.

import type { Outbound, Reply } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { answerTo } from "../../../src/domain/turn.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { floodLimit } from "../../../src/pipeline/route/unasked/decide.ts";
import { insertNotices } from "../../../src/store/tables/drafts.ts";
import { escalationsIn, raising } from "../../support/escalation/policy.ts";
import { ann, mail, openTexts, type TextOptions } from "../../support/pipeline/pipeline.ts";
import { conversation } from "../../support/store/databases.ts";

const notify = { channel: "m", to: ["Ops@example.com", "boss@example.com"] };
const telling = (over: TextOptions = {}) =>
  openTexts({
    channels: ["c", "m"],
    ...over,
    line: (line): ChannelRuntime => ({
      ...line,
      rules: { ...line.rules, ...(line.channel === "c" ? { notify } : {}) },
      traits: line.channel === "m" ? { ...line.traits, platform: "email", conversations: "thread" } : line.traits,
    }),
  });
const voicemail = {
  text: "Please call me back.",
  from: { address: ann, name: "Ann" },
  forHumans: { subject: "Voicemail" },
};
const said = "Please call me back.\n\nFrom: Ann, +15550111 (c)";

it("goes to each of them over their channel, with its subject, and never to the agent", async () => {
  const pipeline = await telling({ delay: 3600 });
  await pipeline.say(voicemail);
  // Two conversations, which are sent in any order.
  const byAddress = (a: string, b: string) => a.localeCompare(b);
  expect(pipeline.texts.toSorted(byAddress)).toEqual([`boss@example.com: ${said}`, `Ops@example.com: ${said}`]);
  for (const reply of pipeline.replies)
    expect(reply).toMatchObject({
      kind: "notice",
      subject: "Voicemail",
      signature: null,
      introduction: null,
      answers: null,
    });
  const addresses = pipeline.replies.map(({ to }) => to[0]?.address ?? "");
  expect(addresses.toSorted(byAddress)).toEqual(["boss@example.com", "Ops@example.com"]);
  expect(pipeline.platform.calls).toEqual([]);
  expect(await pipeline.state()).toMatchObject({
    state: "routed",
    code: "for-humans",
    conversation: expect.any(String),
  });
  const opened = await pipeline.db.read((q) =>
    q.all("SELECT channel, person FROM conversations ORDER BY channel, person"),
  );
  expect(opened).toEqual([
    { channel: "c", person: ann },
    { channel: "m", person: "boss@example.com" },
    { channel: "m", person: "ops@example.com" },
  ]);
});

it("stays in the caller's conversation", async () => {
  const pipeline = await telling();
  await pipeline.says("hello");
  await pipeline.say(voicemail);
  expect((await pipeline.state(2)).conversation).toBe((await pipeline.state(1)).conversation);
});

it("names what is attached", async () => {
  const pipeline = await telling();
  const recording = { name: "voicemail.mp3", mediaType: "audio/mpeg", ref: "RE1", size: 4096 };
  await pipeline.say({ ...voicemail, attachments: [recording] });
  expect(pipeline.texts[0]).toContain("[Attachment: voicemail.mp3 (audio/mpeg, 4 kB)]");
});

it("is sent once after a crash at any failpoint", async () => {
  const pipeline = await telling();
  await pipeline.scheduler.drain(0);
  const event = mail({ ...voicemail, to: [] });
  await pipeline.accepts("c", event);
  const next = await pipeline.reborn();
  await next.settles();
  await next.accepts("c", event);
  await next.settles();
  const last = await next.reborn();
  await last.settles();
  expect([pipeline.texts.length, next.texts.length, last.texts.length]).toEqual([0, 2, 0]);
});

it("is sent regardless of the channel's cap and its age", async () => {
  const cap = [{ max: 0, per: 60_000 }];
  const pipeline = await telling({
    rules: { max_age: 1, caps: { sender: cap, conversation: cap, channel: cap } },
  });
  await pipeline.say({ ...voicemail, sentAt: new Date(0) });
  expect(pipeline.texts).toHaveLength(2);
});

it("is held and listed without a recipient", async () => {
  const pipeline = await openTexts();
  await pipeline.say(voicemail);
  expect(await pipeline.listed("held")).toEqual(["for-humans"]);
  expect([pipeline.platform.calls, pipeline.texts]).toEqual([[], []]);
  const row = await pipeline.db.read((q) => q.one("SELECT subject FROM events"));
  expect(row).toEqual({ subject: "Voicemail" });
  // Released, it still does not go to the agent.
  await pipeline.releases(1);
  expect([await pipeline.listed("held"), pipeline.platform.calls]).toEqual([["for-humans"], []]);
});

it("is notified when it is released after a recipient was configured", async () => {
  const pipeline = await openTexts({ channels: ["c", "m"] });
  await pipeline.say(voicemail);
  const { db, clock, platform } = pipeline;
  await pipeline.scheduler.drain(0);
  const next = await telling({ db, clock, platform });
  await next.releases(1);
  expect([next.texts.length, await next.listed("held")]).toEqual([2, []]);
});

it("is a reply like any other where it cannot be sent: listed nowhere, logged", async () => {
  const pipeline = await openTexts({ line: (line) => ({ ...line, outbound: null }) });
  const address = answerTo(mail({ text: "" }));
  await pipeline.scheduler.commit(async (q) => {
    await conversation(q, "k");
    const notice = { channel: "c", conversation: "k", address, text: "x", forced: false, internal: false };
    await insertNotices(q, [{ id: "r", ...notice }]);
  });
  expect(pipeline.heard).toContain("composing a reply failed");
});

it("notifies responders once of a flood of messages that only a human can read, also when each comes alone", async () => {
  const pipeline = await openTexts({ line: raising() });
  const sealed = { text: "", refusal: { code: "encrypted", reason: "it is encrypted", hold: true } as const };
  for (let n = 0; n < floodLimit + 3; n++)
    await pipeline.say({ ...sealed, from: { address: `+1555020${n}` }, to: [{ address: "+15550100" }] });
  const raised = await escalationsIn(pipeline.db);
  expect(raised.map(({ about }) => about.split(":")[0])).toEqual([
    ...Array(floodLimit).fill("conversation"),
    "channel",
  ]);
});

describe("a throw in compose makes nothing undeliverable", () => {
  /** Composes plain texts alone, or none but a certain one. */
  const picky = (accepts: (reply: Reply) => boolean): TextOptions => ({
    channels: ["c", "m"],
    line: (line): ChannelRuntime => ({
      ...line,
      rules: { ...line.rules, ...(line.channel === "c" ? { notify } : {}) },
      outbound: line.outbound && {
        ...line.outbound,
        compose(reply) {
          if (!accepts(reply)) throw new RangeError("Maximum call stack size exceeded");
          return line.outbound?.compose(reply) ?? [];
        },
      },
    }),
  });

  it("an answer is composed as shortened plain text, without signature and introduction", async () => {
    const pipeline = await openTexts(picky(({ plain }) => plain === true));
    await pipeline.says(`a ${"b".repeat(20_000)}`);
    const [sent = ""] = pipeline.texts;
    expect(sent).toBe(`${ann}: ${`answer to a ${"b".repeat(20_000)}`.slice(0, 10_000)} [...]`);
    expect(pipeline.replies.at(-1)).toMatchObject({ plain: true, signature: null, introduction: null });
    expect(pipeline.heard).toContain("composing a reply failed, trying a plain text");
  });

  it("a notice is replaced by a fixed text at last", async () => {
    const pipeline = await openTexts(picky(({ text }) => text.startsWith("This notification")));
    await pipeline.say(voicemail);
    expect(pipeline.texts).toHaveLength(2);
    for (const text of pipeline.texts) expect(text).toContain("bridgehead escalation list");
  });

  it("notices and what people wrote are plain text, answers are not", async () => {
    const pipeline = await telling();
    await pipeline.say(voicemail);
    await pipeline.says("hello");
    expect(pipeline.replies.map(({ kind, plain }) => [kind, plain])).toEqual([
      ["notice", true],
      ["notice", true],
      ["answer", undefined],
    ]);
  });
});

describe("an answer is rendered before the transaction that stores it", () => {
  const rendering = (prepare: NonNullable<Outbound["prepare"]>): TextOptions => ({
    line: (line): ChannelRuntime => ({ ...line, outbound: line.outbound && { ...line.outbound, prepare } }),
  });

  it("and composed with what the adapter made of it", async () => {
    const pipeline = await openTexts(rendering((markdown) => async () => ({ html: markdown.length })));
    await pipeline.says("hello");
    expect(pipeline.replies).toMatchObject([{ rendered: { html: pipeline.replies[0]?.text.length } }]);
    const kept = await pipeline.db.read((q) => q.all("SELECT rendered FROM replies"));
    expect(kept, "forgotten once it is composed").toEqual([{ rendered: null }]);
  });

  it.each([
    ["fails", () => () => Promise.reject(new Error("no"))],
    ["has nothing", () => () => Promise.resolve(null)],
    ["renders it in compose", () => null],
  ])("and without it when the adapter %s", async (_, prepare) => {
    const pipeline = await openTexts(rendering(prepare));
    await pipeline.says("hello");
    expect(pipeline.texts).toHaveLength(1);
    expect(pipeline.replies[0]).not.toHaveProperty("rendered");
  });
});
