// The plans of the statements that handle messages. PostgreSQL keeps them, and makes the first ones while a store is new.

import { expect, it } from "vitest";
import type { Facts, Incoming } from "../../../src/pipeline/route/facts.ts";
import { loadConversations } from "../../../src/pipeline/route/rows.ts";
import type { Query } from "../../../src/store/driver.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { openPipeline } from "../../support/pipeline/pipeline.ts";
import { lineOf } from "../../support/pipeline/stage.ts";
import { conversation, draft, migrated, postgresDatabase, turn } from "../../support/store/databases.ts";
import { needPostgres, sharedPostgres } from "../../support/store/postgres.ts";

/** Conversations that wait, each with a turn and a draft that are due in an hour. */
const waiting = 2000;
const hour = 3_600_000;

/** Copies the only conversation of channel `d`, with its lanes, turn and draft. */
async function grow(q: Query): Promise<void> {
  await ensureChannel(q, "d");
  await conversation(q, "k", "d");
  await turn(q, "t", "k", { channel: "d" });
  await draft(q, "d", "k", hour, "d");
  await q.run("UPDATE turns SET due_at = now_ms() + $1 WHERE id = 't'", hour);
  await q.run("UPDATE lanes SET due_at = now_ms() + $1 WHERE conversation = 'k'", hour);
  const number = { conversations: ["id", "token"], replies: ["id", "conversation"] };
  const numbered = {
    ...number,
    lanes: ["id", "conversation"],
    turns: ["id", "conversation"],
    drafts: ["id", "conversation", "reply"],
  };
  for (const [table, changed] of Object.entries(numbered)) {
    const row = await q.one(`SELECT * FROM ${table} WHERE channel = 'd'`);
    const columns = Object.keys(row ?? {});
    const copied = columns.map((name) => (changed.includes(name) ? `${name} || '-' || n` : name));
    await q.run(
      `INSERT INTO ${table} (${columns.join(", ")})
       SELECT ${copied.join(", ")} FROM ${table}, generate_series(1, $1) AS n WHERE channel = 'd'`,
      waiting,
    );
  }
}

describeReal("the plans of a store that grows", await needPostgres(), () => {
  it("read no more rows for a message than those of a small store", async () => {
    const at = await migrated(async () => postgresDatabase(await sharedPostgres()));
    const db = await at.open();
    const pipeline = await openPipeline({ db });
    const mails = (from: string) =>
      Array.from({ length: 4 }, (_, n) => ({ text: "Hello", from: { address: `${from}${n}@example.org` } }));
    // Several at once, so that each connection has its plans.
    await pipeline.arrives(...mails("a"));
    for (const mail of mails("b")) await pipeline.arrives(mail);
    await db.tx(grow);
    await pipeline.arrives(...mails("c"));
    for (const mail of mails("d")) await pipeline.arrives(mail);
    expect(pipeline.sent).toHaveLength(16);

    const backends = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()";
    const ours = (await db.read((q) => q.all<{ pid: number }>(backends))).map(({ pid }) => pid);
    await db.close();
    const later = await at.open();
    // A connection reports what it has read when it ends.
    await expect
      .poll(async () =>
        (await later.read((q) => q.all<{ pid: number }>(backends))).filter(({ pid }) => ours.includes(pid)),
      )
      .toEqual([]);
    const read = await later.read((q) =>
      q.all<{ relname: string; rows: number }>(
        `SELECT relname, CAST(seq_tup_read + idx_tup_fetch AS BIGINT) AS rows FROM pg_stat_user_tables
         WHERE relname IN ('lanes', 'turns', 'drafts') AND seq_tup_read + idx_tup_fetch > 0`,
      ),
    );
    expect(read.map(({ relname }) => relname).toSorted()).toEqual(["drafts", "lanes", "turns"]);
    // Less than one scan.
    for (const { relname, rows } of read) expect(rows, relname).toBeLessThan(waiting);
  });

  it("read one turn of a conversation whose turns are older than the window of its cap", async () => {
    const at = await migrated(async () => postgresDatabase(await sharedPostgres()));
    const db = await at.open();
    const message = { row: { code: null } } as Incoming;
    const line = lineOf({ rules: { caps: { sender: [], conversation: [{ max: 10, per: hour }], channel: [] } } });
    /** Returns the count for the cap, and the number of turns that it has read. */
    const counted = async (q: Query) => {
      const facts = new Map([[message, { conversation: "k", counts: [] } as unknown as Facts]]);
      const before = await turnsRead(q);
      await loadConversations(q, line, facts, { known: [message], joining: [] });
      return { count: facts.get(message)?.counts[0]?.count, read: (await turnsRead(q)) - before };
    };
    await db.tx(async (q) => {
      await ensureChannel(q, "c");
      await conversation(q, "k");
      for (let n = 0; n < 50; n += 1) await turn(q, `t${n}`, "k");
      await q.run("UPDATE turns SET made_at = made_at - $1", 2 * hour);
      expect(await counted(q)).toEqual({ count: 0, read: 1 });
      await q.run("UPDATE turns SET made_at = now_ms() WHERE id IN ('t48', 't49')");
      expect(await counted(q)).toEqual({ count: 2, read: 51 });
    });
    await db.close();
  });
});

/** The turns that this transaction has read. */
async function turnsRead(q: Query): Promise<number> {
  const row = await q.one<{ rows: number }>(
    "SELECT CAST(seq_tup_read + idx_tup_fetch AS BIGINT) AS rows FROM pg_stat_xact_user_tables WHERE relname = 'turns'",
  );
  return row?.rows ?? 0;
}
