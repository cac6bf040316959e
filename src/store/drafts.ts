// Stages compose, send and settle: replies, drafts in their lanes, what became of them.

import type { Query } from "./driver.ts";
import { type Lease, nextSeq, refreshLane } from "./lanes.ts";
import { channelsIn } from "./stepping.ts";

export interface ReplyRow {
  readonly id: string;
  readonly conversation: string;
  readonly channel: string;
  readonly turn: string | null;
  /** `human`: a person's words, in place of the agent's. */
  readonly kind: "answer" | "opening" | "notice" | "human";
  /** 1: after it a call goes to a human. */
  readonly hand_over: number;
  /** Of what answers no turn: its address (JSON). Null for the turn's. */
  readonly address: string | null;
  readonly text: string;
  /** What the adapter's `prepare` made of the text (JSON), until the reply is composed; null when there is none. */
  readonly rendered: string | null;
  readonly created_at: number;
}

export async function insertReply(
  q: Query,
  reply: {
    id: string;
    conversation: string;
    channel: string;
    turn: string | null;
    text: string;
    platformId: string | null;
    /** Default: an answer. */
    kind?: ReplyRow["kind"];
    /** Default: the turn's. */
    address?: string;
    /** After it a call goes to a human. */
    handOver?: boolean;
    /** JSON. Default: none. */
    rendered?: string | null;
    /** `composed`: it was sent by a state of the store that was lost. Default: ready, to be composed and sent. */
    state?: "ready" | "composed";
  },
): Promise<void> {
  await q.run(
    `INSERT INTO replies (id, conversation, channel, turn, state, text, platform_id, kind, address, hand_over, rendered, created_at)
     VALUES ($1, $2, $3, $4, $11, $5, $6, $7, $8, $9, $10, now_ms())`,
    reply.id,
    reply.conversation,
    reply.channel,
    reply.turn,
    reply.text,
    reply.platformId,
    reply.kind ?? "answer",
    reply.address ?? null,
    reply.handOver ? 1 : 0,
    reply.rendered ?? null,
    reply.state ?? "ready",
  );
  q.touched.add("replies");
}

/** Words of the channel's own that were said in the conversation within the last `withinMs`. */
export async function countNotices(q: Query, conversation: string, withinMs: number): Promise<number> {
  const row = await q.one<{ count: number }>(
    "SELECT COUNT(*) AS count FROM replies WHERE conversation = $1 AND kind = 'notice' AND created_at > now_ms() - $2",
    conversation,
    withinMs,
  );
  return row?.count ?? 0;
}

/** Whether that very notice was written within the last `withinMs`: in the conversation, or in any other that the person
 *  (lower case) has on the channel, as each mail can begin one. */
export async function hasNotice(
  q: Query,
  told: { readonly channel: string; readonly conversation: string; readonly person: string },
  text: string,
  withinMs: number,
): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM replies
     WHERE conversation IN (SELECT $1 UNION ALL SELECT id FROM conversations WHERE channel = $2 AND person = $3)
       AND kind = 'notice' AND text = $4 AND created_at > now_ms() - $5 LIMIT 1`,
    told.conversation,
    told.channel,
    told.person,
    text,
    withinMs,
  );
  return row !== undefined;
}

export async function channelsToCompose(q: Query): Promise<string[]> {
  const rows = await q.all<{ channel: string }>(channelsIn("replies", "state = 'ready'"));
  return rows.map((row) => row.channel);
}

/** A channel's replies to compose, oldest first. Locked for this transaction. */
export async function readyReplies(q: Query, channel: string, limit: number): Promise<ReplyRow[]> {
  return q.all<ReplyRow>(
    `SELECT id, conversation, channel, turn, kind, hand_over, address, text, rendered, created_at FROM replies
     WHERE state = 'ready' AND channel = $1 ORDER BY id LIMIT $2
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    channel,
    limit,
  );
}

export async function changeReply(q: Query, id: string, state: string, reason: string | null): Promise<void> {
  await q.run("UPDATE replies SET state = $2, reason = $3, rendered = NULL WHERE id = $1", id, state, reason);
}

/** Whether the agent has said something in the conversation before (then no introduction is due). */
export async function hasEarlierReply(q: Query, conversation: string, reply: string): Promise<boolean> {
  return (
    (await q.one(
      `SELECT 1 FROM drafts JOIN replies ON replies.id = drafts.reply
       WHERE drafts.conversation = $1 AND drafts.reply <> $2 AND replies.kind <> 'notice' LIMIT 1`,
      conversation,
      reply,
    )) !== undefined
  );
}

export interface DraftRow {
  readonly id: string;
  readonly conversation: string;
  readonly channel: string;
  readonly reply: string;
  readonly recipient: string;
  /** The live session it is said in, or null. */
  readonly session: string | null;
  /** 1 when it goes out past a suppression. */
  readonly forced: number;
  readonly seq: number;
  readonly state: string;
  readonly body: string;
  readonly attempts: number;
  readonly looks: number;
  /** Milliseconds that an unknown outcome is still looked into; null when it is not unknown. */
  readonly settle_left: number | null;
  /** Milliseconds since the first attempt of this round; null before it. A resend begins a new round. */
  readonly trying_for: number | null;
  /** Milliseconds until it may be sent; zero or less when it is due. */
  readonly due_in: number;
  readonly created_at: number;
  readonly updated_at: number;
}

const columns =
  "id, conversation, channel, reply, recipient, session, forced, seq, state, body, attempts, looks, settle_until - now_ms() AS settle_left, now_ms() - tried_at AS trying_for, due_at - now_ms() AS due_in, created_at, updated_at";

/** Lower than any other number of a lane, and still in their own order. */
const ahead = 2 ** 40;

/** Puts a draft at the end of its conversation's outbound lane; a forced one before all that waits there, which may be
 *  another hour's. */
export async function enqueueDraft(
  q: Query,
  draft: {
    id: string;
    conversation: string;
    channel: string;
    reply: string;
    recipient: string;
    body: string;
    dueAt: number;
    forced?: boolean;
    session?: string | null;
  },
): Promise<void> {
  const seq = await nextSeq(q, draft.conversation, "out");
  await q.run(
    `INSERT INTO drafts (id, conversation, channel, reply, recipient, seq, state, open, body, due_at, forced, session, created_at, updated_at)
     VALUES ($1, $2, $3, $4, $5, $6, 'queued', 1, $7, CASE WHEN $8 > now_ms() THEN $8 ELSE now_ms() END, $9, $10, now_ms(), now_ms())`,
    draft.id,
    draft.conversation,
    draft.channel,
    draft.reply,
    draft.recipient,
    draft.forced ? seq - ahead : seq,
    draft.body,
    draft.dueAt,
    draft.forced ? 1 : 0,
    draft.session ?? null,
  );
  await refreshLane(q, draft.conversation, "out");
}

export async function headDraft(q: Query, lease: Lease): Promise<DraftRow | null> {
  const row = await q.one<DraftRow>(
    `SELECT ${columns} FROM drafts WHERE conversation = $1 AND open = 1 ORDER BY seq LIMIT 1`,
    lease.conversation,
  );
  return row ?? null;
}

/** Writes down the attempt before it is made; an earlier attempt's window of looking ends with it. */
export async function recordSending(q: Query, draft: DraftRow, node: string, token: number): Promise<void> {
  await q.run(
    "INSERT INTO attempts (subject, number, kind, node, token, started_at) VALUES ($1, $2, 'send', $3, $4, now_ms())",
    draft.id,
    draft.attempts + 1,
    node,
    token,
  );
  await q.run(
    "UPDATE drafts SET state = 'sending', attempts = attempts + 1, settle_until = NULL, tried_at = COALESCE(tried_at, now_ms()), updated_at = now_ms() WHERE id = $1",
    draft.id,
  );
}

export interface DraftChange {
  readonly state: string;
  /** 1 while the draft occupies the head of its lane. */
  readonly open: 0 | 1;
  readonly dueInMs?: number;
  readonly reason?: string | null;
  readonly externalId?: string | null;
  readonly looks?: number;
  /** How long an unknown outcome is looked into; kept when absent. */
  readonly settleForMs?: number | null;
}

export async function changeDraft(q: Query, id: string, change: DraftChange): Promise<void> {
  await q.run(
    `UPDATE drafts SET state = $2, open = $3, due_at = now_ms() + $4, reason = $5, external_id = COALESCE($6, external_id),
       looks = $7, settle_until = COALESCE(now_ms() + $8, settle_until), updated_at = now_ms() WHERE id = $1`,
    id,
    change.state,
    change.open,
    Math.ceil(change.dueInMs ?? 0),
    change.reason ?? null,
    change.externalId ?? null,
    change.looks ?? 0,
    change.settleForMs ?? null,
  );
}

/** When the newest attempt on it began. */
export async function lastAttempt(
  q: Query,
  draft: string,
): Promise<{ number: number; started_at: number } | null> {
  const row = await q.one<{ number: number; started_at: number }>(
    "SELECT number, started_at FROM attempts WHERE subject = $1 ORDER BY number DESC LIMIT 1",
    draft,
  );
  return row ?? null;
}

/** The reason of a draft that an operator sends: what the person wrote meanwhile is no news to the operator. */
export const resent = "sent again by an operator";

/** What stage send needs to know about the question a draft answers: has the person written again since? Never true for
 *  what answers no question, for the rest of a reply that has begun to go out, and for what an operator sends. */
export async function isSuperseded(q: Query, draft: DraftRow): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM turns later JOIN turns own ON own.conversation = later.conversation AND later.seq > own.seq
     JOIN replies ON replies.turn = own.id WHERE replies.id = $1 AND replies.kind = 'answer' AND later.opening IS NULL AND later.kind = 'question'
       AND NOT EXISTS (SELECT 1 FROM drafts WHERE reply = $1 AND (CASE WHEN id = $2 THEN COALESCE(reason, '') = '${resent}'
         ELSE state IN ('sending', 'unknown', 'sent', 'delivered') END))`,
    draft.reply,
    draft.id,
  );
  return row !== undefined;
}

export async function readDraft(q: Query, id: string): Promise<DraftRow | null> {
  return (await q.one<DraftRow>(`SELECT ${columns} FROM drafts WHERE id = $1`, id)) ?? null;
}

/** The draft a receipt is about: by an id it was sent under. */
export async function draftBySent(q: Query, channel: string, externalId: string): Promise<DraftRow | null> {
  const row = await q.one<{ draft: string }>(
    "SELECT draft FROM citations WHERE channel = $1 AND external_id = $2 AND draft IS NOT NULL LIMIT 1",
    channel,
    externalId,
  );
  return row ? readDraft(q, row.draft) : null;
}

/** The newest draft that went, or may have gone, to that address within the last `withinMs`. */
export async function draftByRecipient(
  q: Query,
  channel: string,
  recipient: string,
  withinMs: number,
): Promise<DraftRow | null> {
  const row = await q.one<DraftRow>(
    `SELECT ${columns} FROM drafts WHERE channel = $1 AND recipient = $2 AND updated_at > now_ms() - $3
       AND state IN ('sent', 'unknown', 'held', 'delivered') ORDER BY updated_at DESC LIMIT 1`,
    channel,
    recipient.toLowerCase(),
    withinMs,
  );
  return row ?? null;
}

/** Whether the provider is being asked to take something this instant. */
export async function isSending(q: Query, channel: string): Promise<boolean> {
  return (
    (await q.one(
      "SELECT 1 FROM drafts WHERE channel = $1 AND state = 'sending' AND open = 1 LIMIT 1",
      channel,
    )) !== undefined
  );
}
