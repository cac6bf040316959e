// Start calls of unknown outcome: the interface has no idempotency key, so a second one may mean a second message to
// the person.

import { expect, it } from "vitest";
import { openPipeline } from "../../support/pipeline/pipeline.ts";
import { type Asked, cutting, refusing } from "../../support/pipeline/stage.ts";

it("does not repeat an opening of unknown outcome", async () => {
  const pipeline = await openPipeline({ absentAfter: 10_000 });
  pipeline.platform.faults.start = cutting("before");
  pipeline.platform.faults.search = refusing(500);
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(120_000, 2000);
  expect(pipeline.platform.count("search")).toBeGreaterThan(3);
  expect(pipeline.platform.count("start")).toBe(1);
  delete pipeline.platform.faults.start;
  delete pipeline.platform.faults.search;
  await pipeline.passes(120_000, 2000);
  expect([pipeline.platform.count("start"), pipeline.sent]).toEqual([2, ["answer to hello"]]);
});

it("opens nothing again before the platform has had time to write it down", async () => {
  const pipeline = await openPipeline({ absentAfter: 10_000 });
  pipeline.platform.faults.start = cutting("before");
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(9000, 500);
  expect(pipeline.platform.count("search")).toBeGreaterThan(1);
  expect(pipeline.platform.count("start")).toBe(1);
  delete pipeline.platform.faults.start;
  await pipeline.passes(20_000, 500);
  expect([pipeline.platform.count("start"), pipeline.sent]).toEqual([2, ["answer to hello"]]);
});

it("gives each further start call the same time, and gives up after as many as a question has", async () => {
  const pipeline = await openPipeline({ absentAfter: 10_000 });
  const starts: number[] = [];
  pipeline.platform.faults.start = (asked) => {
    starts.push(pipeline.clock.now());
    asked.cut();
  };
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(60_000, 500);
  const pauses = starts.slice(1).map((at, index) => at - (starts[index] ?? 0));
  expect(pauses.length).toBeGreaterThan(1);
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(10_000);
  expect(await pipeline.turns()).toMatchObject([{ attempts: starts.length }]);
  await pipeline.passes(3_600_000, 10_000);
  expect(starts.length).toBe(8);
  expect(await pipeline.turns()).toMatchObject([{ state: "failed", attempts: 8 }]);
});

it("adopts what was opened", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.start = cutting("after");
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(5000, 500);
  expect([pipeline.platform.count("start"), pipeline.sent]).toEqual([1, ["answer to hello"]]);
});

it("never gives one conversation to two, even when both find it at once", async () => {
  const pipeline = await openPipeline({ absentAfter: 5000 });
  let starts = 0;
  pipeline.platform.faults.start = (asked) => {
    if (++starts === 1) asked.perform();
    asked.cut();
  };
  // Both searches are under way before the first is answered.
  const searches: Asked[] = [];
  pipeline.platform.faults.search = (asked) => {
    searches.push(asked);
    if (searches.length < 2) return;
    for (const one of searches) one.answer(200, one.perform());
    delete pipeline.platform.faults.search;
    delete pipeline.platform.faults.start;
  };
  await pipeline.arrives({ text: "one" }, { text: "two" });
  await pipeline.passes(60_000, 500);
  expect(pipeline.platform.count("start")).toBe(3);
  expect([...pipeline.sent].sort()).toEqual(["answer to one", "answer to two"]);
  const bound = await pipeline.db.read((q) => q.all<{ platform_id: string }>("SELECT platform_id FROM conversations"));
  expect(new Set(bound.map(({ platform_id }) => platform_id)).size).toBe(2);
});
