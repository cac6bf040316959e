// What was said in a conversation, for people who are told of it.

import type { Query } from "./driver.ts";

export interface Said {
  readonly at: number;
  readonly who: "person" | "agent" | "human";
  readonly text: string;
  /** How many characters of the text were left out at its end. */
  readonly cut?: number;
  /** Somebody else who writes in the customer's thread; none: the customer, or one of us. */
  readonly other?: string | null;
}

/** The newest `limit` things that were said, oldest first, each at most `mostChars` characters long. Notices are not part of
 *  it. */
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

/** What we know of a person on a channel: how often they came, and since when (epoch ms). */
export interface Acquaintance {
  readonly since: number;
  readonly conversations: number;
  /** Escalations about them before that one. */
  readonly escalations: number;
}

/** `number`: of the escalation. */
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

/** Whether a message of the person was routed into that conversation as a turn of that number, or a higher one. */
export async function hasWrittenSince(q: Query, conversation: string, seq: number): Promise<boolean> {
  const row = await q.one(
    "SELECT 1 FROM turns WHERE conversation = $1 AND kind = 'question' AND opening IS NULL AND seq >= $2 LIMIT 1",
    conversation,
    seq,
  );
  return row !== undefined;
}
