// Messages that wait for capacity under the rate cap of their channel, and the order in which they get it.

import type { Query } from "../driver.ts";
import { cappedCode, type EventRow, eventColumns, exempt } from "./events.ts";

/** Condition for messages that are subject to the cap of the channel. */
const underCap = `kind = 'message' AND COALESCE(code, '') NOT IN ('released', '${exempt}')`;
const dueOrCapped = `(due_at <= now_ms() OR code = '${cappedCode}')`;

/** Returns whether messages of the channel wait for capacity under its cap. */
export async function isCapped(q: Query, channel: string): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM events WHERE channel = $1 AND state = 'stored' AND code = '${cappedCode}' LIMIT 1`,
    channel,
  );
  return row !== undefined;
}

/** Returns the waiting messages of a channel at its cap, in the order in which they get the available
 *  capacity. Preferred senders come first. Then come the senders with the fewest turns in the last
 *  `windowMs`, counting their earlier messages in this queue; ties are resolved by arrival. */
export async function fairEvents(
  q: Query,
  channel: string,
  windowMs: number,
  limit: number,
): Promise<EventRow[]> {
  return q.all<EventRow>(
    `WITH served AS (
       SELECT queue, COUNT(*) AS turns FROM turns
       WHERE channel = $1 AND made_at > now_ms() - $2 AND kind = 'question' GROUP BY queue
     ), waiting AS (
       SELECT ${eventColumns}, ROW_NUMBER() OVER (PARTITION BY preferred, queue ORDER BY id) AS place FROM events
       WHERE channel = $1 AND state = 'stored' AND ${underCap} AND ${dueOrCapped}
     )
     SELECT ${eventColumns.replace("queue", "waiting.queue")} FROM waiting LEFT JOIN served ON served.queue = waiting.queue
     ORDER BY preferred DESC, place + COALESCE(served.turns, 0), id LIMIT $3`,
    channel,
    windowMs,
    limit,
  );
}

/** Returns the first messages that wait under the cap before `id`, from addresses that take part in that
 *  conversation. */
export async function elderEvents(
  q: Query,
  channel: string,
  id: number,
  conversation: string,
): Promise<EventRow[]> {
  return q.all<EventRow>(
    `SELECT ${eventColumns} FROM events WHERE channel = $1 AND state = 'stored' AND id < $2 AND ${underCap} AND ${dueOrCapped}
       AND sender IN (
         SELECT person FROM conversations WHERE id = $3 UNION ALL SELECT address FROM participants WHERE conversation = $3) ORDER BY id LIMIT 32`,
    channel,
    id,
    conversation,
  );
}

/** Counts the messages that wait for capacity under the cap of their channel. */
export async function cappedEvents(
  q: Query,
): Promise<{ readonly channel: string; readonly preferred: 0 | 1; readonly count: number }[]> {
  return q.all(
    `SELECT channel, preferred, COUNT(*) AS count FROM events WHERE state = 'stored' AND code = '${cappedCode}'
     GROUP BY channel, preferred ORDER BY channel, preferred`,
  );
}

/** Postpones the due messages of a channel at its cap by `delayMs`. Exempt messages and messages
 *  released by an operator are not postponed. With `preferred` false only those of other senders are
 *  postponed. */
export async function postponeChannel(
  q: Query,
  channel: string,
  delayMs: number,
  preferred: boolean,
): Promise<void> {
  await q.write(
    `UPDATE events SET due_at = now_ms() + $2, code = '${cappedCode}', reason = 'the channel is at its cap'
     WHERE channel = $1 AND state = 'stored' AND preferred <= $3 AND ${underCap} AND due_at <= now_ms()`,
    channel,
    Math.ceil(delayMs),
    preferred ? 1 : 0,
  );
}
