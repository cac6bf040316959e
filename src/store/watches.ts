// What is known of the platform's conversations, and when each is looked at again: its mode, and messages that come from
// elsewhere. A look is taken under the lease of the conversation's inbound lane, so that it never meets a question.

import type { Query } from "./driver.ts";
import { type Lease, lockLane } from "./lanes.ts";
import { channelsIn } from "./stepping.ts";

export interface WatchRow {
  readonly conversation: string;
  readonly channel: string;
  /** As last read; null before the first look. */
  readonly mode: string | null;
  /** The platform's id of the newest message that was looked at; null before the first look. */
  readonly mark: string | null;
  /** How many messages the conversation had up to the mark; 0 reads it from its beginning. `allKnown` does so, too, and
   *  delivers nothing of what is there. */
  readonly position: number;
  /** Looks that failed in a row. */
  readonly looks: number;
}

/** A `position`: the store was restored, so what the conversation says at the next look was delivered before. */
export const allKnown = -1;

/** Later than this is left to the sweep. */
const soonMs = 4000;

/** A look in `ms`, or sooner if one was due sooner. */
export async function watchIn(
  q: Query,
  { id, channel }: { readonly id: string; readonly channel: string },
  ms: number,
): Promise<void> {
  await q.run(
    `INSERT INTO watches (conversation, channel, due_at) VALUES ($1, $2, now_ms() + $3)
     ON CONFLICT (conversation) DO UPDATE SET due_at = CASE
       WHEN watches.due_at IS NULL OR watches.due_at > excluded.due_at THEN excluded.due_at ELSE watches.due_at END`,
    id,
    channel,
    Math.ceil(ms),
  );
  if (ms <= 0) q.touched.add("watches");
  else if (ms < soonMs) q.waits.add(ms);
}

export async function readWatch(q: Query, conversation: string): Promise<WatchRow | null> {
  const row = await q.one<WatchRow>(
    "SELECT conversation, channel, mode, mark, position, looks FROM watches WHERE conversation = $1",
    conversation,
  );
  return row ?? null;
}

export async function channelsToWatch(q: Query): Promise<string[]> {
  const rows = await q.all<{ channel: string }>(
    channelsIn("watches", "due_at IS NOT NULL", "due_at <= now_ms()"),
  );
  return rows.map((row) => row.channel);
}

/** Due looks of a channel, longest due first. */
export async function dueWatches(q: Query, channel: string, limit: number): Promise<WatchRow[]> {
  return q.all<WatchRow>(
    `SELECT conversation, channel, mode, mark, position, looks FROM watches WHERE channel = $1 AND due_at <= now_ms()
     ORDER BY due_at LIMIT $2`,
    channel,
    limit,
  );
}

/** The look, if it is due still and nobody is at it; locked for this transaction. */
export async function dueWatch(q: Query, conversation: string): Promise<WatchRow | null> {
  const row = await q.one<WatchRow>(
    `SELECT conversation, channel, mode, mark, position, looks FROM watches WHERE conversation = $1 AND due_at <= now_ms()
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    conversation,
  );
  return row ?? null;
}

/** The lease of the conversation's inbound lane when nothing works in it, nor waits to (behind a question that failed
 *  and blocks, nothing does); else null. */
export async function leaseIdle(
  q: Query,
  conversation: string,
  holder: string,
  leaseMs: number,
): Promise<Lease | null> {
  await lockLane(q, conversation, "in");
  const row = await q.one<{ id: string; channel: string; token: number }>(
    `UPDATE lanes SET holder = $2, token = token + 1, lease_until = now_ms() + $3
     WHERE id = $1 AND lease_until <= now_ms() AND (holder IS NULL OR holder <> $2) AND (node IS NULL OR node = $2)
       AND COALESCE((SELECT state FROM turns WHERE turns.conversation = lanes.conversation AND turns.open = 1
         ORDER BY seq LIMIT 1), 'failed') = 'failed'
     RETURNING id, channel, token`,
    `${conversation}/in`,
    holder,
    leaseMs,
  );
  return row ? { lane: row.id, conversation, channel: row.channel, token: row.token, sender: "" } : null;
}

/** Not now: again in `ms`. */
export async function postponeWatch(q: Query, conversation: string, ms: number): Promise<void> {
  await q.run(
    "UPDATE watches SET due_at = now_ms() + $2 WHERE conversation = $1",
    conversation,
    Math.ceil(ms),
  );
  if (ms < soonMs) q.waits.add(ms);
}

/** A look begins: due again when it should be over by then, in case nobody hears of it any more. The time (epoch ms), by
 *  which its end knows whether another look was wanted meanwhile. */
export async function beginWatch(q: Query, conversation: string, forMs: number): Promise<number> {
  const row = await q.one<{ due_at: number }>(
    "UPDATE watches SET due_at = now_ms() + $2 WHERE conversation = $1 RETURNING due_at",
    conversation,
    forMs,
  );
  if (!row) throw new Error(`looking at conversation ${conversation}: it is not watched`);
  return row.due_at;
}

/** What a look has found, that began with `until`; `nextMs` null: no other look by itself. Who wanted one meanwhile gets
 *  it: what this one has read may be older. */
export async function noteWatch(
  q: Query,
  conversation: string,
  found: {
    readonly mode: string;
    readonly mark: string | null;
    readonly position: number;
    readonly until: number;
    readonly nextMs: number | null;
    /** Not all that is new could be read. */
    readonly failed: boolean;
  },
): Promise<void> {
  await q.run(
    `UPDATE watches SET mode = $2, mark = COALESCE($3, mark), position = $6,
       looks = CASE WHEN $7 = 1 THEN looks + 1 ELSE 0 END,
       due_at = CASE WHEN due_at < $4 THEN due_at ELSE now_ms() + $5 END WHERE conversation = $1`,
    conversation,
    found.mode,
    found.mark,
    found.until,
    found.nextMs === null ? null : Math.ceil(found.nextMs),
    found.position,
    found.failed ? 1 : 0,
  );
  q.touched.add("watches");
}

export interface Activity {
  /** Milliseconds since the newest turn; null when there is none. */
  readonly quiet: number | null;
  /** Whether an escalation about it is not closed. */
  readonly escalated: number;
}

/** How much goes on in a conversation: how soon it is looked at again. */
export async function activityIn(q: Query, conversation: string): Promise<Activity> {
  const row = await q.one<Activity>(
    `SELECT (SELECT now_ms() - made_at FROM turns WHERE conversation = $1 ORDER BY seq DESC LIMIT 1) AS quiet,
       (SELECT COUNT(*) FROM escalations WHERE about = $2 AND state <> 'closed') AS escalated`,
    conversation,
    `conversation:${conversation}`,
  );
  return row ?? { quiet: null, escalated: 0 };
}

/** Questions of a conversation whose answers nobody wants any more (a call went on), by the platform's ids. */
export async function unwantedQuestions(q: Query, conversation: string): Promise<Set<string>> {
  const rows = await q.all<{ id: string }>(
    "SELECT question_id AS id FROM turns WHERE conversation = $1 AND state = 'dropped' AND question_id IS NOT NULL",
    conversation,
  );
  return new Set(rows.map(({ id }) => id));
}

/** A person's words that were put to the platform in an attempt of which nobody knows for certain what became of it. */
export async function doubtfulWords(q: Query, conversation: string): Promise<string[]> {
  const rows = await q.all<{ text: string }>(
    `SELECT question AS text FROM turns WHERE conversation = $1 AND kind = 'relayed' AND open = 0 AND EXISTS (
       SELECT 1 FROM attempts WHERE subject = turns.id AND outcome IN ('unknown', 'refused'))`,
    conversation,
  );
  return rows.map(({ text }) => text);
}

/** Answered questions of which an earlier attempt left no trace on the platform when it was looked up, so they were asked
 *  once more. */
export async function repeatedQuestions(q: Query, conversation: string): Promise<string[]> {
  const rows = await q.all<{ text: string }>(
    `SELECT question AS text FROM turns WHERE conversation = $1 AND kind = 'question' AND state = 'answered' AND EXISTS (
       SELECT 1 FROM attempts WHERE subject = turns.id AND outcome IN ('unknown', 'refused'))`,
    conversation,
  );
  return rows.map(({ text }) => text);
}

/** The mode as we have just set it: no news when it is read. */
export async function noteMode(
  q: Query,
  { id, channel }: { readonly id: string; readonly channel: string },
  mode: "ai" | "manual",
): Promise<void> {
  await q.run(
    `INSERT INTO watches (conversation, channel, mode) VALUES ($1, $2, $3)
     ON CONFLICT (conversation) DO UPDATE SET mode = excluded.mode`,
    id,
    channel,
    mode,
  );
}

/** What was known is not known of the conversation that the platform has in its place. */
export async function forgetMode(q: Query, conversation: string): Promise<void> {
  await q.run(
    "UPDATE watches SET mode = NULL, mark = NULL, position = 0 WHERE conversation = $1",
    conversation,
  );
}

/** A look that could not be taken. */
export async function failWatch(q: Query, conversation: string, nextMs: number): Promise<void> {
  await q.run(
    "UPDATE watches SET looks = looks + 1, due_at = now_ms() + $2 WHERE conversation = $1",
    conversation,
    Math.ceil(nextMs),
  );
}
