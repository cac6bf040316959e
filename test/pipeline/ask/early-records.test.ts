// The attempt to ask a turn is recorded in the commit that claims it when an idle connection is reserved for the call.

import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { steadyNow } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { pauseChannel, resumeChannel } from "../../../src/store/tables/pauses.ts";
import { mail, openedCall, openPipeline, type TestPipeline, testClock } from "../../support/pipeline/pipeline.ts";
import { newFolder } from "../../support/resources.ts";

const attempts = (pipeline: TestPipeline) =>
  pipeline.db.read(async (q) => {
    const rows = await q.all<{ number: number; outcome: string }>(
      "SELECT number, outcome FROM attempts WHERE kind = 'ask' ORDER BY subject, number",
    );
    return rows.map(({ number, outcome }) => `${number} ${outcome}`);
  });

/** Whether an attempt counts for the lifetime of each turn. */
const tried = (pipeline: TestPipeline) =>
  pipeline.db.read(async (q) => {
    const rows = await q.all<{ tried_at: number | null }>("SELECT tried_at FROM turns ORDER BY id");
    return rows.map(({ tried_at }) => tried_at !== null);
  });

/** A migrated store in a file. While it is stopped, syncs wait for `go`. */
async function stoppable() {
  const folder = newFolder();
  const clock = testClock();
  let stopped: PromiseWithResolvers<void> | null = null;
  let waiting = 0;
  const sync = async () => {
    if (stopped === null) return;
    waiting += 1;
    await stopped.promise;
  };
  const db = openSqlite(join(folder, "store.db"), steadyNow(clock), { sync });
  onTestFinished(() => db.close());
  await migrate(db);
  return {
    db,
    clock,
    waiting: () => waiting,
    stop: () => (stopped = Promise.withResolvers()),
    go: (error?: Error) => {
      const former = stopped;
      stopped = null;
      if (error) former?.reject(error);
      else former?.resolve();
    },
  };
}

const hello = { text: "hello" };
const other = (name: string) => ({ text: `hello from ${name}`, from: { address: `${name}@example.org` } });

/** A pipeline that has an idle connection, and the states of its other turns while syncs wait. */
async function connected() {
  const disk = await stoppable();
  const pipeline = await openPipeline({ db: disk.db, clock: disk.clock });
  await pipeline.arrives(hello);
  disk.stop();
  onTestFinished(() => disk.go());
  const others = async (count: number) => {
    await expect.poll(() => pipeline.scheduler.running(), { interval: 1 }).toBe(count);
    const rows = await pipeline.db.tx(
      (q) => q.all<{ state: string }>("SELECT state FROM turns WHERE open = 1 ORDER BY state"),
      { durable: false },
    );
    await expect.poll(disk.waiting, { interval: 1 }).toBe(1);
    return rows.map(({ state }) => state);
  };
  const calls = () => pipeline.platform.calls.filter((call) => /^(?:start|ask)/.test(call)).length;
  return { ...disk, pipeline, others, calls };
}

it("records the attempt with the claim, and sends when the record is on disk", async () => {
  const { pipeline, others, calls, go } = await connected();
  const arrived = pipeline.arrives(other("ben"));
  expect(await others(1)).toEqual(["asking"]);
  expect(calls()).toBe(2);
  go();
  await arrived;
  expect(pipeline.sent).toEqual(["answer to hello", "answer to hello from ben"]);
  expect(await attempts(pipeline)).toEqual(["1 sent", "1 sent"]);
});

it("sends nothing when the record does not reach the disk", async () => {
  const { pipeline, others, calls, go } = await connected();
  const arrived = expect(pipeline.arrives(other("ben"))).rejects.toThrow("the store's disk failed to write");
  expect(await others(1)).toEqual(["asking"]);
  go(new Error("EIO"));
  await arrived;
  // The outcome is written again until the lease is over.
  await expect.poll(() => pipeline.clock.sleeping(), { interval: 1 }).toBe(1);
  pipeline.clock.forward(3_600_000);
  await pipeline.scheduler.drain(0);
  expect(calls()).toBe(2);
});

it("records no more attempts than there are idle connections", async () => {
  const { pipeline, others, go } = await connected();
  // All but one are occupied.
  const reserved: (() => void)[] = [];
  for (let end = pipeline.client.reserve(); end !== null; end = pipeline.client.reserve()) reserved.push(end);
  reserved[0]?.();
  const arrived = pipeline.arrives(other("ben"), other("eve"));
  expect(await others(2)).toEqual(["asking", "waiting"]);
  for (const end of reserved) end();
  go();
  await arrived;
  expect(pipeline.sent.length).toBe(3);
  expect(await attempts(pipeline)).toEqual(["1 sent", "1 sent", "1 sent"]);
});

it("hands the turn back without a wait when the rate limit has no room after the claim", async () => {
  const pipeline = await openPipeline({ clock: testClock(true) });
  await pipeline.arrives(hello);
  await pipeline.passes(1000);
  const take = pipeline.rate.take.bind(pipeline.rate);
  pipeline.rate.take = async (count, maxWaitMs) => {
    pipeline.rate.take = take;
    // Another question was answered with 429 meanwhile.
    await pipeline.db.tx((q) => pipeline.rate.penalise(q, standardTiming.ask.rateWait));
    return take(count, maxWaitMs);
  };
  await pipeline.accepts("c", mail(other("ben")));
  await expect.poll(() => pipeline.scheduler.running(), { interval: 1 }).toBe(0);
  expect((await pipeline.turns()).map(({ state }) => state)).toEqual(["answered", "waiting"]);
  // The attempt was not made: it does not count.
  expect(await attempts(pipeline)).toEqual(["1 sent"]);
  expect(await tried(pipeline)).toEqual([true, false]);
  await pipeline.passes(10_000, 500);
  expect(pipeline.sent).toEqual(["answer to hello", "answer to hello from ben"]);
  expect(await attempts(pipeline)).toEqual(["1 sent", "1 sent"]);
  expect(pipeline.platform.count("look")).toBe(0);
});

it("still holds a turn for its age after an attempt was withdrawn", async () => {
  const pipeline = await openPipeline({ clock: testClock(true), rules: { max_age: 3_600_000 } });
  await pipeline.arrives(hello);
  await pipeline.passes(1000);
  const take = pipeline.rate.take.bind(pipeline.rate);
  pipeline.rate.take = async () => {
    pipeline.rate.take = take;
    return { taken: false, waitMs: 1000 };
  };
  await pipeline.accepts("c", mail(other("ben")));
  await expect.poll(() => pipeline.scheduler.running(), { interval: 1 }).toBe(0);
  await pipeline.db.tx((q) =>
    pauseChannel(q, { channel: "c", code: "operator", reason: "x", event: null, forMs: null }),
  );
  await pipeline.passes(2 * 3_600_000, 1_800_000);
  await pipeline.db.tx((q) => resumeChannel(q, "c"));
  await pipeline.settles();
  expect(pipeline.sent).toEqual(["answer to hello"]);
  expect(await pipeline.listed("held")).toEqual(["too-old"]);
});

it("records at the crossing when the rate limit has no room", async () => {
  const pipeline = await openPipeline({ rate: { interval: 1_000_000, tolerance: 1_000_000 } });
  await pipeline.arrives(hello);
  await pipeline.accepts("c", mail(other("ben")));
  expect((await pipeline.turns()).map(({ state }) => state)).toEqual(["answered", "waiting"]);
  await pipeline.passes(10_000);
  expect(pipeline.sent).toEqual(["answer to hello", "answer to hello from ben"]);
});

it("records a question of a call with its claim only where a connection is idle", async () => {
  const { pipeline, call } = await openedCall();
  await call.says("one");
  await pipeline.settles();
  const reserved: (() => void)[] = [];
  for (let end = pipeline.client.reserve(); end !== null; end = pipeline.client.reserve()) reserved.push(end);
  const states = async () => (await pipeline.turns()).map(({ state }) => state);
  await call.says("two");
  await expect.poll(() => pipeline.scheduler.running(), { interval: 1 }).toBe(1);
  expect(await states()).toEqual(["answered", "answered", "waiting"]);
  expect(await attempts(pipeline)).toEqual(["1 sent", "1 sent"]);
  for (const end of reserved) end();
  await pipeline.settles();
  expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to one", "answer to two"]);
  expect(await attempts(pipeline)).toEqual(["1 sent", "1 sent", "1 sent"]);
  expect(pipeline.platform.count("look")).toBe(0);
});

it("records a question of a call when the rate limit has room, not before", async () => {
  const clock = testClock(true);
  const { pipeline, call } = await openedCall({ clock, rate: { interval: 1_000_000, tolerance: 1_000_000 } });
  await pipeline.passes(10_000, 500);
  for (const text of ["one", "two"]) {
    await call.says(text);
    await pipeline.settles();
  }
  await call.says("three");
  await expect.poll(() => clock.sleeping(), { interval: 1 }).toBeGreaterThan(0);
  expect((await pipeline.turns()).map(({ state }) => state)).toEqual(["answered", "answered", "answered", "waiting"]);
  await pipeline.passes(10_000, 500);
  expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to one", "answer to two", "answer to three"]);
  expect(pipeline.platform.count("look")).toBe(0);
});
