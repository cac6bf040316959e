// Several messages in quick succession are one question, answered once; a newer one cancels a reply that still waits.

import { expect, it } from "vitest";
import { pause } from "../../../src/store/operators/channels.ts";
import { ann, openTexts, type TextOptions, type Texts } from "../../support/pipeline/pipeline.ts";
import { refusing } from "../../support/pipeline/stage.ts";

const joining = (over: TextOptions = {}) =>
  openTexts({ ...over, rules: { debounce: 3000, on_new_message: "drop", ...over.rules } });
const asked = (pipeline: Texts) => pipeline.platform.calls.filter((call) => call.startsWith("ask"));
/** The events that each turn answers, by their numbers. */
const eventsOf = (pipeline: Texts) =>
  pipeline.db.read((q) =>
    q.all(
      "SELECT turns.event, COUNT(*) AS said FROM turns JOIN events ON events.turn = turns.id GROUP BY turns.id, turns.event ORDER BY turns.seq, turns.event",
    ),
  );

it("asks once for three messages, when nothing more has come for a while", async () => {
  const pipeline = await joining();
  await pipeline.says("hi");
  await pipeline.passes(2000);
  await pipeline.says("it is about");
  await pipeline.passes(2000);
  await pipeline.says("my order");
  await pipeline.passes(2500);
  expect(asked(pipeline)).toEqual([]);
  await pipeline.passes(1500);
  expect(asked(pipeline)).toEqual(["ask hi\nit is about\nmy order"]);
  expect(pipeline.texts).toEqual([`${ann}: answer to hi\nit is about\nmy order`]);
  expect(await eventsOf(pipeline)).toEqual([{ event: 1, said: 3 }]);
});

it("asks a fresh message that has joined one which waited longer than max_age", async () => {
  const pipeline = await joining({ rules: { debounce: 3000, max_age: 10_000 } });
  await pause(pipeline.db, { channel: "c", reason: "test", forMs: 15_000 });
  await pipeline.says("early");
  await pipeline.passes(14_000);
  await pipeline.says("late");
  await pipeline.passes(5000);
  expect(asked(pipeline)).toEqual(["ask early\nlate"]);
});

it("is due without a sweep", async () => {
  const pipeline = await joining({ rules: { debounce: 40 } });
  pipeline.sweeps();
  await pipeline.accepts("c");
  await pipeline.says("hi");
  await expect.poll(() => pipeline.texts).toEqual([`${ann}: answer to hi`]);
});

it("joins messages of one commit, and those that arrived while the channel was stopped", async () => {
  const pipeline = await joining();
  await pipeline.say({ text: "one" }, { text: "two" });
  await pipeline.passes(3500);
  expect(asked(pipeline)).toEqual(["ask one\ntwo"]);
});

it("waits no longer than four times that, even if the person continues", async () => {
  const pipeline = await joining();
  for (let said = 0; said < 8; said++) {
    await pipeline.says(`${said}`);
    await pipeline.passes(2000, 1000);
  }
  expect(asked(pipeline).length).toBe(1);
  expect(asked(pipeline)[0]).toMatch(/^ask 0\n1\n2\n3\n4\n5/);
});

it("answers the newest message, and counts the delay from it", async () => {
  const pipeline = await joining({ delay: 10 });
  await pipeline.says("one");
  await pipeline.passes(2000);
  await pipeline.say({ text: "two", cited: "SM-two" as never });
  await pipeline.passes(9000, 1000);
  expect([asked(pipeline).length, pipeline.texts]).toEqual([1, []]);
  await pipeline.passes(2000, 500);
  expect(pipeline.texts).toHaveLength(1);
  expect(pipeline.replies[0]?.answers).toBe("SM-two");
});

it("names what was attached to each of them", async () => {
  const pipeline = await joining();
  const picture = { name: "a.jpg", mediaType: "image/jpeg", bytes: new Uint8Array(2048) };
  await pipeline.say({ text: "look" }, { text: "", attachments: [picture], notes: { sender: "new" } });
  await pipeline.passes(3500);
  expect(asked(pipeline)).toEqual(["ask look\n[Attachment: a.jpg (image/jpeg, 2 kB)]"]);
});

it("begins another question once the first is being asked", async () => {
  const pipeline = await joining();
  await pipeline.says("one");
  await pipeline.passes(3500);
  await pipeline.says("two");
  await pipeline.passes(3500);
  expect(asked(pipeline)).toEqual(["ask one", "ask two"]);
});

it("cancels a reply that waits for its delay", async () => {
  const pipeline = await joining({ delay: 60 });
  await pipeline.says("one");
  await pipeline.passes(5000);
  expect(await pipeline.drafts()).toEqual(["queued"]);
  await pipeline.says("two");
  await pipeline.passes(120_000);
  expect(pipeline.texts).toEqual([`${ann}: answer to two`]);
  expect(await pipeline.drafts()).toEqual(["dropped", "sent"]);
});

it("does not leave half a reply unsaid", async () => {
  const later = { kind: "deferred", reason: "busy", retryAfterMs: 8000 } as const;
  const pipeline = await joining({ provider: (count) => (count === 2 ? later : undefined) });
  await pipeline.says("first|second");
  await pipeline.passes(4000);
  expect(pipeline.texts).toEqual([`${ann}: answer to first`]);
  await pipeline.says("more");
  await pipeline.passes(20_000);
  expect(pipeline.texts).toEqual([`${ann}: answer to first`, `${ann}: second`, `${ann}: answer to more`]);
});

it("keeps people apart", async () => {
  const pipeline = await joining();
  await pipeline.say({ text: "one" }, { text: "two", from: { address: "+15550122" } }, { text: "three" });
  await pipeline.passes(3500);
  expect(asked(pipeline).sort()).toEqual(["ask one\nthree", "ask two"]);
});

it("includes messages that arrive while the platform is unavailable", async () => {
  const pipeline = await joining();
  pipeline.platform.faults.start = refusing(429);
  await pipeline.says("one");
  await pipeline.passes(4000);
  await pipeline.says("two");
  await pipeline.passes(4000);
  delete pipeline.platform.faults.start;
  await pipeline.passes(600_000, 10_000);
  expect(asked(pipeline)).toEqual(["ask one\ntwo"]);
});

it("survives the death of the process at any moment", async () => {
  let pipeline = await joining();
  await pipeline.says("one");
  pipeline = await pipeline.reborn();
  await pipeline.passes(2000);
  await pipeline.says("two");
  pipeline = await pipeline.reborn();
  await pipeline.passes(2000);
  expect(asked(pipeline)).toEqual([]);
  await pipeline.passes(2000);
  expect(asked(pipeline)).toEqual(["ask one\ntwo"]);
  pipeline = await pipeline.reborn();
  await pipeline.passes(20_000, 1000);
  expect(asked(pipeline)).toHaveLength(1);
});

it("lists every message of a failed question, and lets them through together", async () => {
  const pipeline = await joining();
  pipeline.platform.faults.ask = refusing(422);
  await pipeline.say({ text: "one" }, { text: "two" });
  await pipeline.passes(4000);
  expect(await pipeline.listed("failed")).toEqual(["not-asked", "not-asked"]);
  delete pipeline.platform.faults.ask;
  await pipeline.releases(2);
  expect(await pipeline.listed("failed")).toEqual([]);
  expect(pipeline.texts).toEqual([`${ann}: answer to one\ntwo`]);
  expect([(await pipeline.state(1)).code, (await pipeline.state(2)).code]).toEqual(["released", "released"]);
});

it("counts joined messages as one for the caps", async () => {
  const sender = [{ max: 1, per: 3_600_000 }];
  const pipeline = await joining({ rules: { caps: { sender, conversation: [], channel: [] } } });
  await pipeline.say({ text: "one" }, { text: "two" }, { text: "three" });
  await pipeline.passes(4000);
  expect([asked(pipeline), await pipeline.listed("held")]).toEqual([["ask one\ntwo\nthree"], []]);
  await pipeline.says("four");
  expect(await pipeline.listed("held")).toEqual(["cap-sender"]);
});

it("does not let one question grow without end", async () => {
  const pipeline = await joining();
  await pipeline.say({ text: "a".repeat(12_000) }, { text: "b".repeat(12_000) });
  await pipeline.passes(4000);
  expect(asked(pipeline)).toHaveLength(2);
});

it("joins nothing where it is off", async () => {
  const pipeline = await openTexts();
  await pipeline.say({ text: "one" }, { text: "two" });
  expect(asked(pipeline)).toEqual(["ask one", "ask two"]);
});
