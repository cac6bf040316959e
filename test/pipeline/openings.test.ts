// Start calls of unknown outcome: the interface has no idempotency key, so a second one may mean a second message to
// the person.

import { expect, it } from "vitest";
import { openHouse } from "../support/pipeline/pipeline.ts";
import { type Asked, cutting, refusing } from "../support/pipeline/stage.ts";

it("does not repeat an opening of unknown outcome", async () => {
  const house = await openHouse({ settleAfter: 10_000 });
  house.platform.faults.start = cutting("before");
  house.platform.faults.search = refusing(500);
  await house.arrives({ text: "hello" });
  await house.passes(120_000, 2000);
  expect(house.platform.count("search")).toBeGreaterThan(3);
  expect(house.platform.count("start")).toBe(1);
  delete house.platform.faults.start;
  delete house.platform.faults.search;
  await house.passes(120_000, 2000);
  expect([house.platform.count("start"), house.sent]).toEqual([2, ["answer to hello"]]);
});

it("opens nothing again before the platform has had time to write it down", async () => {
  const house = await openHouse({ settleAfter: 10_000 });
  house.platform.faults.start = cutting("before");
  await house.arrives({ text: "hello" });
  await house.passes(9000, 500);
  expect(house.platform.count("search")).toBeGreaterThan(1);
  expect(house.platform.count("start")).toBe(1);
  delete house.platform.faults.start;
  await house.passes(20_000, 500);
  expect([house.platform.count("start"), house.sent]).toEqual([2, ["answer to hello"]]);
});

it("gives each further start call the same time, and gives up after as many as a question has", async () => {
  const house = await openHouse({ settleAfter: 10_000 });
  const starts: number[] = [];
  house.platform.faults.start = (asked) => {
    starts.push(house.clock.now());
    asked.cut();
  };
  await house.arrives({ text: "hello" });
  await house.passes(60_000, 500);
  const pauses = starts.slice(1).map((at, index) => at - (starts[index] ?? 0));
  expect(pauses.length).toBeGreaterThan(1);
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(10_000);
  expect(await house.turns()).toMatchObject([{ attempts: starts.length }]);
  await house.passes(3_600_000, 10_000);
  expect(starts.length).toBe(8);
  expect(await house.turns()).toMatchObject([{ state: "failed", attempts: 8 }]);
});

it("adopts what was opened", async () => {
  const house = await openHouse();
  house.platform.faults.start = cutting("after");
  await house.arrives({ text: "hello" });
  await house.passes(5000, 500);
  expect([house.platform.count("start"), house.sent]).toEqual([1, ["answer to hello"]]);
});

it("never gives one conversation to two, even when both find it at once", async () => {
  const house = await openHouse({ settleAfter: 5000 });
  let starts = 0;
  house.platform.faults.start = (asked) => {
    if (++starts === 1) asked.perform();
    asked.cut();
  };
  // Both searches are under way before the first is answered.
  const searches: Asked[] = [];
  house.platform.faults.search = (asked) => {
    searches.push(asked);
    if (searches.length < 2) return;
    for (const one of searches) one.answer(200, one.perform());
    delete house.platform.faults.search;
    delete house.platform.faults.start;
  };
  await house.arrives({ text: "one" }, { text: "two" });
  await house.passes(60_000, 500);
  expect(house.platform.count("start")).toBe(3);
  expect([...house.sent].sort()).toEqual(["answer to one", "answer to two"]);
  const bound = await house.db.read((q) => q.all<{ platform_id: string }>("SELECT platform_id FROM conversations"));
  expect(new Set(bound.map(({ platform_id }) => platform_id)).size).toBe(2);
});
