// Statements of `bridgehead doctor` and of the support bundle. They only read.

import type { Cursor } from "bridgehead/contract";
import type { Query } from "../../store/driver.ts";

/** Messages or replies of a channel that wait for an operator. */
interface WaitingCount {
  readonly channel: string;
  readonly state: "held" | "failed";
  readonly kind: "messages" | "replies";
  readonly count: number;
}

export const countWaiting = (q: Query): Promise<WaitingCount[]> =>
  q.all<WaitingCount>(
    `SELECT channel, state, 'messages' AS kind, COUNT(*) AS count FROM events
     WHERE state IN ('held', 'failed') GROUP BY channel, state
     UNION ALL
     SELECT channel, state, 'replies' AS kind, COUNT(*) AS count FROM drafts WHERE state = 'held' GROUP BY channel, state
     ORDER BY channel, kind`,
  );

export const findCustomer = (q: Query, address: string): Promise<{ channel: string; count: number } | undefined> =>
  q.one<{ channel: string; count: number }>(
    "SELECT channel, COUNT(*) AS count FROM conversations WHERE person = $1 GROUP BY channel ORDER BY channel LIMIT 1",
    address,
  );

/** Returns the channel's cursor; null before its first connection. */
export async function readCursor(q: Query, channel: string): Promise<Cursor | null> {
  const row = await q.one<{ cursor: Cursor | null }>("SELECT cursor FROM channels WHERE id = $1", channel);
  return row?.cursor ?? null;
}

/** Returns rows without addresses, names and texts: only counts, states, codes and times. `codesIn` reduces the reason of
 *  a failure. */
export async function bundleRows(
  q: Query,
  codesIn: (reason: string) => readonly string[],
): Promise<Record<string, unknown>> {
  const count = (table: string, by: string) =>
    q.all(`SELECT ${by}, COUNT(*) AS count FROM ${table} GROUP BY ${by} ORDER BY ${by}`);
  const recent = async (sql: string) =>
    (await q.all<{ readonly reason: string | null }>(sql)).map(({ reason, ...rest }) => ({
      ...rest,
      codes: codesIn(reason ?? ""),
    }));
  return {
    database: await q.one(
      "SELECT sqlite_version() AS version -- only: sqlite\n SELECT version() AS version -- only: postgres",
    ),
    events: await count("events", "channel, kind, state, code"),
    turns: await count("turns", "channel, state"),
    replies: await count("replies", "channel, kind, state"),
    drafts: await count("drafts", "channel, state"),
    escalations: await count("escalations", "channel, state, cause"),
    sessions: await count("sessions", "channel, state"),
    outcomes: await count("attempts", "kind, outcome"),
    suppressions: await count("suppressions", "channel, active"),
    installations: await q.all("SELECT number, cause, since FROM installations ORDER BY number"),
    pauses: await q.all("SELECT channel, cause, failures, until FROM send_pauses"),
    channels: await q.all("SELECT id, since, cursor_at FROM channels"),
    failed_turns: await recent(
      "SELECT id, channel, state, attempts, updated_at, reason FROM turns WHERE reason IS NOT NULL ORDER BY updated_at DESC LIMIT 50",
    ),
    failed_drafts: await recent(
      "SELECT id, channel, state, attempts, updated_at, reason FROM drafts WHERE reason IS NOT NULL ORDER BY updated_at DESC LIMIT 50",
    ),
    attempts: await recent(
      "SELECT kind, number, outcome, started_at, ended_at, detail AS reason FROM attempts WHERE outcome <> 'sent' ORDER BY started_at DESC LIMIT 50",
    ),
  };
}
