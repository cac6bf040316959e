// What happened in one hour, for the chart of the console. Every statement reads a range of an index, so an hour costs what
// happened in it.

import type { Query } from "../driver.ts";

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
    "SELECT COUNT(*) AS count FROM drafts WHERE state = 'held' AND updated_at >= $1 AND updated_at < $2",
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
