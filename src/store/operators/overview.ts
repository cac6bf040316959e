// Summary of every channel for health and metrics, and what happened in one hour, for the chart of the console. The summary
// reads open rows only. Every statement has a partial index, so the cost does not grow with the history.

import type { Query } from "../driver.ts";
import { stoppedDrafts } from "../tables/drafts.ts";
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

/** Statements that count rows by channel and state, each part from a partial index alone. */
const countsOf = {
  events: `SELECT channel, 'stored' AS state, COUNT(*) AS count FROM events WHERE state = 'stored' GROUP BY channel
     UNION ALL
     SELECT channel, state, COUNT(*) AS count FROM events WHERE state IN ('held', 'failed') GROUP BY channel, state`,
  turns: "SELECT channel, state, COUNT(*) AS count FROM turns WHERE open = 1 AND state <> '' GROUP BY channel, state",
  replies: `SELECT channel, 'ready' AS state, COUNT(*) AS count FROM replies WHERE state = 'ready' GROUP BY channel
     UNION ALL
     SELECT channel, 'failed' AS state, COUNT(*) AS count FROM replies WHERE state = 'failed' GROUP BY channel`,
  drafts: `SELECT channel, state, COUNT(*) AS count FROM drafts WHERE open = 1 AND state <> 'held' GROUP BY channel, state
     UNION ALL
     SELECT channel, 'held' AS state, COUNT(*) AS count FROM drafts
       INDEXED BY drafts_held -- only: sqlite
       WHERE state = 'held' GROUP BY channel`,
  sessions: "SELECT channel, state, COUNT(*) AS count FROM sessions WHERE state <> 'closed' GROUP BY channel, state",
} as const;

/** Returns SQL for a time of each channel and state (`at`). `first`: a scalar query of the open rows of a channel in one
 *  state, which an index on channel and state answers. */
const firstOf = (states: readonly string[], first: (rows: string) => string): string =>
  states
    .map(
      (state) =>
        `SELECT id AS channel, (${first(`channel = channels.id AND open = 1 AND state = '${state}'`)}) AS at FROM channels`,
    )
    .join("\n     UNION ALL ");

const askedStates = ["waiting", "asking", "unknown"];
const sentStates = ["queued", "sending", "unknown"];
const firstTurn = firstOf(
  askedStates,
  (rows) => `SELECT received_at FROM turns WHERE ${rows} ORDER BY received_at LIMIT 1`,
);
const firstDraft = firstOf(
  sentStates,
  (rows) => `SELECT due_at FROM drafts WHERE ${rows} AND due_at <= now_ms() ORDER BY due_at LIMIT 1`,
);
/** Numbers of messages increase with their arrival, so the first one is the oldest. */
const firstWaiting = [
  ...[0, 1].map(
    (postponed) =>
      `SELECT id AS channel, (SELECT received_at FROM events WHERE channel = channels.id AND state = 'stored'
         AND postponed = ${postponed} AND kind = 'message' ORDER BY id LIMIT 1) AS at FROM channels`,
  ),
  firstOf(
    askedStates,
    (rows) => `SELECT received_at FROM turns WHERE ${rows} AND kind = 'question' ORDER BY received_at LIMIT 1`,
  ),
  // Reads all of them, in the index `drafts_now` alone.
  firstOf(sentStates, (rows) => `SELECT MIN(received_at) FROM drafts WHERE ${rows}`),
].join(" UNION ALL ");

/** Returns one entry for every channel that ever ran, sorted by name. */
export async function overview(q: Query): Promise<ChannelOverview[]> {
  const channels = await q.all<Pick<ChannelOverview, "channel" | "cursor_age" | "suppressed">>(
    `SELECT id AS channel, now_ms() - cursor_at AS cursor_age,
       (SELECT COUNT(*) FROM suppressions WHERE suppressions.channel = channels.id AND active = 1) AS suppressed
     FROM channels ORDER BY id`,
  );
  const events = await counts(q, countsOf.events);
  const turns = await counts(q, countsOf.turns);
  const replies = await counts(q, countsOf.replies);
  const drafts = await counts(q, countsOf.drafts);
  const sessions = await counts(q, countsOf.sessions);
  const capped = await cappedEvents(q);
  const cappedIn = (channel: string, preferred: 0 | 1) =>
    capped.find((one) => one.channel === channel && one.preferred === preferred)?.count ?? 0;
  const oldestTurn = await ages(q, firstTurn);
  const oldestDraft = await ages(q, firstDraft);
  const oldestWaiting = await ages(q, firstWaiting);
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
  for (const { channel, state, count } of await q.all<{ channel: string; state: string; count: number }>(sql)) {
    found.set(channel, { ...found.get(channel), [state]: count });
  }
  return found;
}

/** Runs a query of times by channel (`at`). Returns how long ago the first one of each channel was. */
async function ages(q: Query, times: string): Promise<Map<string, number>> {
  const rows = await q.all<{ channel: string; age: number | null }>(
    `SELECT channel, now_ms() - MIN(at) AS age FROM (${times}) AS times GROUP BY channel`,
  );
  return new Map(rows.flatMap(({ channel, age }) => (age === null ? [] : [[channel, age]])));
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

export interface HourCounts {
  /** Messages that arrived in the hour. */
  readonly received: number;
  /** Of these, the questions that the agent has answered. Messages that were answered together count once. */
  readonly answered: number;
  /** Messages of the hour that are never answered, each with a reason. */
  readonly refused: number;
  /** Messages of the hour, and replies put on hold in it, that wait for an operator or have failed. */
  readonly held: number;
  /** The arrival of the last message of each channel, epoch milliseconds. */
  readonly last: ReadonlyMap<string, number>;
}

/** Counts from `from` (inclusive) to `until` (exclusive), epoch milliseconds. */
export async function countHour(q: Query, from: number, until: number): Promise<HourCounts> {
  const events = await q.all<{ channel: string; state: string; count: number; last: number }>(
    `SELECT events.channel, events.state, COUNT(*) AS count, MAX(received_at) AS last FROM channels CROSS JOIN events
     WHERE events.channel = channels.id AND body <> '{}' AND received_at >= $1 AND received_at < $2
       AND events.kind = 'message' GROUP BY events.channel, events.state`,
    from,
    until,
  );
  const turns = await q.one<{ count: number }>(
    `SELECT COUNT(*) AS count FROM channels CROSS JOIN turns
     WHERE turns.channel = channels.id AND question <> '' AND received_at >= $1 AND received_at < $2
       AND turns.kind = 'question' AND turns.state = 'answered'`,
    from,
    until,
  );
  const drafts = await q.one<{ count: number }>(
    `SELECT COUNT(*) AS count FROM drafts WHERE ${stoppedDrafts} AND state = 'held' AND updated_at >= $1 AND updated_at < $2`,
    from,
    until,
  );
  const inState = (...states: readonly string[]) =>
    events.reduce((sum, { state, count }) => (states.includes(state) ? sum + count : sum), 0);
  const last = new Map<string, number>();
  for (const { channel, last: at } of events) last.set(channel, Math.max(at, last.get(channel) ?? 0));
  return {
    received: inState("stored", "routed", "ignored", "held", "failed"),
    answered: turns?.count ?? 0,
    refused: inState("ignored"),
    held: inState("held", "failed") + (drafts?.count ?? 0),
    last,
  };
}

/** Returns when the last question of each channel was made, epoch milliseconds: the last message of a channel that
 *  received none for a day. */
export async function lastQuestions(q: Query): Promise<ReadonlyMap<string, number>> {
  const rows = await q.all<{ channel: string; last: number | null }>(
    `SELECT id AS channel, (SELECT MAX(made_at) FROM turns WHERE turns.channel = channels.id) AS last FROM channels`,
  );
  return new Map(rows.flatMap(({ channel, last }) => (last === null ? [] : [[channel, last] as const])));
}
