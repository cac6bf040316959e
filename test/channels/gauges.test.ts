import { expect, it, onTestFinished } from "vitest";
import { insertSession } from "../../src/calls/rows.ts";
import { defineGauges } from "../../src/channels/gauges.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { Metrics } from "../../src/ops/metrics.ts";
import { Statistics } from "../../src/ops/statistics.ts";
import type { Database } from "../../src/store/driver.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { ensureChannel, recordOutcome } from "../../src/store/tables/events.ts";
import { conversation, storeEvent } from "../support/store/databases.ts";

it("looks at the store once a scrape, however many gauges show it", async () => {
  const db = openSqlite(":memory:", Date.now);
  onTestFinished(() => db.close());
  await migrate(db);
  await db.tx(async (q) => {
    await ensureChannel(q, "c");
    await recordOutcome(q, await storeEvent(q, "1"), { state: "failed" });
    await storeEvent(q, "2");
    await conversation(q, "k");
    await insertSession(q, { channel: "c", id: "s", conversation: "k", node: "n" });
  });
  const build = { version: "1", node: "2", store: "sqlite", schema: "3" };
  let looks = 0;
  const counted: Database = { ...db, read: (work) => (looks++, db.read(work)) };
  const metrics = new Metrics(new Statistics());
  const host = { running: () => [], lines: new Map() };
  const app = { db: counted, scheduler: { running: () => 0 }, host, agents: new Map() };
  defineGauges(metrics, app as unknown as Parameters<typeof defineGauges>[1], systemClock, build, async () => 5e9);
  for (const scrape of [1, 2]) {
    const { body } = await metrics.expose();
    expect(body).toContain('bridgehead_backlog_items{channel="c",kind="events",state="failed"} 1');
    expect(body).toContain('bridgehead_backlog_items{channel="c",kind="events",state="stored"} 1');
    expect(body).toContain('bridgehead_sessions{channel="c",state="open"} 1');
    expect(body).toContain('bridgehead_build_info{version="1",node="2",store="sqlite",schema="3"} 1');
    expect(body).toContain("bridgehead_store_free_bytes 5000000000");
    // The channels, and the size of the store.
    expect(looks).toBe(2 * scrape);
  }
});
