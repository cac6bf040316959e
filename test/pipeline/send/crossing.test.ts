// The crossing of a send: what is recorded when, and what ends an attempt before it.

import { type Attempt, externalId, type Outbound, type SendOutcome } from "bridgehead/contract";
import { expect, it } from "vitest";
import { type Database, dialect, type Query } from "../../../src/store/driver.ts";
import { attemptsOn, dropDraft } from "../../../src/store/operators/outbox.ts";
import { suppress } from "../../../src/store/tables/suppressions.ts";
import { openPipeline, type TestPipeline } from "../../support/pipeline/pipeline.ts";
import { watched } from "../../support/pipeline/stage.ts";

const person = "ada@example.org";

/** An adapter whose sends wait for their connection until `connect` is called. */
function connecting() {
  const attempts: Attempt[] = [];
  const gates: (() => void)[] = [];
  const outcomes: SendOutcome[] = [];
  const send: Outbound["send"] = async (_, attempt) => {
    attempts.push(attempt);
    await new Promise<void>((resolve) => gates.push(resolve));
    await attempt.crossing();
    return outcomes.shift() ?? { kind: "sent", id: externalId(`sent-${attempt.key}`) };
  };
  return {
    attempts,
    outcomes,
    send,
    waiting: () => gates.length,
    connect: () => gates.splice(0).forEach((open) => open()),
  };
}

const draftOf = async ({ db }: TestPipeline) => {
  const draft = await db.read((q) =>
    q.one<{ id: string; state: string; attempts: number }>("SELECT id, state, attempts FROM drafts"),
  );
  if (!draft) throw new Error("no draft");
  return draft;
};
const attempts = async (pipeline: TestPipeline) =>
  pipeline.db.read(async (q) => attemptsOn(q, (await draftOf(pipeline)).id));

async function waitingSend(): Promise<{ pipeline: TestPipeline; adapter: ReturnType<typeof connecting> }> {
  const adapter = connecting();
  const pipeline = await openPipeline({ outbound: { send: adapter.send } });
  void pipeline.arrives({ text: "hello" });
  await expect.poll(adapter.waiting, { interval: 1 }).toBe(1);
  return { pipeline, adapter };
}

it("records nothing before the crossing, and the attempt in it", async () => {
  const { pipeline, adapter } = await waitingSend();
  expect([await draftOf(pipeline), await attempts(pipeline)]).toMatchObject([{ state: "queued", attempts: 0 }, []]);
  adapter.outcomes.push({ kind: "unknown", reason: "cut" });
  adapter.connect();
  await pipeline.settles();
  expect(await draftOf(pipeline)).toMatchObject({ state: "unknown", attempts: 1 });
  expect(await attempts(pipeline)).toMatchObject([{ number: 1, outcome: "unknown" }]);
});

it.each([
  [
    "an operator dropped it",
    (pipeline: TestPipeline) => pipeline.db.tx(async (q) => dropDraft(q, (await draftOf(pipeline)).id)),
  ],
  ["its recipient was suppressed", (pipeline: TestPipeline) => pipeline.db.tx((q) => suppress(q, "c", person, "STOP"))],
])("sends nothing when %s after the claim", async (_, change) => {
  const { pipeline, adapter } = await waitingSend();
  await change(pipeline);
  adapter.connect();
  await pipeline.settles();
  expect([await draftOf(pipeline), await attempts(pipeline)]).toMatchObject([{ state: "dropped", attempts: 0 }, []]);
  expect(pipeline.sent).toEqual([]);
});

it("counts an attempt that failed before the crossing for the backoff", async () => {
  const pipeline = await openPipeline({ outbound: { send: () => Promise.reject(new Error("no connection")) } });
  await pipeline.arrives({ text: "hello" });
  expect(await draftOf(pipeline)).toMatchObject({ state: "queued", attempts: 1 });
  expect(await attempts(pipeline)).toMatchObject([{ number: 1, outcome: "deferred" }]);
});

it.each([
  ["nothing", undefined],
  ["another kind", { kind: "ok", id: "x" }],
  ["sent without an id", { kind: "sent" }],
  ["a refusal without a code", { kind: "refused", reason: "no" }],
])("takes %s for what is certain: unknown after the crossing, deferred before it", async (_, given) => {
  for (const crosses of [true, false]) {
    const pipeline = await openPipeline({
      outbound: {
        async send(_draft, attempt) {
          if (crosses) await attempt.crossing();
          return given as SendOutcome;
        },
      },
    });
    await pipeline.arrives({ text: "hello" });
    expect(await attempts(pipeline)).toMatchObject([{ number: 1, outcome: crosses ? "unknown" : "deferred" }]);
    expect((await draftOf(pipeline)).state).toBe(crosses ? "unknown" : "queued");
  }
});

it.each([
  ["throws", () => expect.fail("no pool")],
  ["is no number", () => Number.NaN],
])("sends nothing while the adapter's capacity %s, and continues afterwards", async (_, failing) => {
  let fails = true;
  const pipeline = await openPipeline({ outbound: { capacity: () => (fails ? failing() : 1) } });
  const logged = () => pipeline.heard.filter((line) => line.startsWith("capacity of an adapter"));
  await pipeline.arrives({ text: "hello" });
  expect([(await draftOf(pipeline)).state, pipeline.sent]).toEqual(["queued", []]);
  await pipeline.arrives({ text: "another", from: { address: "b@example.org" } });
  expect(logged()).toHaveLength(1);
  fails = false;
  await pipeline.settles();
  expect((await draftOf(pipeline)).state).toBe("sent");
  expect(logged()).toHaveLength(2);
});

it("rejects a crossing after the adapter has returned", async () => {
  let late: Promise<unknown> = Promise.resolve();
  const pipeline = await openPipeline({
    outbound: {
      async send(_, attempt) {
        late = new Promise((resolve) => setImmediate(resolve)).then(() => {
          void attempt.crossing(); // One that is not awaited is no unhandled rejection, which would fail this test.
          return attempt.crossing();
        });
        late.catch(() => undefined);
        return { kind: "deferred", reason: "no connection" };
      },
    },
  });
  await pipeline.arrives({ text: "hello" });
  await expect(late).rejects.toThrow();
  expect((await draftOf(pipeline)).state).toBe("queued");
  expect((await attempts(pipeline)).map(({ outcome }) => outcome)).toEqual(["deferred"]);
});

it("records once when the adapter crosses twice in one attempt", async () => {
  const pipeline = await openPipeline({
    outbound: {
      async send(_, attempt) {
        await attempt.crossing();
        await attempt.crossing();
        return { kind: "sent", id: externalId("twice") };
      },
    },
  });
  await pipeline.arrives({ text: "hello" });
  expect(await attempts(pipeline)).toMatchObject([{ number: 1, outcome: "sent" }]);
});

it("claims no more drafts than the adapter has capacity for, and continues when a send has ended", async () => {
  const adapter = connecting();
  const most = 2;
  let running = 0;
  let highest = 0;
  const pipeline = await openPipeline({
    outbound: {
      capacity: () => Math.max(0, most - running),
      async send(draft, attempt) {
        running += 1;
        highest = Math.max(highest, running);
        try {
          return await adapter.send(draft, attempt);
        } finally {
          running -= 1;
        }
      },
    },
  });
  const people = ["a", "b", "c", "d", "e"];
  const arrived = pipeline.arrives(...people.map((name) => ({ text: name, from: { address: `${name}@example.org` } })));
  await expect.poll(adapter.waiting, { interval: 1 }).toBe(most);
  for (const total of [2, 4, 5]) {
    await expect.poll(() => adapter.attempts.length, { interval: 1 }).toBe(total);
    // Work whose outcome is on its way to the disk is still running.
    await expect.poll(() => pipeline.scheduler.running(), { interval: 1 }).toBeLessThanOrEqual(most);
    adapter.connect();
  }
  await arrived;
  expect([await pipeline.drafts(), highest]).toEqual([people.map(() => "sent"), most]);
});

it("needs seven statements for a mail that is sent, six of them of its own", async () => {
  const statements: string[] = [];
  const note = (sql: string) => void statements.push(dialect(sql, "sqlite").replace(/\s+/g, " ").trim());
  const counted = (q: Query): Query => ({
    ...q,
    one(sql, ...values) {
      note(sql);
      return q.one(sql, ...values);
    },
    all(sql, ...values) {
      note(sql);
      return q.all(sql, ...values);
    },
    run(sql, ...values) {
      note(sql);
      return q.run(sql, ...values);
    },
    write(sql, ...values) {
      note(sql);
      return q.write(sql, ...values);
    },
    writeOne(otherwise, sql, ...values) {
      note(sql);
      return q.writeOne(otherwise, sql, ...values);
    },
    defer(deferred, sql, ...values) {
      note(sql);
      return q.defer(deferred, sql, ...values);
    },
  });
  const store = await watched();
  const db: Database = {
    ...store,
    kind: "sqlite",
    tx: (work, options) => store.tx((q) => work(counted(q)), options),
    read: (work) => store.read((q) => work(counted(q))),
  };
  const pipeline = await openPipeline({ db });
  // The first mail reads the pauses of the channel.
  await pipeline.arrives({ text: "hello" });
  statements.length = 0;
  await pipeline.arrives({ text: "hello again", from: { address: "ben@example.org" } });
  const composed = statements.findIndex((sql) => sql.startsWith("INSERT INTO drafts"));
  const own = statements.slice(composed + 1).filter((sql) => !sql.startsWith("SELECT 'events' AS work"));
  expect(own.map((sql) => sql.split(" ").slice(0, 3).join(" "))).toEqual([
    "SELECT lanes.id AS", // due lanes with their heads: once for all claims of a commit
    "UPDATE drafts SET",
    "INSERT INTO attempts",
    "UPDATE attempts SET",
    "INSERT INTO citations",
    "UPDATE drafts SET",
    "UPDATE lanes SET",
  ]);
});

it("is made once more when the provider does not have the message, and then left to the policy", async () => {
  let sends = 0;
  const pipeline = await openPipeline({
    rules: { on_unknown: "hold" },
    outbound: {
      async send(_body, attempt) {
        await attempt.crossing();
        sends += 1;
        return { kind: "unknown", reason: "no response" };
      },
      reconcile: async () => ({ kind: "not-sent" }),
    },
  });
  await pipeline.arrives({ text: "hello" });
  await pipeline.passes(600_000);
  expect([sends, await pipeline.drafts()]).toEqual([2, ["held"]]);
});
