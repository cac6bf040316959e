// What the clocks do must not make us ask or send twice, nor give up on a look too early.

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { externalId, type Outbound, type SendOutcome } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import type { FailpointName } from "../../src/ops/failpoints.ts";
import { hastenDue } from "../../src/store/due.ts";
import { endLeases } from "../../src/store/leases.ts";
import { attemptsOn } from "../../src/store/operators/outbox.ts";
import { describeReal } from "../support/machine/debian.ts";
import { alerted } from "../support/pipeline/alerted.ts";
import { mail, openPipeline, openTexts, type TestPipeline, testClock } from "../support/pipeline/pipeline.ts";
import { type Asked, cutting, watched } from "../support/pipeline/stage.ts";
import { fresh, postgresDatabase, sqliteDatabase } from "../support/store/databases.ts";
import { needPostgres, sharedPostgres } from "../support/store/postgres.ts";

const minutes = 60_000;
const days = 24 * 60 * minutes;

/** Some looks of the scheduler at what is due; what has begun may still be running. */
async function looks(pipeline: TestPipeline): Promise<void> {
  for (let i = 0; i < 5; i++) await pipeline.scheduler.sweep();
}

/** Holds the platform's questions back: `begun` resolves with each. */
function holding(pipeline: TestPipeline): { begun: Promise<Asked> } {
  const { promise, resolve } = Promise.withResolvers<Asked>();
  pipeline.platform.faults.ask = resolve;
  return { begun: promise };
}

/** At the next such point, once. */
function when(name: FailpointName, act: () => void): void {
  const once = (message: unknown) => {
    if ((message as { phase: string }).phase !== "after") return;
    unsubscribe(`bridgehead:${name}`, once);
    act();
  };
  subscribe(`bridgehead:${name}`, once);
  onTestFinished(() => void unsubscribe(`bridgehead:${name}`, once));
}

it("asks once when the clock is set forward while the platform thinks", async () => {
  const pipeline = await openPipeline();
  pipeline.sweeps();
  const { begun } = holding(pipeline);
  await pipeline.accepts("c", mail({ text: "hello" }));
  const asked = await begun;
  pipeline.clock.set(10 * minutes);
  await looks(pipeline);
  asked.answer(200, asked.perform());
  await expect.poll(() => pipeline.sent).toEqual(["answer to hello"]);
  expect([pipeline.platform.count("ask"), pipeline.platform.count("look")]).toEqual([1, 0]);
  expect((await pipeline.turns())[0]).toMatchObject({ state: "answered" });
});

it("sends once when the clock is set forward while the provider is slow", async () => {
  const begun = Promise.withResolvers<void>();
  const outcome = Promise.withResolvers<SendOutcome>();
  let sends = 0;
  const outbound: Partial<Outbound> = {
    async send(_, attempt) {
      await attempt.crossing();
      sends += 1;
      begun.resolve();
      return outcome.promise;
    },
    reconcile: async () => ({ kind: "not-sent" }),
  };
  const pipeline = await openPipeline({ outbound });
  pipeline.sweeps();
  await pipeline.accepts("c", mail({ text: "hello" }));
  await begun.promise;
  pipeline.clock.set(10 * minutes);
  await looks(pipeline);
  outcome.resolve({ kind: "sent", id: externalId("x") });
  await pipeline.settles();
  expect([sends, await pipeline.drafts()]).toEqual([1, ["sent"]]);
});

it("tells the adapter how long ago an attempt began although the clock was set back since", async () => {
  const ages: number[] = [];
  const pipeline = await openPipeline({
    outbound: {
      async send(_, attempt) {
        await attempt.crossing();
        return { kind: "unknown", reason: "no response" };
      },
      async reconcile(_, { startedAt }) {
        ages.push(pipeline.clock.now() - startedAt.getTime());
        return { kind: "unsure" };
      },
    },
  });
  await pipeline.arrives({ text: "hello" });
  pipeline.clock.set(-60 * minutes);
  await pipeline.passes(10 * minutes, 10_000);
  expect(ages.length).toBeGreaterThan(0);
  expect(ages.filter((age) => age < 0 || age > 11 * minutes)).toEqual([]);
});

it("does not begin to ask when too little of the lease is left", async () => {
  const pipeline = await openPipeline({ timeout: 5000 });
  // The first attempt opens, the second one asks.
  when("ask.record", () => when("ask.record", () => pipeline.clock.set(28_000)));
  await pipeline.arrives({ text: "hello" });
  expect(pipeline.platform.count("ask")).toBe(0);
  expect((await pipeline.turns())[0]).toMatchObject({ state: "waiting" });
  await pipeline.passes(20_000);
  expect([pipeline.platform.count("ask"), pipeline.sent]).toEqual([1, ["answer to hello"]]);
});

it("does not begin to send when too little of the lease is left", async () => {
  const pipeline = await openPipeline();
  when("send.record", () => pipeline.clock.set(70_000));
  await pipeline.arrives({ text: "hello" });
  expect([pipeline.sent, await pipeline.drafts()]).toEqual([[], ["queued"]]);
  await pipeline.passes(60_000);
  expect(pipeline.sent).toEqual(["answer to hello"]);
});

it("continues when the clock is set back by an hour", async () => {
  const pipeline = await openPipeline({ rate: { interval: 1_000_000, tolerance: 3_000_000 } });
  await pipeline.arrives({ text: "before" });
  await pipeline.passes(10_000);
  pipeline.clock.set(-60 * minutes);
  await pipeline.arrives({ text: "after", from: { address: "bob@example.org" } });
  await pipeline.passes(10_000);
  expect(pipeline.sent).toEqual(["answer to before", "answer to after"]);
});

it("believes that a question is not there only some time after the attempt was over", async () => {
  const pipeline = await openPipeline({ absentAfter: 10_000, timeout: 12_000 });
  const { begun } = holding(pipeline);
  await pipeline.accepts("c", mail({ text: "hello" }));
  const asked = await begun;
  // It takes as long as the platform may need to write a question down.
  pipeline.clock.forward(11_000);
  asked.cut();
  await pipeline.settles();
  expect((await pipeline.turns())[0]).toMatchObject({ state: "unknown" });
  await pipeline.passes(9000, 500);
  expect(pipeline.platform.count("look")).toBeGreaterThan(2);
  expect(pipeline.platform.count("ask")).toBe(1);
  delete pipeline.platform.faults.ask;
  await pipeline.passes(15_000, 500);
  expect([pipeline.platform.count("ask"), pipeline.sent]).toEqual([2, ["answer to hello"]]);
});

it("counts that time from the first look when the process died in the attempt", async () => {
  const clock = testClock();
  const dead = await openPipeline({ clock });
  const { begun } = holding(dead);
  await dead.accepts("c", mail({ text: "hello" }));
  const asked = await begun;
  clock.forward(5 * minutes);
  // What a start of the daemon does with the leases of the one before.
  await dead.db.tx(endLeases);
  const pipeline = await openPipeline({ clock, db: dead.db, platform: dead.platform, node: "m" });
  await pipeline.settles();
  await pipeline.passes(9000, 500);
  expect((await pipeline.turns())[0]).toMatchObject({ state: "unknown", attempts: 1 });
  expect(pipeline.platform.count("ask")).toBe(1);
  const [turn] = await pipeline.turns();
  const tries = await pipeline.db.read((q) => attemptsOn(q, turn?.id ?? ""));
  expect((tries.at(-1)?.ended_at ?? 0) - (tries.at(-1)?.started_at ?? 0)).toBeGreaterThanOrEqual(5 * minutes);
  delete pipeline.platform.faults.ask;
  asked.cut();
  await pipeline.passes(20_000, 500);
  expect([pipeline.platform.count("ask"), pipeline.sent]).toEqual([2, ["answer to hello"]]);
});

it("finds the answer of a question whose line was cut, and does not ask again", async () => {
  const pipeline = await openPipeline();
  pipeline.platform.faults.ask = cutting("after");
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(5000, 500);
  expect([pipeline.platform.count("ask"), pipeline.sent]).toEqual([1, ["answer to hello"]]);
});

it("decides again about what a clock that was ahead made too old, and holds what is too old still", async () => {
  const clock = testClock();
  const pipeline = await alerted({
    clock,
    db: await watched(() => sqliteDatabase(() => clock.now())),
    rules: { max_age: 3 * days },
  });
  const began = clock.now();
  const old = { from: { address: "bob@example.org" }, sentAt: new Date(began - 4 * days) };
  await pipeline.arrives({ ...old, text: "old by the right clock" });
  clock.set(40 * days);
  await pipeline.arrives({ ...old, text: "old by both" });
  await pipeline.arrives({ text: "fresh", sentAt: new Date(began) });
  expect(await pipeline.listed("ignored")).toEqual(["too-old", "too-old", "too-old"]);
  clock.set(-40 * days);
  await pipeline.db.tx((q) => hastenDue(q, 40 * days));
  await pipeline.settles();
  expect(pipeline.sent).toEqual(["answer to fresh"]);
  expect(await pipeline.listed("ignored")).toEqual(["too-old"]);
  expect(await pipeline.listed("held")).toEqual(["too-old"]);
  expect(pipeline.alerts.map(({ cause, reason }) => [cause, reason])).toEqual([
    ["held", expect.stringContaining("by a clock that was ahead")],
  ]);
  await pipeline.releases(2);
  expect(pipeline.sent).toEqual(["answer to fresh", "answer to old by both"]);
});

it("asks and answers at once what arrived by a clock that was ahead", async () => {
  const clock = testClock();
  const pipeline = await openPipeline({ clock, db: await watched(() => sqliteDatabase(() => clock.now())) });
  pipeline.sweeps();
  const { begun } = holding(pipeline);
  clock.set(40 * days);
  await pipeline.accepts("c", mail({ text: "hello", sentAt: new Date(clock.now()) }));
  const asked = await begun;
  clock.set(-40 * days);
  await pipeline.db.tx((q) => hastenDue(q, 40 * days));
  asked.answer(200, asked.perform());
  await expect.poll(() => pipeline.sent).toEqual(["answer to hello"]);
});

it("asks at once in a conversation that was found after the clock was set back", async () => {
  const clock = testClock();
  const pipeline = await openPipeline({ clock, db: await watched(() => sqliteDatabase(() => clock.now())) });
  pipeline.platform.faults.start = cutting("after");
  await pipeline.arrives({ text: "hello", sentAt: new Date(clock.now()) });
  delete pipeline.platform.faults.start;
  clock.set(-60 * minutes);
  await pipeline.db.tx((q) => hastenDue(q, 60 * minutes));
  await pipeline.passes(20_000, 1000);
  expect([pipeline.platform.count("start"), pipeline.sent]).toEqual([1, ["answer to hello"]]);
});

it("asks again what never arrived before the clock was set back", async () => {
  const clock = testClock();
  const pipeline = await openPipeline({ clock, db: await watched(() => sqliteDatabase(() => clock.now())) });
  pipeline.platform.faults.ask = cutting("before");
  clock.set(40 * days);
  await pipeline.arrives({ text: "hello", sentAt: new Date(clock.now()) });
  delete pipeline.platform.faults.ask;
  clock.set(-40 * days);
  await pipeline.db.tx((q) => hastenDue(q, 40 * days));
  await pipeline.passes(60_000, 1000);
  expect([pipeline.platform.count("ask"), pipeline.sent]).toEqual([2, ["answer to hello"]]);
});

it("decides nothing again when the clock goes back to a time before the channels began", async () => {
  const days = 24 * 60 * minutes;
  const clock = testClock();
  const pipeline = await alerted({
    clock,
    db: await watched(() => sqliteDatabase(() => clock.now())),
    rules: { max_age: days },
  });
  await pipeline.arrives({ text: "old", sentAt: new Date(clock.now() - 2 * days) });
  await pipeline.settles();
  clock.set(-days);
  await pipeline.db.tx((q) => hastenDue(q, days));
  await looks(pipeline);
  expect(await pipeline.listed("ignored")).toEqual(["too-old"]);
  expect(pipeline.alerts).toEqual([]);
});

describeReal("on PostgreSQL, whose clock counts", await needPostgres(), () => {
  it.each([-60, 60])("delays a reply as configured on a node whose clock is %i minutes ahead", async (ahead) => {
    const clock = testClock();
    clock.set(ahead * minutes);
    const db = await fresh(async () => postgresDatabase(await sharedPostgres()));
    const pipeline = await openTexts({ clock, db, delay: 600 });
    await pipeline.says("hello", { sentAt: new Date() });
    expect([pipeline.texts, await pipeline.drafts()]).toEqual([[], ["queued"]]);
    const due = await db.read((q) => q.one<{ ms: number }>("SELECT due_at - now_ms() AS ms FROM drafts"));
    expect(due?.ms).toBeGreaterThan(500_000);
    expect(due?.ms).toBeLessThanOrEqual(600_000);
  });
});
