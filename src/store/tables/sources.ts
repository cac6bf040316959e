// Triggers and notes of an escalation; each trigger is recorded once.

import type { Query } from "../driver.ts";
import { fromListed, listOf } from "../many.ts";

/** Records a trigger. Returns false when its key was recorded before. */
export async function addSource(
  q: Query,
  source: {
    readonly key: string;
    readonly escalation: string;
    readonly source: string;
    readonly detail: string | null;
  },
): Promise<boolean> {
  const added = await q.run(
    `INSERT INTO sources (key, escalation, source, detail, noticed_at) VALUES ($1, $2, $3, $4, now_ms())
     ON CONFLICT (key) DO NOTHING`,
    source.key,
    source.escalation,
    source.source,
    source.detail,
  );
  return added === 1;
}

export async function isNoticed(q: Query, key: string): Promise<boolean> {
  return (await q.one("SELECT 1 FROM sources WHERE key = $1", key)) !== undefined;
}

/** Returns whether the same detail from that source was recorded within the last `withinMs`. */
export async function isNoted(
  q: Query,
  { escalation, source, detail }: { escalation: string; source: string; detail: string },
  withinMs: number,
): Promise<boolean> {
  const row = await q.one(
    "SELECT 1 FROM sources WHERE escalation = $1 AND source = $2 AND detail = $3 AND noticed_at > now_ms() - $4 LIMIT 1",
    escalation,
    source,
    detail,
    withinMs,
  );
  return row !== undefined;
}

export interface SourceRow {
  readonly source: string;
  readonly detail: string | null;
  readonly noticed_at: number;
}

/** Returns the triggers of each escalation in the order of their recording. */
export async function sourcesOf(
  q: Query,
  escalations: Iterable<string>,
): Promise<ReadonlyMap<string, readonly SourceRow[]>> {
  const rows = await q.all<SourceRow & { readonly escalation: string }>(
    `SELECT escalation, source, detail, noticed_at ${fromListed("sources", "escalation")} ORDER BY noticed_at, key`,
    listOf(escalations),
  );
  const byEscalation = Map.groupBy(rows, ({ escalation }) => escalation);
  return new Map(
    [...byEscalation].map(([escalation, own]) => [
      escalation,
      own.map(({ source, detail, noticed_at }) => ({ source, detail, noticed_at })),
    ]),
  );
}
