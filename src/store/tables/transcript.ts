// Transcript of a conversation, for the notifications of responders.

import type { Query } from "../driver.ts";

export interface Said {
  readonly at: number;
  readonly who: "person" | "agent" | "human";
  readonly text: string;
  /** Number of characters truncated from the end of the text. */
  readonly cut?: number;
  /** Another sender in the customer's thread; null for the customer, the agent or a human on our side. */
  readonly other?: string | null;
}

/** Returns the newest `limit` messages, oldest first, each truncated to `mostChars` characters. Notices
 *  are excluded. */
export async function transcriptOf(
  q: Query,
  conversation: string,
  limit: number,
  mostChars = 2 ** 30,
): Promise<Said[]> {
  const rows = await q.all<Said & { readonly length: number }>(
    `SELECT at, who, side, other, substr(text, 1, $3) AS text, length(text) AS length FROM (
       SELECT received_at AS at, 'person' AS who, question AS text, 0 AS side,
           CASE WHEN person = (SELECT person FROM conversations WHERE id = $1) THEN NULL ELSE person END AS other FROM turns
         WHERE conversation = $1 AND kind = 'question' AND question <> ''
       UNION ALL
       SELECT created_at AS at, CASE WHEN kind = 'human' THEN 'human' ELSE 'agent' END AS who, text, 1 AS side, NULL AS other FROM replies
         WHERE conversation = $1 AND kind <> 'notice' AND text <> ''
     ) AS said ORDER BY at DESC, side DESC LIMIT $2`,
    conversation,
    limit,
    mostChars,
  );
  return rows
    .reverse()
    .map(({ length, ...said }) => (length > mostChars ? { ...said, cut: length - mostChars } : said));
}

/** History of a person on a channel: number of conversations, and the time of the first one (epoch ms). */
export interface Acquaintance {
  readonly since: number;
  readonly conversations: number;
  /** Number of earlier escalations about the person. */
  readonly escalations: number;
}

/** `number`: the number of the current escalation. */
export async function acquaintanceOf(
  q: Query,
  { channel, person }: { readonly channel: string; readonly person: string },
  number: number,
): Promise<Acquaintance> {
  const row = await q.one<Acquaintance>(
    `SELECT MIN(opened_at) AS since, COUNT(*) AS conversations,
       (SELECT COUNT(*) FROM conversations own JOIN escalations ON escalations.conversation = own.id
        WHERE own.channel = $1 AND own.person = $2 AND escalations.number < $3) AS escalations
     FROM conversations WHERE channel = $1 AND person = $2`,
    channel,
    person,
    number,
  );
  if (!row) throw new Error(`looking for what is known of a person on ${channel}: no answer`);
  return row;
}

/** Returns whether a message of the customer was routed into that conversation as a turn with that
 *  sequence number or a higher one. */
export async function hasWrittenSince(q: Query, conversation: string, seq: number): Promise<boolean> {
  const row = await q.one(
    "SELECT 1 FROM turns WHERE conversation = $1 AND kind = 'question' AND opening IS NULL AND seq >= $2 LIMIT 1",
    conversation,
    seq,
  );
  return row !== undefined;
}
