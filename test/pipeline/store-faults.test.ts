// A store that fails for a moment, or for long.

import { externalId } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import { Scheduler } from "../../src/engine/scheduler.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { pausesOf } from "../../src/store/tables/pauses.ts";
import { eventually } from "../support/clock.ts";
import { mail, openPipeline, testClock } from "../support/pipeline/pipeline.ts";
import { listen, watched } from "../support/pipeline/stage.ts";
import { sqliteDatabase } from "../support/store/databases.ts";

const broken = () => new Error("the store failed");
const busy = () => Object.assign(new Error("database is locked"), { code: "SQLITE_BUSY" });

/** The store, in which the next `commits` of an outcome fail: nothing is written, or only the answer is lost. */
function failing(how: "rejected" | "answer lost", error = broken) {
  let commits = 0;
  async function tx<T>(db: Database, work: (q: Query) => Promise<T>): Promise<T> {
    let fails = false;
    const result = await db.tx(async (q) => {
      let outcome = false;
      const write: Query["write"] = (sql, ...values) => {
        outcome ||= sql.startsWith("UPDATE attempts");
        return q.write(sql, ...values);
      };
      const written = await work({ ...q, write });
      fails = outcome && commits > 0;
      if (fails && how === "rejected") {
        commits -= 1;
        throw error();
      }
      return written;
    });
    if (!fails) return result;
    commits -= 1;
    throw error();
  }
  return {
    fail: (next: number) => void (commits = next),
    left: () => commits,
    around: (db: Database): Database => ({ ...db, tx: (work) => tx(db, work) }),
  };
}

it.each([1, 3])("writes an outcome later when the store fails %i times, and sends once", async (times) => {
  const store = failing("rejected");
  let sends = 0;
  const pipeline = await openPipeline({
    faulty: store.around,
    outbound: {
      async send(_, attempt) {
        await attempt.crossing();
        sends += 1;
        store.fail(times);
        return { kind: "unknown", reason: "to be settled" };
      },
      reconcile: async () => ({ kind: "unsure" }),
    },
  });
  await pipeline.arrives({ text: "hello" });
  expect([sends, await pipeline.drafts(), store.left()]).toEqual([1, ["unknown"], 0]);
  expect(pipeline.heard.filter((text) => text === "writing an outcome failed, retrying")).toHaveLength(times);
});

it("writes an answer later when the store fails, and asks once", async () => {
  const store = failing("rejected");
  const pipeline = await openPipeline({ faulty: store.around });
  pipeline.platform.faults.ask = (asked) => {
    store.fail(2);
    asked.answer(200, asked.perform());
  };
  await pipeline.arrives({ text: "hello" });
  expect([pipeline.platform.count("ask"), pipeline.platform.count("look"), pipeline.sent]).toEqual([
    1,
    0,
    ["answer to hello"],
  ]);
});

it("does not write an outcome twice when only the answer of its commit was lost", async () => {
  const store = failing("answer lost");
  const pipeline = await openPipeline({
    faulty: store.around,
    outbound: { reconcile: async () => ({ kind: "not-sent" }) },
  });
  pipeline.sweeps();
  pipeline.platform.faults.ask = (asked) => {
    store.fail(1);
    asked.answer(200, asked.perform());
  };
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(120_000, 2000);
  const replies = await pipeline.db.read((q) => q.all("SELECT text FROM replies"));
  expect(replies).toEqual([{ text: "answer to hello" }]);
  expect(pipeline.platform.count("ask")).toBe(1);
  // The reply's draft was claimed in that commit, and the claim's result was lost.
  expect([await pipeline.drafts(), pipeline.sent]).toEqual([["sent"], ["answer to hello"]]);
});

it.each([
  ["that is busy", busy, ["sent"], 1],
  ["whose server has no disk space", () => Object.assign(new Error("No space left"), { code: "53100" }), ["sent"], 1],
  ["that is read-only", () => Object.assign(new Error("read-only transaction"), { code: "25006" }), ["sent"], 1],
  ["that is unreachable", () => Object.assign(new Error("connect"), { code: "ECONNREFUSED" }), ["sent"], 1],
  ["that fails otherwise", broken, ["sent"], 2],
])("writes an outcome after the end of the lease to a store %s", async (_, error, drafts, sends) => {
  const store = failing("rejected", error);
  const attempts: number[] = [];
  const pipeline = await openPipeline({
    faulty: store.around,
    rules: { on_unknown: "resend", unknown_window: 0 },
    outbound: {
      async send(_body, attempt) {
        await attempt.crossing();
        attempts.push(attempt.number);
        if (attempts.length === 1) store.fail(Number.POSITIVE_INFINITY);
        return { kind: "sent", id: externalId(`sent-${attempt.number}`) };
      },
      reconcile: async () => ({ kind: "unsure" }),
    },
  });
  pipeline.sweeps();
  await pipeline.accepts("c", mail({ text: "hello" }));
  await pipeline.passes(150_000, 5000);
  store.fail(0);
  await pipeline.passes(60_000, 5000);
  expect([await pipeline.drafts(), attempts.length]).toEqual([drafts, sends]);
});

/** The store, in which the first `count` records of attempts of that direction are rejected, or only their response is lost. */
async function failingRecords(direction: "in" | "out", how: "rejected" | "response lost", count: number) {
  let left = count;
  const clock = testClock();
  const db = await watched(() => sqliteDatabase(() => clock.now()));
  const tx: Database["tx"] = async (work, options) => {
    const fails = left > 0 && options?.joint?.endsWith(`/${direction}`) === true;
    if (!fails) return db.tx(work, options);
    left -= 1;
    if (how === "response lost") await db.tx(work, options);
    throw new Error("Connection terminated unexpectedly");
  };
  return { left: () => left, options: { clock, db: { ...db, tx } } };
}

const unrecorded = "recording an attempt failed";

it.each(["rejected", "response lost"] as const)(
  "sends within seconds what was not sent because the record was %s, although mail is retried after half a minute",
  async (how) => {
    const store = await failingRecords("out", how, 1);
    const pipeline = await openPipeline({
      ...store.options,
      outbound: { reconcile: async () => ({ kind: "unsure" }) },
      rules: { on_unknown: "hold", unknown_window: 0 },
    });
    pipeline.sweeps();
    await pipeline.arrives({ text: "hello" });
    expect([store.left(), pipeline.sent, await pipeline.drafts()]).toEqual([0, [], ["queued"]]);
    expect([pipeline.heard.includes(unrecorded), pipeline.heard.includes("send attempt failed")]).toEqual([
      true,
      false,
    ]);
    await pipeline.passes(3000, 500);
    expect([pipeline.sent, await pipeline.drafts()]).toEqual([["answer to hello"], ["sent"]]);
  },
);

it("does not end the pause of a channel when the record of its probe fails", async () => {
  const store = await failingRecords("out", "rejected", 1);
  const tries: number[] = [];
  const pipeline = await openPipeline({
    ...store.options,
    outbound: {
      async send(_, attempt) {
        tries.push(attempt.number);
        if (tries.length === 1) return { kind: "deferred", reason: "unreachable", scope: "channel" };
        await attempt.crossing();
        return { kind: "sent", id: externalId("sent") };
      },
    },
  });
  const pauses = () => pipeline.db.read(async (q) => (await pausesOf(q, "c", 3_600_000)).length);
  pipeline.sweeps();
  await pipeline.arrives({ text: "hello" });
  for (let waited = 0; store.left() > 0 && waited < 600; waited += 1) await pipeline.passes(1000);
  expect([tries.length, await pauses(), await pipeline.drafts()]).toEqual([2, 1, ["queued"]]);
  for (let waited = 0; tries.length < 3 && waited < 600; waited += 1) await pipeline.passes(1000);
  // A sweep may have begun the third try: its outcome follows.
  await eventually(async () =>
    expect([tries.length, await pauses(), await pipeline.drafts()]).toEqual([3, 0, ["sent"]]),
  );
});

it("reports a failed record of a question as a failure of the store, and asks once", async () => {
  const store = await failingRecords("in", "rejected", 1);
  const pipeline = await openPipeline({ ...store.options });
  pipeline.sweeps();
  await pipeline.arrives({ text: "hello" });
  expect([store.left(), pipeline.platform.count("start"), pipeline.platform.count("ask")]).toEqual([0, 0, 0]);
  expect([pipeline.heard.includes(unrecorded), pipeline.heard.includes("platform request failed")]).toEqual([
    true,
    false,
  ]);
  await pipeline.passes(3000, 500);
  expect([pipeline.platform.count("ask"), pipeline.sent]).toEqual([1, ["answer to hello"]]);
});

it("leaves no attempt without an outcome when the response to the record of a question was lost, and asks once", async () => {
  const store = await failingRecords("in", "response lost", 1);
  const pipeline = await openPipeline({ ...store.options });
  pipeline.sweeps();
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(3000, 500);
  expect([store.left(), pipeline.platform.count("ask"), pipeline.sent]).toEqual([0, 1, ["answer to hello"]]);
  const attempts = await pipeline.db.read((q) =>
    q.all("SELECT outcome FROM attempts WHERE kind = 'ask' ORDER BY number"),
  );
  expect(attempts).toEqual([{ outcome: "deferred" }, { outcome: "sent" }]);
  expect(await pipeline.turns()).toMatchObject([{ state: "answered", attempts: 2 }]);
});

it("looks once a second at a store that is gone, and says so each time", async () => {
  const clock = testClock();
  const heard = listen();
  let tries = 0;
  const db: Database = {
    kind: "postgres",
    tx: async () => {
      tries += 1;
      throw new Error("ECONNREFUSED");
    },
    read: async () => {
      throw new Error("ECONNREFUSED");
    },
    synced: async () => undefined,
    onWake: () => undefined,
    observe: () => undefined,
    damage: () => null,
    check: async () => ({ kind: "sound" }),
    wake: async () => undefined,
    hold: async () => undefined,
    maintain: async () => false,
    close: async () => undefined,
  };
  const scheduler = new Scheduler({
    db,
    node: "n",
    clock,
    log: heard.log,
    timing: standardTiming,
    transactional: [],
    stages: [],
    capacity: () => 1,
  });
  const abort = new AbortController();
  const swept = scheduler.run(abort.signal);
  onTestFinished(async () => {
    abort.abort();
    await swept;
  });
  for (let i = 1; i <= 3; i++) {
    await expect.poll(() => tries, { interval: 1 }).toBe(i);
    // A failed commit of another component does not trigger a retry either.
    await expect(scheduler.commit(async () => undefined)).rejects.toThrow("ECONNREFUSED");
    for (let turns = 0; turns < 200; turns++) await new Promise((resolve) => setImmediate(resolve));
    expect(tries).toBe(i + 1);
    tries -= 1;
    clock.forward(1000);
  }
  expect(heard.lines.filter((text) => text === "store unavailable: scheduler sweep failed")).toHaveLength(1);
});
