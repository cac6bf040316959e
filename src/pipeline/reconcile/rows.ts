// Statements of stage reconcile and of the delivery receipts.

import type { Query } from "../../store/driver.ts";
import { type DraftRow, draftColumns, readDraft } from "../../store/tables/drafts.ts";
import { notSent } from "./decide.ts";

/** The newest attempt of a draft. */
export interface LastAttempt {
  readonly number: number;
  /** Epoch milliseconds. */
  readonly started_at: number;
  /** How many earlier attempts the provider was found not to have. */
  readonly absences: number;
}

export async function lastAttempt(q: Query, draft: string): Promise<LastAttempt | null> {
  const row = await q.one<LastAttempt>(
    `SELECT number, started_at, (SELECT COUNT(*) FROM attempts WHERE subject = $1 AND detail = $2) AS absences
     FROM attempts WHERE subject = $1 ORDER BY number DESC LIMIT 1`,
    draft,
    notSent,
  );
  return row ?? null;
}

/** Finds the draft of a delivery receipt by an external id that it was sent under. */
export async function draftBySent(q: Query, channel: string, externalId: string): Promise<DraftRow | null> {
  const row = await q.one<{ draft: string }>(
    "SELECT draft FROM citations WHERE channel = $1 AND external_id = $2 AND draft IS NOT NULL LIMIT 1",
    channel,
    externalId,
  );
  return row ? readDraft(q, row.draft) : null;
}

/** Returns the newest draft that was, or may have been, sent to that address within the last `withinMs`. */
export async function draftByRecipient(
  q: Query,
  channel: string,
  recipient: string,
  withinMs: number,
): Promise<DraftRow | null> {
  const row = await q.one<DraftRow>(
    `SELECT ${draftColumns} FROM drafts WHERE id IN (
         SELECT drafts.id FROM conversations JOIN drafts ON drafts.conversation = conversations.id
         WHERE conversations.channel = $1 AND person = $2
         UNION ALL SELECT id FROM drafts WHERE channel = $1 AND recipient = $2 AND elsewhere = 1)
       AND recipient = $2 AND updated_at > now_ms() - $3 AND state IN ('sent', 'unknown', 'held', 'delivered')
     ORDER BY updated_at DESC LIMIT 1`,
    channel,
    recipient.toLowerCase(),
    withinMs,
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
