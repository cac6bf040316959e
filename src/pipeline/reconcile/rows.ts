// Statements of stage reconcile and of the delivery receipts.

import type { DeliveryEvent } from "bridgehead/contract";
import type { Query } from "../../store/driver.ts";
import { lockLane } from "../../store/lanes.ts";
import { readConversation } from "../../store/tables/conversations.ts";
import { type DraftRow, draftColumns, readDraft } from "../../store/tables/drafts.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";
import { notSent, type ReceiptFacts, recipientsOf, reportsOptOut } from "./decide.ts";

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

/** The draft that a delivery receipt is about. */
interface Match extends Pick<ReceiptFacts, "certain"> {
  readonly draft: DraftRow;
}

/** At most this many addresses of a report without our ids are looked up. */
const mentionLimit = 5;

/** Finds the draft by its key, by an id that it was sent under, or by its recipient; null when there is none. */
export async function findDraft(
  q: Query,
  channel: string,
  { about }: DeliveryEvent,
  bounceMs: number,
): Promise<Match | null> {
  const { key, sent = [], recipient, mentioned = [] } = about;
  if (key) {
    const draft = await readDraft(q, key);
    if (draft?.channel === channel) return { draft, certain: true };
  }
  for (const id of sent) {
    const draft = await draftBySent(q, channel, id);
    if (draft) return { draft, certain: true };
  }
  for (const address of [...(recipient ? [recipient] : []), ...mentioned].slice(0, mentionLimit)) {
    const draft = await draftByRecipient(q, channel, address, bounceMs);
    if (draft) return { draft, certain: false };
  }
  return null;
}

export interface LoadedReceipt extends Match, ReceiptFacts {
  readonly draft: DraftRow;
  /** Our address in the conversation, null for the channel's default. Loaded for an opt-out alone. */
  readonly via: string | null;
}

/** Locks the draft's lane, and loads what decides about the receipt. A send worker may be about to write its outcome; the
 *  lock orders the two transactions. */
export async function lockDraft(
  q: Query,
  { outbound, traits: { platform } }: ChannelRuntime,
  { draft: found, certain }: Match,
  event: DeliveryEvent,
): Promise<LoadedReceipt> {
  await lockLane(q, found.conversation, "out");
  const draft = (await readDraft(q, found.id)) ?? found;
  const { via } = reportsOptOut(event, certain) ? await readConversation(q, draft.conversation) : { via: null };
  return { draft, certain, via, recipients: recipientsOf(outbound, draft), platform };
}
