// Conversations that begin with us: one start call with our introduction, one message to the person, and an answer that
// finds its way back.

import { externalId } from "bridgehead/contract";
import { expect, it } from "vitest";
import type { Opening } from "../../src/domain/turn.ts";
import { begin } from "../../src/pipeline/outbound.ts";
import { openingOutcome } from "../../src/store/tables/conversations.ts";
import { suppress } from "../../src/store/tables/suppressions.ts";
import { ann, openTexts, type TextOptions, type Texts } from "../support/pipeline/pipeline.ts";
import { type Asked, cutting, refusing } from "../support/pipeline/stage.ts";

const bare: Opening = { introduction: null, subject: null, context: null, speak: true };

/** What `bridgehead start` does; the daemon then finds it. */
async function starts(pipeline: Texts, opening: Partial<Opening> = {}, address = ann) {
  const wanted = {
    channel: "c",
    agent: "agent",
    address,
    name: "Anna Maria Berg",
    opening: { ...bare, ...opening },
  };
  return pipeline.db.tx((q) => begin(q, pipeline.clock, wanted));
}
const outcome = (pipeline: Texts, turn: string) => pipeline.db.read((q) => openingOutcome(q, turn));

/** The bodies of the start calls. */
function bodies(pipeline: Texts): Record<string, unknown>[] {
  const seen: Record<string, unknown>[] = [];
  const before = pipeline.platform.faults.start;
  pipeline.platform.faults.start = (asked: Asked) => {
    seen.push(asked.body);
    if (before) before(asked);
    else asked.answer(200, asked.perform());
  };
  return seen;
}

it("opens the platform's conversation with the introduction, and sends it", async () => {
  const pipeline = await openTexts({ delay: 3600 });
  const seen = bodies(pipeline);
  const begun = await starts(pipeline, { introduction: "Your parcel is here.", context: "parcel 7" });
  await pipeline.settles();
  expect(seen).toEqual([
    {
      channel: "sms",
      phoneNumber: ann,
      firstName: "Anna Maria",
      lastName: "Berg",
      fkId: `bridgehead:c:${ann}`,
      source: "bridgehead",
      smsIntroduction: "Your parcel is here.",
      conversationContext: "parcel 7",
      resetConversation: true,
    },
  ]);
  expect(pipeline.replies).toEqual([
    expect.objectContaining({
      kind: "opening",
      text: "Your parcel is here.",
      to: [{ address: ann, name: "Anna Maria Berg" }],
      signature: null,
      introduction: null,
      answers: null,
      session: null,
    }),
  ]);
  expect(pipeline.texts).toEqual([`${ann}: Your parcel is here.`]);
  expect(await outcome(pipeline, begun.turn)).toEqual({ state: "sent", reason: null });
});

it("takes the skill's text by default", async () => {
  const pipeline = await openTexts();
  const seen = bodies(pipeline);
  await starts(pipeline);
  await pipeline.settles();
  expect([seen[0]?.["smsIntroduction"], pipeline.texts]).toEqual(["Hello!", [`${ann}: Hello!`]]);
});

it("gets the person's answer by the person rule, and sends no second introduction", async () => {
  const pipeline = await openTexts();
  await pipeline.says("long ago");
  const { conversation } = await starts(pipeline);
  await pipeline.settles();
  await pipeline.says("yes please");
  expect((await pipeline.state(2)).conversation).toBe(conversation);
  expect(pipeline.replies.at(-1)).toMatchObject({ kind: "answer", introduction: null, signature: "-- us" });
  expect(pipeline.texts.at(-1)).toBe(`${ann}: answer to yes please`);
  const newest = await pipeline.db.read((q) => q.one("SELECT MAX(id) AS id FROM conversations WHERE person = $1", ann));
  expect(newest).toEqual({ id: conversation });
});

it("gets a mail's answer by the message it answers", async () => {
  const mail: TextOptions = {
    line: (line) => ({
      ...line,
      traits: { ...line.traits, platform: "email", conversations: "thread" },
      settings: () => ({ ...line.settings(), email: line.settings()?.sms ?? null }) as never,
    }),
  };
  const pipeline = await openTexts(mail);
  const seen = bodies(pipeline);
  const { conversation } = await starts(pipeline, { subject: "Your order" }, "anna@example.org");
  await pipeline.settles();
  expect(seen[0]).toMatchObject({
    channel: "email",
    email: "anna@example.org",
    emailSubject: "Your order",
    emailIntroduction: "Hello!",
    resetConversation: true,
  });
  expect(pipeline.replies[0]).toMatchObject({ kind: "opening", subject: "Your order" });
  const sentAs = await pipeline.db.read((q) => q.one<{ external_id: string }>("SELECT external_id FROM drafts"));
  await pipeline.say({
    text: "Thanks",
    from: { address: "Anna@example.org" },
    thread: { answers: [externalId(sentAs?.external_id ?? "")] },
  });
  expect((await pipeline.state(1)).conversation).toBe(conversation);
  // The introduction already has the agent's name, and the thread has its subject.
  expect(pipeline.platform.calls.filter((call) => call.startsWith("ask"))).toEqual(["ask Thanks"]);
});

it("begins as often as it is asked to", async () => {
  const pipeline = await openTexts();
  const first = await starts(pipeline, { introduction: "one" });
  const second = await starts(pipeline, { introduction: "two" });
  await pipeline.settles();
  expect(first.conversation).not.toBe(second.conversation);
  expect([pipeline.platform.count("start"), [...pipeline.texts].sort()]).toEqual([2, [`${ann}: one`, `${ann}: two`]]);
});

it("looks a start call of unknown outcome up before it makes another, and speaks once", async () => {
  const pipeline = await openTexts();
  pipeline.platform.faults.start = cutting("after");
  const { turn } = await starts(pipeline);
  await pipeline.settles();
  delete pipeline.platform.faults.start;
  await pipeline.passes(10_000, 500);
  expect([pipeline.platform.count("start"), pipeline.texts]).toEqual([1, [`${ann}: Hello!`]]);
  expect((await outcome(pipeline, turn)).state).toBe("sent");
});

it("continues after a crash in the middle of the start call", async () => {
  const pipeline = await openTexts({ absentAfter: 5000 });
  const reached = Promise.withResolvers<void>();
  pipeline.platform.faults.start = (asked) => {
    asked.perform();
    reached.resolve(); // and never answers
  };
  const { turn } = await starts(pipeline);
  await pipeline.scheduler.sweep();
  await reached.promise;
  delete pipeline.platform.faults.start;
  const next = await pipeline.reborn();
  await next.passes(10_000, 500);
  expect([next.platform.count("start"), [...pipeline.texts, ...next.texts]]).toEqual([1, [`${ann}: Hello!`]]);
  expect((await outcome(next, turn)).state).toBe("sent");
});

it("says nothing twice though the process dies between the platform and the person", async () => {
  let pipeline = await openTexts();
  const texts: string[] = [];
  await starts(pipeline);
  await pipeline.settles();
  for (let deaths = 0; deaths < 3; deaths++) {
    texts.push(...pipeline.texts);
    pipeline = await pipeline.reborn();
    await pipeline.passes(5000, 500);
  }
  expect([texts, pipeline.platform.count("start")]).toEqual([[`${ann}: Hello!`], 1]);
});

it("sends the introduction to the agent of a created conversation", async () => {
  const pipeline = await openTexts({ rules: { opening: "create" } });
  const created: object[] = [];
  const line = {
    ...pipeline.client,
    create: async (request: object) => {
      created.push(request);
      return { kind: "ok", value: { conversationId: "made" } } as const;
    },
  };
  const next = await openTexts({
    db: pipeline.db,
    clock: pipeline.clock,
    platform: pipeline.platform,
    rules: { opening: "create" },
    line: (given) => ({ ...given, client: line }),
  });
  await starts(next, { context: "parcel 7" });
  await next.settles();
  expect(created).toEqual([
    expect.objectContaining({
      phoneNumber: ann,
      conversationContext: "parcel 7\n\nYou wrote to the person first: Hello!",
    }),
  ]);
  expect([next.platform.count("start"), next.texts]).toEqual([0, [`${ann}: Hello!`]]);
});

it("fails for good when the platform refuses, and does not block the conversation", async () => {
  const pipeline = await openTexts({ rules: { on_permanent_failure: "block" } });
  pipeline.platform.faults.start = refusing(422);
  const { turn } = await starts(pipeline);
  await pipeline.settles();
  expect(await outcome(pipeline, turn)).toMatchObject({
    state: "failed",
    reason: expect.stringContaining("422"),
  });
  delete pipeline.platform.faults.start;
  await pipeline.says("hello?");
  expect(pipeline.texts).toEqual([`${ann}: answer to hello?`]);
});

it("says what became of what was never sent", async () => {
  const pipeline = await openTexts({
    rules: { on_unknown: "hold", unknown_window: 1000 },
    provider: () => ({ kind: "unknown", reason: "cut" }),
  });
  const { turn } = await starts(pipeline);
  expect(await outcome(pipeline, turn)).toEqual({ state: "waiting", reason: null });
  await pipeline.settles();
  expect(await outcome(pipeline, turn)).toEqual({ state: "unknown", reason: "cut" });
  await pipeline.passes(5000);
  expect((await outcome(pipeline, turn)).state).toBe("held");
  const other = await openTexts();
  await other.db.tx((q) => suppress(q, "c", ann, "the person said STOP"));
  const begun = await starts(other);
  await other.settles();
  expect(await outcome(other, begun.turn)).toEqual({
    state: "dropped",
    reason: "suppressed: the person said STOP",
  });
});

it("is not cancelled by a message from the person in between", async () => {
  const busy = { kind: "deferred", reason: "busy", retryAfterMs: 5000 } as const;
  const pipeline = await openTexts({
    rules: { on_new_message: "drop", debounce: 1000 },
    provider: (count) => (count === 1 ? busy : undefined),
  });
  await starts(pipeline);
  await pipeline.settles();
  await pipeline.says("who is there?");
  await pipeline.passes(20_000, 500);
  expect(pipeline.texts).toEqual([`${ann}: Hello!`, `${ann}: answer to who is there?`]);
});
