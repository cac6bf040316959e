// Several messages in quick succession are one question, answered once; a newer one cancels a reply that still waits.

import { expect, it } from "vitest";
import { pause } from "../../src/store/operators/channels.ts";
import { ann, openTexts, type TextOptions, type Texts } from "../support/pipeline/pipeline.ts";
import { refusing } from "../support/pipeline/stage.ts";

const joining = (over: TextOptions = {}) =>
  openTexts({ ...over, rules: { debounce: 3000, on_new_message: "drop", ...over.rules } });
const asked = (house: Texts) => house.platform.calls.filter((call) => call.startsWith("ask"));
/** The events that each turn answers, by their numbers. */
const eventsOf = (house: Texts) =>
  house.db.read((q) =>
    q.all(
      "SELECT turns.event, COUNT(*) AS said FROM turns JOIN events ON events.turn = turns.id GROUP BY turns.id, turns.event ORDER BY turns.seq, turns.event",
    ),
  );

it("asks once for three messages, when nothing more has come for a while", async () => {
  const house = await joining();
  await house.says("hi");
  await house.passes(2000);
  await house.says("it is about");
  await house.passes(2000);
  await house.says("my order");
  await house.passes(2500);
  expect(asked(house)).toEqual([]);
  await house.passes(1500);
  expect(asked(house)).toEqual(["ask hi\nit is about\nmy order"]);
  expect(house.texts).toEqual([`${ann}: answer to hi\nit is about\nmy order`]);
  expect(await eventsOf(house)).toEqual([{ event: 1, said: 3 }]);
});

it("asks a fresh message that has joined one which waited longer than max_age", async () => {
  const house = await joining({ rules: { debounce: 3000, max_age: 10_000 } });
  await pause(house.db, { channel: "c", reason: "test", forMs: 15_000 });
  await house.says("early");
  await house.passes(14_000);
  await house.says("late");
  await house.passes(5000);
  expect(asked(house)).toEqual(["ask early\nlate"]);
});

it("is due without a sweep", async () => {
  const house = await joining({ rules: { debounce: 40 } });
  house.sweeps();
  await house.accepts("c");
  await house.says("hi");
  await expect.poll(() => house.texts).toEqual([`${ann}: answer to hi`]);
});

it("joins what one commit brings, and what came while nobody listened", async () => {
  const house = await joining();
  await house.say({ text: "one" }, { text: "two" });
  await house.passes(3500);
  expect(asked(house)).toEqual(["ask one\ntwo"]);
});

it("waits no longer than four times that, however often the person goes on", async () => {
  const house = await joining();
  for (let said = 0; said < 8; said++) {
    await house.says(`${said}`);
    await house.passes(2000, 1000);
  }
  expect(asked(house).length).toBe(1);
  expect(asked(house)[0]).toMatch(/^ask 0\n1\n2\n3\n4\n5/);
});

it("answers the newest message, and counts the delay from it", async () => {
  const house = await joining({ delay: 10 });
  await house.says("one");
  await house.passes(2000);
  await house.say({ text: "two", cited: "SM-two" as never });
  await house.passes(9000, 1000);
  expect([asked(house).length, house.texts]).toEqual([1, []]);
  await house.passes(2000, 500);
  expect(house.texts).toHaveLength(1);
  expect(house.replies[0]?.answers).toBe("SM-two");
});

it("names what was attached to each of them", async () => {
  const house = await joining();
  const picture = { name: "a.jpg", mediaType: "image/jpeg", bytes: new Uint8Array(2048) };
  await house.say({ text: "look" }, { text: "", attachments: [picture], notes: { sender: "new" } });
  await house.passes(3500);
  expect(asked(house)).toEqual(["ask look\n[Attachment: a.jpg (image/jpeg, 2 kB)]"]);
});

it("begins another question once the first is being asked", async () => {
  const house = await joining();
  await house.says("one");
  await house.passes(3500);
  await house.says("two");
  await house.passes(3500);
  expect(asked(house)).toEqual(["ask one", "ask two"]);
});

it("cancels a reply that waits for its delay", async () => {
  const house = await joining({ delay: 60 });
  await house.says("one");
  await house.passes(5000);
  expect(await house.drafts()).toEqual(["queued"]);
  await house.says("two");
  await house.passes(120_000);
  expect(house.texts).toEqual([`${ann}: answer to two`]);
  expect(await house.drafts()).toEqual(["dropped", "sent"]);
});

it("does not leave half a reply unsaid", async () => {
  const later = { kind: "deferred", reason: "busy", retryAfterMs: 8000 } as const;
  const house = await joining({ provider: (count) => (count === 2 ? later : undefined) });
  await house.says("first|second");
  await house.passes(4000);
  expect(house.texts).toEqual([`${ann}: answer to first`]);
  await house.says("more");
  await house.passes(20_000);
  expect(house.texts).toEqual([`${ann}: answer to first`, `${ann}: second`, `${ann}: answer to more`]);
});

it("keeps people apart", async () => {
  const house = await joining();
  await house.say({ text: "one" }, { text: "two", from: { address: "+15550122" } }, { text: "three" });
  await house.passes(3500);
  expect(asked(house).sort()).toEqual(["ask one\nthree", "ask two"]);
});

it("takes along what comes while the platform is away", async () => {
  const house = await joining();
  house.platform.faults.start = refusing(429);
  await house.says("one");
  await house.passes(4000);
  await house.says("two");
  await house.passes(4000);
  delete house.platform.faults.start;
  await house.passes(600_000, 10_000);
  expect(asked(house)).toEqual(["ask one\ntwo"]);
});

it("survives the death of the process at any moment", async () => {
  let house = await joining();
  await house.says("one");
  house = await house.reborn();
  await house.passes(2000);
  await house.says("two");
  house = await house.reborn();
  await house.passes(2000);
  expect(asked(house)).toEqual([]);
  await house.passes(2000);
  expect(asked(house)).toEqual(["ask one\ntwo"]);
  house = await house.reborn();
  await house.passes(20_000, 1000);
  expect(asked(house)).toHaveLength(1);
});

it("lists every message of a failed question, and lets them through together", async () => {
  const house = await joining();
  house.platform.faults.ask = refusing(422);
  await house.say({ text: "one" }, { text: "two" });
  await house.passes(4000);
  expect(await house.listed("failed")).toEqual(["not-asked", "not-asked"]);
  delete house.platform.faults.ask;
  await house.releases(2);
  expect(await house.listed("failed")).toEqual([]);
  expect(house.texts).toEqual([`${ann}: answer to one\ntwo`]);
  expect([(await house.state(1)).code, (await house.state(2)).code]).toEqual(["released", "released"]);
});

it("counts joined messages as one for the caps", async () => {
  const sender = [{ max: 1, per: 3_600_000 }];
  const house = await joining({ rules: { caps: { sender, conversation: [], channel: [] } } });
  await house.say({ text: "one" }, { text: "two" }, { text: "three" });
  await house.passes(4000);
  expect([asked(house), await house.listed("held")]).toEqual([["ask one\ntwo\nthree"], []]);
  await house.says("four");
  expect(await house.listed("held")).toEqual(["cap-sender"]);
});

it("does not let one question grow without end", async () => {
  const house = await joining();
  await house.say({ text: "a".repeat(12_000) }, { text: "b".repeat(12_000) });
  await house.passes(4000);
  expect(asked(house)).toHaveLength(2);
});

it("joins nothing where it is off", async () => {
  const house = await openTexts();
  await house.say({ text: "one" }, { text: "two" });
  expect(asked(house)).toEqual(["ask one", "ask two"]);
});
