// Transcript of a conversation, for the notifications of responders.

import { asMarkdown } from "bridgehead/contract";
import { fromListed, listOf, type Query } from "../driver.ts";

export interface TranscriptMessage {
  readonly at: number;
  readonly who: "person" | "agent" | "human";
  readonly text: string;
  /** Number of characters truncated from the end of the text. */
  readonly cut?: number;
  /** Another sender in the customer's thread; null for the customer, the agent or a human on our side. */
  readonly other?: string | null;
  /** The customer has no part of it: it was dropped, refused, given up or is held. */
  readonly unsent?: true;
}

/** SQL: 1 for a reply of which no part was sent or will be, unless an operator releases it. */
const isUnsent = `CASE WHEN replies.state = 'failed' OR (SELECT MIN(CASE WHEN drafts.state IN ('held', 'failed', 'dropped') THEN 1 ELSE 0 END)
             FROM drafts WHERE drafts.reply = replies.id) = 1 THEN 1 ELSE 0 END`;

/** Returns the newest messages of each conversation, oldest first: at most `limit`, each truncated to `mostChars`
 *  characters, and no more than the first one that exceeds `mostTotal` characters together. Notices are excluded. */
export async function transcriptsOf(
  q: Query,
  conversations: Iterable<string>,
  limit: number,
  mostChars: number,
  mostTotal: number,
): Promise<ReadonlyMap<string, readonly TranscriptMessage[]>> {
  const rows = await q.all<
    Omit<TranscriptMessage, "unsent"> & {
      readonly conversation: string;
      readonly length: number;
      readonly unsent: number;
    }
  >(
    `SELECT conversation, at, who, other, text, length, unsent FROM (
       SELECT said.*, ROW_NUMBER() OVER newest AS place, SUM(length(text)) OVER newest - length(text) AS newer FROM (
         SELECT turns.conversation, received_at AS at, 'person' AS who, substr(question, 1, $3) AS text,
             length(question) AS length, 0 AS side, CASE WHEN turns.person = (
               SELECT person FROM conversations WHERE conversations.id = turns.conversation
             ) THEN NULL ELSE turns.person END AS other, 0 AS unsent
           ${fromListed("turns", "conversation")} WHERE kind = 'question' AND question <> ''
         UNION ALL
         SELECT replies.conversation, created_at AS at, CASE WHEN kind = 'human' THEN 'human' ELSE 'agent' END AS who,
             substr(text, 1, $3) AS text, length(text) AS length, 1 AS side, NULL AS other, ${isUnsent} AS unsent
           ${fromListed("replies", "conversation")} WHERE kind <> 'notice' AND text <> ''
       ) AS said WINDOW newest AS (PARTITION BY conversation ORDER BY at DESC, side DESC ROWS UNBOUNDED PRECEDING)
     ) AS numbered WHERE place <= $2 AND newer <= $4 ORDER BY conversation, place DESC`,
    listOf(conversations),
    limit,
    mostChars,
    mostTotal,
  );
  const messages = rows.map(({ length, unsent, ...said }) => ({
    ...said,
    text: said.who === "agent" ? asMarkdown(said.text) : said.text,
    ...(length > mostChars && { cut: length - mostChars }),
    ...(unsent === 1 && { unsent: true as const }),
  }));
  return Map.groupBy(messages, ({ conversation }) => conversation);
}

/** History of a person on a channel: number of conversations, and the time of the first one (epoch ms). */
export interface CustomerHistory {
  readonly since: number;
  readonly conversations: number;
  /** Number of earlier escalations about the person. */
  readonly escalations: number;
}

/** Returns the history of the customers of these escalations, by escalation. */
export async function customerHistories(
  q: Query,
  escalations: Iterable<string>,
): Promise<ReadonlyMap<string, CustomerHistory>> {
  const rows = await q.all<CustomerHistory & { readonly id: string }>(
    `SELECT escalations.id,
       (SELECT MIN(opened_at) FROM conversations WHERE channel = own.channel AND person = own.person) AS since,
       (SELECT COUNT(*) FROM conversations WHERE channel = own.channel AND person = own.person) AS conversations,
       (SELECT COUNT(*) FROM conversations JOIN escalations earlier ON earlier.conversation = conversations.id
        WHERE conversations.channel = own.channel AND conversations.person = own.person
          AND earlier.number < escalations.number) AS escalations
     ${fromListed("escalations", "id")}
     JOIN conversations own ON own.id = escalations.conversation -- only: sqlite
     CROSS JOIN LATERAL (SELECT * FROM conversations WHERE id = escalations.conversation OFFSET 0) AS own -- only: postgres
    `,
    listOf(escalations),
  );
  return new Map(rows.map(({ id, ...known }) => [id, known]));
}
