// Statements of stage reconcile and of the delivery receipts.

import type { DeliveryEvent } from "bridgehead/contract";
import { isListed, listOf, type Query } from "../../store/driver.ts";
import { lockLane } from "../../store/lanes.ts";
import { type DraftRow, draftColumns } from "../../store/tables/drafts.ts";
import { addressesOf, chooseDraft, type DraftMatch, isEndedByReply, notSent } from "./decide.ts";

/** The newest attempt of a draft. */
export interface LastAttempt {
  readonly number: number;
  /** Epoch milliseconds by the clock of the store. */
  readonly started_at: number;
  /** Milliseconds since then. */
  readonly age: number;
  /** How many earlier attempts the provider was found not to have. */
  readonly absences: number;
}

export async function lastAttempt(q: Query, draft: string): Promise<LastAttempt | null> {
  const row = await q.one<LastAttempt>(
    `SELECT number, started_at, now_ms() - started_at AS age, (SELECT COUNT(*) FROM attempts WHERE subject = $1 AND detail = $2) AS absences
     FROM attempts WHERE subject = $1 ORDER BY number DESC LIMIT 1`,
    draft,
    notSent,
  );
  return row ?? null;
}

/** Returns whether a send attempt of the channel is running now. */
export async function isSending(q: Query, channel: string): Promise<boolean> {
  return (
    (await q.one("SELECT 1 FROM drafts WHERE channel = $1 AND state = 'sending' AND open = 1 LIMIT 1", channel)) !==
    undefined
  );
}

/** A draft with what decides about a delivery receipt. */
export interface ReceiptDraft extends DraftRow {
  /** Our address in the conversation; null for the channel's default. */
  readonly via: string | null;
}

const receiptColumns = `${draftColumns}, (SELECT via FROM conversations WHERE conversations.id = drafts.conversation) AS via`;

/** Finds the drafts that a delivery receipt may be about. `cited`: that of its key, and for each of its ids the newest one
 *  that was sent under it, because message centres use ids again. `addressed`, if none is cited: for each of its addresses
 *  the newest one that was, or may have been, sent there. */
const matching = `WITH cited AS (
    SELECT -1 AS place, id AS draft FROM drafts WHERE id = $2 AND channel = $1
    UNION ALL SELECT listed.key, (
      SELECT MAX(drafts.id) FROM citations CROSS JOIN drafts
      WHERE citations.channel = $1 AND citations.external_id = listed.value AND drafts.id = citations.draft)
    FROM json_each($3) AS listed -- only: sqlite
    FROM json_array_elements_text(CAST($3 AS json)) WITH ORDINALITY AS listed (value, key) -- only: postgres
  ), addressed AS (
    SELECT listed.key AS place, (
      SELECT newest.id FROM drafts AS newest WHERE newest.id IN (
          SELECT drafts.id FROM conversations JOIN drafts ON drafts.conversation = conversations.id
          WHERE conversations.channel = $1 AND person = listed.value
          UNION ALL SELECT id FROM drafts WHERE channel = $1 AND recipient = listed.value AND elsewhere = 1)
        AND newest.recipient = listed.value AND newest.updated_at > now_ms() - $5
        AND newest.state IN ('sent', 'unknown', 'held', 'delivered')
      ORDER BY newest.updated_at DESC LIMIT 1) AS draft
    FROM json_each($4) AS listed -- only: sqlite
    FROM json_array_elements_text(CAST($4 AS json)) WITH ORDINALITY AS listed (value, key) -- only: postgres
    WHERE NOT EXISTS (SELECT 1 FROM cited WHERE draft IS NOT NULL)
  )
  SELECT certain, place, ${receiptColumns}
  FROM (SELECT 1 AS certain, place, draft FROM cited UNION ALL SELECT 0, place, draft FROM addressed) AS found
  CROSS JOIN drafts ON drafts.id = found.draft -- only: sqlite
  CROSS JOIN LATERAL (SELECT * FROM drafts WHERE drafts.id = found.draft OFFSET 0) AS drafts -- only: postgres
`;

/** Loads the drafts that a delivery receipt may be about. Those to its addresses were changed within the last `bounceMs`. */
export const loadMatches = (
  q: Query,
  channel: string,
  about: DeliveryEvent["about"],
  bounceMs: number,
): Promise<(ReceiptDraft & DraftMatch)[]> =>
  q.all(matching, channel, about.key ?? null, listOf(about.sent ?? []), listOf(addressesOf(about)), bounceMs);

/** Returns the one of `loadMatches` that the receipt is about, locked (`lockDraft`); null without one. */
export async function loadMatch(
  q: Query,
  channel: string,
  about: DeliveryEvent["about"],
  bounceMs: number,
): Promise<(ReceiptDraft & Pick<DraftMatch, "certain">) | null> {
  const found = chooseDraft(await loadMatches(q, channel, about, bounceMs));
  return found && { ...(await lockDraft(q, found)), certain: found.certain };
}

const ofListed = `SELECT ${receiptColumns} FROM drafts WHERE ${isListed("drafts.id")}`;

/** Loads the drafts with these ids, by id. */
export async function loadDrafts(q: Query, ids: readonly string[]): Promise<Map<string, ReceiptDraft>> {
  const rows = await q.all<ReceiptDraft>(ofListed, listOf(ids));
  return new Map(rows.map((row) => [row.id, row]));
}

/** Locks the draft's lane, and reads it again. A send worker may be about to write its outcome; the lock orders the two
 *  transactions. */
async function lockDraft(q: Query, draft: ReceiptDraft): Promise<ReceiptDraft> {
  await lockLane(q, draft.conversation, "out");
  return (await loadDrafts(q, [draft.id])).get(draft.id) ?? draft;
}

/** Returns the draft, with its lane locked, when a reply on the channel ends it; else null. */
export const lockEnded = async (q: Query, draft: ReceiptDraft, channel: string): Promise<ReceiptDraft | null> =>
  isEndedByReply(draft, channel) ? lockDraft(q, draft) : null;
