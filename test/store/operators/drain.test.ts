// Many jobs, many lanes, several nodes: each job runs once, in the order of its lane, also when nodes die.

import { describe, expect, it } from "vitest";
import type { Database } from "../../../src/store/driver.ts";
import { type Lease, LeaseLost, releaseLane } from "../../../src/store/lanes.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { endAttempt, recordAsking, type TurnRow } from "../../../src/store/tables/turns.ts";
import { concludeTurn, conversation, headTurn, leaseLanes, onEachDatabase } from "../../support/store/databases.ts";

const [jobs, lanes, workers] = [3000, 250, 4];
const room = 50;

interface Job {
  readonly lease: Lease;
  readonly turn: TurnRow;
}

interface Ledger {
  /** Per lane, the jobs done, in the order of their commits. */
  readonly done: Map<string, string[]>;
  readonly running: Set<string>;
  twice: number;
  /** Jobs in the hands of workers that died. */
  abandoned: number;
  /** Workers that have yet to die. */
  dying: number;
  lost: number;
}

async function fill(db: Database): Promise<void> {
  await migrate(db);
  await db.tx(async (q) => {
    for (let lane = 0; lane < lanes; lane++) await conversation(q, `k${lane}`);
    for (let from = 0; from < jobs; from += 500) {
      const rows = Array.from({ length: 500 }, (_, i) => {
        const [id, lane, seq] = [from + i, (from + i) % lanes, Math.floor((from + i) / lanes) + 1];
        return `('t${String(id).padStart(5, "0")}', 'k${lane}', 'c', 'p', ${seq}, 'waiting', 1, 'q', '{}', 0, 0, 0, 0)`;
      });
      await q.run(
        `INSERT INTO turns (id, conversation, channel, person, seq, state, open, question, address, due_at, received_at, made_at, updated_at)
         VALUES ${rows.join(", ")}`,
      );
    }
    await q.run("UPDATE lanes SET due_at = 0 WHERE direction = 'in'");
  });
}

const claim = (db: Database, node: string, leaseMs: number): Promise<Job[]> =>
  db.tx(async (q) => {
    const claimed: Job[] = [];
    for (const lease of await leaseLanes(q, "in", "c", node, leaseMs, room)) {
      const turn = await headTurn(q, lease);
      if (!turn) throw new Error(`lane ${lease.lane} was due without a head`);
      if (turn.state === "waiting") await recordAsking(q, turn, node, lease.token);
      claimed.push({ lease, turn });
    }
    return claimed;
  });

async function finish(db: Database, batch: readonly Job[], ledger: Ledger): Promise<void> {
  try {
    await db.tx(async (q) => {
      for (const { lease, turn } of batch) {
        await endAttempt(q, turn.id, "sent", null);
        await concludeTurn(q, turn.id, { state: "answered", open: 0 });
        await releaseLane(q, lease, "in");
      }
      // Noted before the commit: afterwards another node may already be at the lane's next job.
      for (const { turn } of batch) {
        ledger.running.delete(turn.id);
        const list = ledger.done.get(turn.conversation) ?? [];
        ledger.done.set(turn.conversation, [...list, turn.id]);
      }
    });
  } catch (error) {
    if (!(error instanceof LeaseLost)) throw error;
    ledger.lost += 1;
  }
}

/** Works until nothing is open; dies with its hands full after `dieAfter` claims. The others leave it half of the jobs,
 *  because a fast one could do all of them before. */
async function work(db: Database, node: string, ledger: Ledger, dieAfter: number): Promise<void> {
  for (let claims = 0; ; ) {
    const half = [...ledger.done.values()].flat().length > jobs / 2;
    if (dieAfter === 0 && half) await expect.poll(() => ledger.dying).toBe(0);
    const isLast = claims + 1 === dieAfter;
    const claimed = await claim(db, node, isLast ? 200 : 60_000);
    if (claimed.length > 0) claims += 1;
    if (claims === dieAfter && dieAfter > 0) {
      ledger.abandoned += claimed.length;
      ledger.dying -= 1;
      return;
    }
    for (const { turn } of claimed) {
      if (ledger.running.has(turn.id) || ledger.done.get(turn.conversation)?.includes(turn.id)) ledger.twice += 1;
      ledger.running.add(turn.id);
    }
    if (claimed.length > 0) await finish(db, claimed, ledger);
    else if (!(await db.read((q) => q.one("SELECT 1 FROM turns WHERE open = 1 LIMIT 1")))) return;
    else await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

onEachDatabase((newDatabase) => {
  describe("drain", () => {
    it("does every job once and in order with four workers, two of which die holding leases", {
      timeout: 600_000,
    }, async () => {
      const store = await newDatabase();
      const first = await store.open();
      await fill(first);
      const nodes = [first];
      while (nodes.length < workers) nodes.push(first.kind === "sqlite" ? first : await store.open());
      const ledger: Ledger = { done: new Map(), running: new Set(), twice: 0, abandoned: 0, dying: 2, lost: 0 };
      await Promise.all(nodes.map((db, i) => work(db, `n${i}`, ledger, i < 2 ? 10 + i : 0)));
      expect(ledger.abandoned).toBeGreaterThan(1);
      expect(ledger.twice).toBe(0);
      expect(ledger.lost).toBe(0);
      expect([...ledger.done.values()].flat()).toHaveLength(jobs);
      for (const [lane, list] of ledger.done) expect(list, lane).toEqual([...list].sort());
      const rows = await first.read((q) =>
        q.all<{ state: string; count: number }>("SELECT state, COUNT(*) AS count FROM turns GROUP BY state"),
      );
      expect(rows).toEqual([{ state: "answered", count: jobs }]);
    });
  });
});
