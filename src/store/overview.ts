// What health, metrics and the operator's commands look at.

import type { Query } from "./driver.ts";

export interface Overview {
  /** Turns that wait for the platform, and drafts that wait to go out. */
  readonly waiting: number;
  /** Drafts that a human has to decide about. */
  readonly held: number;
  /** Messages held by a cap. */
  readonly held_messages: number;
  /** Milliseconds that the oldest turn has been due; null when none is. */
  readonly oldest_turn_ms: number | null;
  /** Milliseconds that the oldest draft has been due; null when none is. */
  readonly oldest_draft_ms: number | null;
  readonly suppressed: number;
}

/** A handful of counts, each through an index. */
export async function overview(q: Query): Promise<Overview> {
  const turns = await q.one<{ count: number; oldest: number | null }>(
    "SELECT COUNT(*) AS count, MAX(now_ms() - due_at) AS oldest FROM turns WHERE open = 1 AND state IN ('waiting', 'asking', 'unknown')",
  );
  const drafts = await q.one<{ count: number; oldest: number | null }>(
    "SELECT COUNT(*) AS count, MAX(now_ms() - due_at) AS oldest FROM drafts WHERE open = 1 AND state IN ('queued', 'sending', 'unknown')",
  );
  const count = async (sql: string) => Number((await q.one<{ count: number }>(sql))?.count ?? 0);
  const due = (oldest: number | null | undefined) => (oldest === null || oldest === undefined || oldest < 0 ? null : Number(oldest));
  return {
    waiting: Number(turns?.count ?? 0) + Number(drafts?.count ?? 0),
    held: await count("SELECT COUNT(*) AS count FROM drafts WHERE state = 'held'"),
    held_messages: await count("SELECT COUNT(*) AS count FROM events WHERE state = 'held'"),
    oldest_turn_ms: due(turns?.oldest),
    oldest_draft_ms: due(drafts?.oldest),
    suppressed: await count("SELECT COUNT(*) AS count FROM suppressions WHERE active = 1"),
  };
}

/** Counts by channel and state, for the metrics. */
export async function stateCounts(q: Query, table: "turns" | "drafts"): Promise<{ channel: string; state: string; count: number }[]> {
  const rows = await q.all<{ channel: string; state: string; count: number }>(
    `SELECT channel, state, COUNT(*) AS count FROM ${table} GROUP BY channel, state`,
  );
  return rows.map((row) => ({ ...row, count: Number(row.count) }));
}
