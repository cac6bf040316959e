// Summary of every channel for health and metrics. Reads open rows only. Every statement has a partial
// index, so the cost does not grow with the history.

import type { Query } from "../driver.ts";
import { cappedEvents } from "../tables/events.ts";
import { wholeChannel } from "../tables/pauses.ts";

type Counts = { readonly [state: string]: number };

export interface ChannelOverview {
  readonly channel: string;
  /** Milliseconds since the last write of the cursor; null when it was never written. */
  readonly cursor_age: number | null;
  /** Milliseconds until the next send attempt, for the longest pause of the channel or one of its
   *  senders; 0 without a pause. */
  readonly paused_for: number;
  readonly paused_reason: string | null;
  /** Number of senders (our addresses) that are paused; a pause of the whole channel is not counted. */
  readonly paused_senders: number;
  /** Number of suppressed addresses. */
  readonly suppressed: number;
  /** By state: stored, held, failed. */
  readonly events: Counts;
  /** Messages that wait for capacity under the channel's cap: from preferred senders (authenticated or
   *  known) and from others. */
  readonly capped: { readonly preferred: number; readonly others: number };
  /** Turns that occupy a lane, by state: waiting, asking, unknown; failed where that blocks the lane. */
  readonly turns: Counts;
  /** By state: ready, failed. */
  readonly replies: Counts;
  /** By state: queued, sending, unknown, held; failed where that blocks the lane. */
  readonly drafts: Counts;
  /** Live calls by state: open, lost. */
  readonly sessions: Counts;
  /** Milliseconds since the oldest unanswered message was accepted; null if none exists. */
  readonly oldest_turn: number | null;
  /** Milliseconds since the oldest message without a sent answer was accepted, whether or not it is due; null if none
   *  waits. Held and failed ones do not count. */
  readonly oldest_waiting: number | null;
  /** Milliseconds by which the most overdue draft is overdue; null when none is due. */
  readonly oldest_draft: number | null;
}

/** Returns one entry for every channel that ever ran, sorted by name. */
export async function overview(q: Query): Promise<ChannelOverview[]> {
  const channels = await q.all<{
    channel: string;
    cursor_age: number | null;
    suppressed: number;
  }>(
    `SELECT id AS channel, now_ms() - cursor_at AS cursor_age,
       (SELECT COUNT(*) FROM suppressions WHERE suppressions.channel = channels.id AND active = 1) AS suppressed
     FROM channels ORDER BY id`,
  );
  const events = await counts(
    q,
    `SELECT channel, state, COUNT(*) AS count FROM events WHERE state = 'stored' GROUP BY channel, state
     UNION ALL
     SELECT channel, state, COUNT(*) AS count FROM events WHERE state IN ('held', 'failed') GROUP BY channel, state`,
  );
  const turns = await counts(
    q,
    "SELECT channel, state, COUNT(*) AS count FROM turns WHERE open = 1 GROUP BY channel, state",
  );
  const replies = await counts(
    q,
    `SELECT channel, state, COUNT(*) AS count FROM replies WHERE state = 'ready' GROUP BY channel, state
     UNION ALL
     SELECT channel, state, COUNT(*) AS count FROM replies WHERE state = 'failed' GROUP BY channel, state`,
  );
  const drafts = await counts(
    q,
    `SELECT channel, state, COUNT(*) AS count FROM drafts WHERE open = 1 AND state <> 'held' GROUP BY channel, state
     UNION ALL
     SELECT channel, state, COUNT(*) AS count FROM drafts WHERE state = 'held' GROUP BY channel, state`,
  );
  const sessions = await counts(
    q,
    "SELECT channel, state, COUNT(*) AS count FROM sessions WHERE state <> 'closed' GROUP BY channel, state",
  );
  const capped = await cappedEvents(q);
  const cappedIn = (channel: string, preferred: 0 | 1) =>
    capped.find((one) => one.channel === channel && one.preferred === preferred)?.count ?? 0;
  const oldestTurn = await ages(
    q,
    `SELECT channel, now_ms() - MIN(received_at) AS age FROM turns
     WHERE open = 1 AND state IN ('waiting', 'asking', 'unknown') GROUP BY channel`,
  );
  const oldestDraft = await ages(
    q,
    `SELECT channel, now_ms() - MIN(due_at) AS age FROM drafts
     WHERE open = 1 AND state IN ('queued', 'sending', 'unknown') AND due_at <= now_ms() GROUP BY channel`,
  );
  const oldestWaiting = await ages(
    q,
    `SELECT channel, now_ms() - MIN(at) AS age FROM (
       SELECT channel, received_at AS at FROM events WHERE state = 'stored' AND kind = 'message'
       UNION ALL
       SELECT channel, received_at FROM turns WHERE open = 1 AND state IN ('waiting', 'asking', 'unknown') AND kind = 'question'
       UNION ALL
       SELECT drafts.channel, turns.received_at FROM drafts JOIN replies ON replies.id = drafts.reply
         JOIN turns ON turns.id = replies.turn WHERE drafts.open = 1 AND drafts.state IN ('queued', 'sending', 'unknown')
     ) AS waiting GROUP BY channel`,
  );
  const pauses = await q.all<{ channel: string; sender: string; remaining: number; reason: string }>(
    "SELECT channel, sender, until - now_ms() AS remaining, reason FROM send_pauses WHERE until > now_ms() ORDER BY until DESC",
  );
  return channels.map(({ channel, ...rest }) => ({
    ...rest,
    channel,
    ...pausedIn(pauses.filter((pause) => pause.channel === channel)),
    events: events.get(channel) ?? {},
    capped: { preferred: cappedIn(channel, 1), others: cappedIn(channel, 0) },
    turns: turns.get(channel) ?? {},
    replies: replies.get(channel) ?? {},
    drafts: drafts.get(channel) ?? {},
    sessions: sessions.get(channel) ?? {},
    oldest_turn: oldestTurn.get(channel) ?? null,
    oldest_draft: oldestDraft.get(channel) ?? null,
    oldest_waiting: oldestWaiting.get(channel) ?? null,
  }));
}

/** Expects the pauses sorted by remaining time, longest first. */
function pausedIn(pauses: readonly { sender: string; remaining: number; reason: string }[]) {
  const [longest] = pauses;
  return {
    paused_for: longest?.remaining ?? 0,
    paused_reason: longest?.reason ?? null,
    paused_senders: pauses.filter(({ sender }) => sender !== wholeChannel).length,
  };
}

async function counts(q: Query, sql: string): Promise<Map<string, Counts>> {
  const found = new Map<string, Counts>();
  for (const { channel, state, count } of await q.all<{ channel: string; state: string; count: number }>(
    sql,
  )) {
    found.set(channel, { ...found.get(channel), [state]: count });
  }
  return found;
}

async function ages(q: Query, sql: string): Promise<Map<string, number>> {
  const rows = await q.all<{ channel: string; age: number }>(sql);
  return new Map(rows.map(({ channel, age }) => [channel, age]));
}

/** Changes one value, for /readyz; throws when the store is not writable. (SQLite skips the write of an
 *  UPDATE without a change.) */
export async function proveWritable(q: Query): Promise<void> {
  await q.write(
    "INSERT INTO meta (name, value) VALUES ('proof', 1) ON CONFLICT (name) DO UPDATE SET value = meta.value + 1",
  );
}

/** Returns the size of the database in bytes. */
export async function storeSize(q: Query): Promise<number> {
  const row = await q.one<{ bytes: number }>(
    `SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size() -- only: sqlite
     SELECT pg_database_size(current_database()) AS bytes -- only: postgres`,
  );
  return row?.bytes ?? 0;
}
