// Calls on two nodes that share a PostgreSQL store: the one that holds the socket speaks, until it is silent.

import { beforeAll, expect, it } from "vitest";
import { nodeLease } from "../../../src/store/leases.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { callOf, openCallPipeline } from "../../support/pipeline/pipeline.ts";
import { startPlatform } from "../../support/pipeline/stage.ts";
import { migrated, postgresDatabase } from "../../support/store/databases.ts";
import { needPostgres, type SharedPostgres, sharedPostgres } from "../../support/store/postgres.ts";

const notYet = { kind: "deferred", reason: "no such call here", retryAfterMs: 3_600_000 } as const;
/** Longer than a node takes until it says again that it is alive. */
const renewal = 6000;
/** What is due in the store's own time comes when that has passed. */

describeReal("a call on two nodes", await needPostgres(), () => {
  let server: SharedPostgres;
  beforeAll(async () => {
    server = await sharedPostgres();
  });

  async function nodes() {
    const store = await migrated(() => postgresDatabase(server));
    const platform = await startPlatform();
    const dbs = [await store.open(), await store.open()] as const;
    const a = await openCallPipeline({ platform, db: dbs[0], node: "a", timeout: 30_000 });
    const b = await openCallPipeline({ platform, db: dbs[1], node: "b" });
    await Promise.all([a.scheduler.sweep(), b.scheduler.sweep()]);
    const pins = () => a.db.read((q) => q.all<{ node: string | null }>("SELECT DISTINCT node FROM lanes"));
    /** Its process is gone, or cannot reach the store, for longer than its lease. */
    const silence = (node: string) =>
      dbs[0].tx((q) => q.run("UPDATE leases SET until = 0 WHERE name = $1", nodeLease(node)));
    /** All that is due on that node within a while of the store's own time. */
    const looks = async (pipeline: typeof a) => {
      pipeline.clock.forward(renewal);
      await pipeline.settles();
    };
    return { a, b, pins, silence, looks, platform };
  }

  /** A call at `a` with an answer that is ready to be spoken. */
  async function waiting() {
    const all = await nodes();
    const call = callOf(all.a);
    await call.opens();
    all.a.outcomes.push(notYet);
    await call.says("hello");
    await all.a.settles();
    return { ...all, call };
  }
  /** The next try of what waits is due now. */
  const becomesDue = (pipeline: { db: Awaited<ReturnType<typeof nodes>>["a"]["db"] }) =>
    pipeline.db.tx(async (q) => {
      await q.run("UPDATE drafts SET due_at = 0");
      await q.run("UPDATE lanes SET due_at = 0 WHERE due_at IS NOT NULL");
    });

  it("is spoken in by the node that holds its socket, and by no other", async () => {
    const { a, b, pins } = await waiting();
    expect(await pins()).toEqual([{ node: "a" }]);
    await becomesDue(a);
    await b.settles();
    expect([a.said, b.said]).toEqual([[], []]);
    await a.settles();
    expect([a.said.length, b.said.length]).toEqual([1, 0]);
  });

  it("has no owner when its node is silent, and continues where it comes back", async () => {
    const { a, b, pins, silence, looks, platform } = await waiting();
    await silence("a");
    await looks(b);
    const again = callOf(b);
    expect(await again.facts()).toMatchObject({ state: "lost", node: "a" });
    expect(await pins()).toEqual([{ node: null }]);
    await again.tells("opened");
    expect(await again.facts()).toMatchObject({ state: "open", node: "b", openings: 2 });
    expect(await pins()).toEqual([{ node: "b" }]);
    await becomesDue(b);
    await expect
      .poll(async () => {
        await b.settles();
        return b.said.map(({ text }) => text);
      })
      .toEqual(["answer to hello"]);
    // The old node wakes up, and has no say in it any more.
    await looks(a);
    expect(await again.facts()).toMatchObject({ state: "open", node: "b" });
    expect([a.said, platform.count("start"), a.asked()]).toEqual([[], 1, ["hello"]]);
  });

  it("is its node's again when that was only cut off from the store", async () => {
    const { a, b, pins, silence, looks, call } = await waiting();
    await silence("a");
    await looks(b);
    expect((await call.facts())?.state).toBe("lost");
    await looks(a);
    expect(await call.facts()).toMatchObject({ state: "open", node: "a", openings: 1 });
    expect(await pins()).toEqual([{ node: "a" }]);
    await becomesDue(a);
    await expect
      .poll(async () => {
        await a.settles();
        return a.said.length;
      })
      .toBe(1);
    expect(b.said).toEqual([]);
  });

  it("stays its node's while that is alive", async () => {
    const { b, looks, call, a } = await waiting();
    for (let i = 0; i < 3; i++) {
      await looks(a);
      await looks(b);
    }
    expect(await call.facts()).toMatchObject({ state: "open", node: "a" });
  });

  it("ends a superseded question although another node routes what came later", async () => {
    const { a, b, platform } = await nodes();
    const call = callOf(a);
    await call.opens();
    platform.faults.ask = () => undefined;
    await call.says("one");
    await a.called("ask", 1);
    delete platform.faults.ask;
    // Accepted by the other node: a webhook that a load balancer sent there.
    await callOf(b).says("two");
    await b.settles();
    expect([b.asked(), b.said]).toEqual([["one"], []]);
    const turns = await b.state();
    expect(turns.turns).toEqual(["answered", "dropped", "waiting"]);
    await call.says("three");
    // The cancelled question releases its lane in a transaction of its own, which a later sweep finds.
    await expect
      .poll(async () => {
        await a.settles();
        return [a.asked(), a.said.length, b.said.length];
      })
      .toEqual([["one", "two\nthree"], 1, 0]);
  });
});
