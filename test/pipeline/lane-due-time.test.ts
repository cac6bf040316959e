// A draft changes while another one is queued behind it: the lane must then be due for its head. Runs on PostgreSQL,
// where the two transactions do not see each other.

import { sendKey } from "bridgehead/contract";
import { beforeAll, expect, it } from "vitest";
import { standardTiming } from "../../src/ops/timing.ts";
import { matchReceipt } from "../../src/pipeline/reconcile/receipts.ts";
import { isJoinable } from "../../src/pipeline/route/decide.ts";
import type { LastTurn } from "../../src/pipeline/route/facts.ts";
import { lastTurns } from "../../src/pipeline/route/rows.ts";
import { recordSending } from "../../src/pipeline/send/rows.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { releaseEvent } from "../../src/store/operators/inbox.ts";
import { dropDraft } from "../../src/store/operators/outbox.ts";
import { enqueueDraft, insertReply, readDraft } from "../../src/store/tables/drafts.ts";
import { storedEvents } from "../../src/store/tables/events.ts";
import { readTurn, recordAsking } from "../../src/store/tables/turns.ts";
import { describeReal } from "../support/machine/debian.ts";
import { lineOf, listen, receipt } from "../support/pipeline/stage.ts";
import {
  concludeTurn,
  conversation,
  draft,
  fresh,
  headTurn,
  leaseLanes,
  postgresDatabase,
  storeEvent,
  turn,
} from "../support/store/databases.ts";
import { needPostgres, type SharedPostgres, sharedPostgres } from "../support/store/postgres.ts";

const hour = 3_600_000;

/** `first` has written but not committed when `second` begins; both are over at the end. */
async function crossing(
  db: Database,
  first: (q: Query) => Promise<void>,
  second: (q: Query) => Promise<unknown>,
): Promise<void> {
  const written = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const one = db.tx(async (q) => {
    await first(q);
    written.resolve();
    await go.promise;
  });
  await written.promise;
  let over = false;
  const two = db.tx(second).finally(() => (over = true));
  const waits = () =>
    db.read((q) =>
      q.all("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"),
    );
  await expect.poll(async () => over || (await waits()).length > 0, { interval: 5 }).toBe(true);
  go.resolve();
  await Promise.all([one, two]);
}

describeReal("a lane on PostgreSQL", await needPostgres(), () => {
  let server: SharedPostgres;
  beforeAll(async () => {
    server = await sharedPostgres();
  });

  /** `d1` was tried and stands in front, due in an hour. */
  async function waiting(): Promise<Database> {
    const db = await fresh(
      () => postgresDatabase(server),
      async (q) => {
        await conversation(q, "k");
        await draft(q, "d1", "k", hour);
        const row = await readDraft(q, "d1");
        if (row) await recordSending(q, row, "n", 1);
        await q.run("UPDATE drafts SET state = 'queued' WHERE id = 'd1'");
        await insertReply(q, {
          id: "rd2",
          conversation: "k",
          channel: "c",
          turn: null,
          text: "text",
          platformId: null,
        });
      },
    );
    return db;
  }

  const follows = (q: Query): Promise<void> =>
    enqueueDraft(q, {
      id: "d2",
      conversation: "k",
      channel: "c",
      reply: "rd2",
      recipient: "a@example.org",
      body: "{}",
      dueAt: 0,
    });

  async function isDue(db: Database, direction: "in" | "out"): Promise<boolean> {
    return (await db.tx((q) => leaseLanes(q, direction, "c", "m", 1000, 1))).length === 1;
  }

  it("is due for the draft behind one that an operator drops", async () => {
    const db = await waiting();
    await crossing(db, follows, (q) => dropDraft(q, "d1"));
    expect(await isDue(db, "out")).toBe(true);
  });

  it("is due for the draft behind one that a receipt settles", async () => {
    const db = await waiting();
    await db.tx((q) => storeEvent(q, "receipt", { kind: "delivery" }));
    await crossing(db, follows, async (q) => {
      const [row] = await storedEvents(q, "c", 1);
      const event = receipt({ about: { key: sendKey("d1") }, state: "delivered" });
      await q.run("UPDATE drafts SET state = 'unknown' WHERE id = 'd1'");
      if (row) await matchReceipt(q, lineOf(), row, event, { log: listen().log, timing: standardTiming });
    });
    expect((await db.read((q) => readDraft(q, "d1")))?.state).toBe("delivered");
    expect(await isDue(db, "out")).toBe(true);
  });

  it("is due for a released question while another one comes in", async () => {
    const db = await fresh(() => postgresDatabase(server));
    const event = await db.tx(async (q) => {
      const id = await storeEvent(q, "mail");
      await conversation(q, "k");
      await turn(q, "t1", "k");
      await concludeTurn(q, "t1", { state: "failed", open: 1 });
      await q.run("UPDATE turns SET event = $1", id);
      await q.run("UPDATE events SET state = 'failed', code = 'not-asked', turn = 't1'");
      await q.run("UPDATE lanes SET due_at = NULL");
      return id;
    });
    await crossing(
      db,
      (q) => turn(q, "t2", "k"),
      (q) => releaseEvent(q, event),
    );
    expect(await isDue(db, "in")).toBe(true);
  });

  it("keeps new text out of a question that is being claimed", async () => {
    const db = await fresh(
      () => postgresDatabase(server),
      async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k");
      },
    );
    let last: LastTurn | undefined;
    await crossing(
      db,
      async (q) => {
        const [lease] = await leaseLanes(q, "in", "c", "n", 60_000, 1);
        const head = lease && (await headTurn(q, lease));
        if (head) await recordAsking(q, head, "n", lease.token);
      },
      async (q) => {
        last = (await lastTurns(q, ["k"])).get("k");
      },
    );
    expect(last).toMatchObject({ id: "t1", state: "asking" });
    expect(last && isJoinable(last, "a@example.org")).toBe(false);
    expect(await db.read((q) => readTurn(q, "t1"))).toMatchObject({
      state: "asking",
      question: "question t1",
    });
  });
});
