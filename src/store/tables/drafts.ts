// Replies, and drafts in their lanes: statements that several stages and commands share. Each part of a reply with several
// drafts is sent only after the previous one was accepted.

import type { Address, NoticeAddress } from "../../domain/turn.ts";
import type { Hop, HopName } from "../../ops/hops.ts";
import { isRecent, ManyRows, notAhead, type Query, touch, type Value } from "../driver.ts";
import { appendDue, appendedSeq, appendToLane, nextSeq, refreshLane } from "../lanes.ts";
import { type InitialStateOf, moves, movesToAny, type StateOf, TransitionRefused } from "../transitions.ts";

export interface ReplyRow {
  readonly id: string;
  readonly conversation: string;
  readonly channel: string;
  readonly turn: string | null;
  /** `human`: text written by a human instead of the agent. */
  readonly kind: "answer" | "opening" | "notice" | "human";
  /** 1: a call is transferred to a human after this reply. */
  readonly transfer: number;
  /** 1: for a responder or an address of `notify`. */
  readonly internal: number;
  /** Address (JSON) of a reply without a turn. Null: the address of the turn. */
  readonly address: string | null;
  readonly text: string;
  /** Why its drafts are held; null when they are sent. */
  readonly reason: string | null;
  /** Result of the adapter's `prepare` (JSON), kept until the reply is composed; null without one. */
  readonly rendered: string | null;
  readonly created_at: number;
}

const replyRows = new ManyRows(
  `INSERT INTO replies (id, conversation, channel, turn, state, text, platform_id, kind, address, transfer, rendered,
     internal, created_at) VALUES`,
  `(:id, :conversation, :channel, :turn, :state, :text, :platformId, :kind, :address, :transfer, :rendered,
     :internal, now_ms())`,
);

export async function insertReply(
  q: Query,
  reply: {
    id: string;
    conversation: string;
    channel: string;
    turn: string | null;
    text: string;
    platformId: string | null;
    /** Default: `answer`. */
    kind?: ReplyRow["kind"];
    /** Default: the address of the turn. */
    address?: string;
    /** Transfers a call to a human after this reply. */
    transfer?: boolean;
    /** JSON. Default: null. */
    rendered?: string | null;
    /** `composed`: already sent by a lost state of the store. Default: `ready`, to be composed and sent. */
    state?: InitialStateOf<"replies">;
  },
): Promise<void> {
  const row = { kind: "answer", state: "ready", ...reply, transfer: reply.transfer ? 1 : 0, internal: 0 };
  await replyRows.write(q, [row]);
  if (row.state === "ready") touch(q, "replies", reply.channel);
}

/** A reply of the channel itself: sent unchanged, without signature, introduction or delay. */
export interface Notice {
  readonly channel: string;
  readonly conversation: string;
  readonly address: Address;
  readonly text: string;
  /** Sent despite a suppression, and before other queued drafts of the conversation. */
  readonly forced: boolean;
  /** For a responder or an address of `notify`: sent also while the channel is paused or in shadow mode. */
  readonly internal: boolean;
}

export interface NewNotice extends Notice {
  readonly id: string;
  /** It is stored unless the person (lower case) got the same text within the last `withinMs`, in this conversation or
   *  in another one on the channel: each email can start a new one. Default: it is stored. */
  readonly once?: { readonly person: string; readonly withinMs: number };
}

/** Inserts notices to be composed and sent. Those of one conversation are sent in the order of their ids. */
export async function insertNotices(q: Query, notices: readonly NewNotice[]): Promise<void> {
  const rows = notices.map(({ address, forced, internal, ...one }) => ({
    ...one,
    state: "ready",
    kind: "notice",
    address: JSON.stringify({ ...address, forced } satisfies NoticeAddress),
    transfer: 0,
    internal: internal ? 1 : 0,
  }));
  await replyRows.write(
    q,
    rows.filter(({ once }) => once === undefined),
  );
  for (const { once, id, conversation, channel, text, address, internal } of rows)
    if (once) await q.write(noticeOnce, id, conversation, channel, text, address, internal, once.person, once.withinMs);
  for (const { channel } of notices) touch(q, "replies", channel);
}
const noticeOnce = `INSERT INTO replies (id, conversation, channel, state, kind, text, address, transfer, internal, created_at)
  SELECT CAST($1 AS TEXT), CAST($2 AS TEXT), CAST($3 AS TEXT), 'ready', 'notice', CAST($4 AS TEXT), CAST($5 AS TEXT), 0,
    CAST($6 AS BIGINT), now_ms()
  WHERE NOT EXISTS (
    SELECT 1 FROM replies
    WHERE conversation IN (SELECT CAST($2 AS TEXT) UNION ALL SELECT id FROM conversations WHERE channel = $3 AND person = $7)
      AND kind = 'notice' AND text = $4 AND created_at > now_ms() - $8)`;

/** Counts the channel's own notices in the conversation within the last `withinMs`. */
export async function countNotices(q: Query, conversation: string, withinMs: number): Promise<number> {
  const row = await q.one<{ count: number }>(
    `SELECT COUNT(*) AS count FROM replies WHERE conversation = $1 AND kind = 'notice' AND ${isRecent("created_at", "$2")}`,
    conversation,
    withinMs,
  );
  return row?.count ?? 0;
}

/** Returns a channel's replies to compose, oldest first. Locked for this transaction. */
export async function readyReplies(q: Query, channel: string, limit: number): Promise<ReplyRow[]> {
  return q.all<ReplyRow>(
    `SELECT id, conversation, channel, turn, kind, transfer, internal, address, text, reason, rendered,
       ${notAhead("created_at")} AS created_at FROM replies
     WHERE state = 'ready' AND channel = $1 ORDER BY id LIMIT $2
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    channel,
    limit,
  );
}

/** Throws TransitionRefused. */
export async function changeReply(
  q: Query,
  id: string,
  state: "composed" | "failed",
  reason: string | null,
): Promise<void> {
  await q.writeOne(() => new TransitionRefused("replies", id, state), replyMoves[state], id, reason);
}
const replyMoves = movesToAny("replies", { set: "reason = $2, rendered = NULL", where: "id = $1" });

/** Returns whether the agent, or a human, has already replied in the conversation; then no introduction is needed. Only
 *  composed replies count, so the reply that is being composed does not. Reads the index by conversation alone, whose page
 *  the new reply changes, too: the earlier drafts and replies of a returning customer are on pages of their own. */
export async function hasEarlierReply(q: Query, conversation: string): Promise<boolean> {
  return (
    (await q.one(
      `SELECT 1 FROM replies WHERE conversation = $1 AND kind IN ('answer', 'human', 'opening') AND state = 'composed' LIMIT 1`,
      conversation,
    )) !== undefined
  );
}

export interface DraftRow {
  readonly id: string;
  readonly conversation: string;
  readonly channel: string;
  readonly reply: string;
  readonly recipient: string;
  /** The messages that it answers, for the log (`Hop.trace`). */
  readonly trace: string;
  /** Milliseconds since the message that it answers was accepted; null when it answers none. */
  readonly age: number | null;
  /** The live session (call) that the draft is spoken in, or null. */
  readonly session: string | null;
  /** 1 when it is sent in spite of a suppression. */
  readonly forced: number;
  /** 1: for a responder or an address of `notify`; it is sent while the channel is paused or in shadow mode. */
  readonly internal: number;
  /** 1 when an operator has released it or sends it now: shadow mode and the age limit do not apply. */
  readonly released: number;
  readonly seq: number;
  readonly state: string;
  readonly body: string;
  readonly attempts: number;
  readonly lookups: number;
  /** Milliseconds left to reconcile an unknown outcome; null when the outcome is not unknown. */
  readonly reconcile_left: number | null;
  /** Milliseconds since the first attempt of this round; null before that attempt. A resend starts a new round. */
  readonly trying_for: number | null;
  /** Milliseconds until the draft may be sent; zero or less when it is due. */
  readonly due_in: number;
  readonly created_at: number;
  readonly updated_at: number;
}

export const draftColumns = `drafts.id, drafts.conversation, drafts.channel, reply, recipient, drafts.trace, session, forced, internal, released, seq, state, body, attempts, lookups,
   reconcile_until - now_ms() AS reconcile_left, now_ms() - tried_at AS trying_for, drafts.due_at - now_ms() AS due_in,
   created_at, updated_at, now_ms() - drafts.received_at AS age`;

/** Subtracted from the sequence number of drafts that go before the others. The result is lower than all regular
 *  numbers of a lane and keeps the order among them. */
const ahead = 2 ** 40;

export interface NewDraft
  extends Pick<DraftRow, "id" | "conversation" | "channel" | "reply" | "recipient">,
    Partial<Pick<DraftRow, "session">> {
  /** See `DraftRow.trace`. Default: empty. */
  readonly trace?: string;
  /** The adapter's draft (JSON). */
  readonly body: string;
  /** Epoch milliseconds by the database's clock. */
  readonly dueAt: number;
  /** True when `dueAt` has certainly passed. */
  readonly isDue?: boolean;
  readonly forced?: boolean;
  readonly internal?: boolean;
}

/** Enqueues a draft at the end of its conversation's outbound lane. Forced drafts and drafts to responders go before
 *  all drafts that wait there, because those may be scheduled for a later hour or wait for the end of a pause. */
export async function enqueueDraft(q: Query, draft: NewDraft): Promise<void> {
  const { conversation, dueAt } = draft;
  if (!draft.forced && !draft.internal) {
    if (draft.isDue && q.leases === null) return appendDue(q, draft, "out", () => insertDraft(q, draft, null));
    return appendToLane(q, conversation, "out", dueAt, (seq) => insertDraft(q, draft, seq));
  }
  await insertDraft(q, draft, (await nextSeq(q, conversation, "out")) - ahead);
  await refreshLane(q, conversation, "out");
}

const draftRows = new ManyRows(
  `INSERT INTO drafts (id, conversation, channel, reply, recipient, elsewhere, seq, state, open, body, due_at, forced, session,
     trace, internal, created_at, updated_at, received_at) VALUES`,
  `(:id, :conversation, :channel, :reply, :recipient,
     (SELECT CASE WHEN person = :recipient THEN 0 ELSE 1 END FROM conversations WHERE id = :conversation), ${appendedSeq(":seq", ":conversation", "out")}, 'queued', 1, :body,
     CASE WHEN :dueAt > now_ms() THEN :dueAt ELSE now_ms() END, :forced, :session, :trace, :internal, now_ms(), now_ms(),
     (SELECT turns.received_at FROM replies JOIN turns ON turns.id = replies.turn WHERE replies.id = :reply))`,
);

function insertDraft(q: Query, draft: NewDraft, seq: number | null): Promise<void> {
  const [forced, internal] = [draft.forced ? 1 : 0, draft.internal ? 1 : 0];
  return draftRows.write(q, [{ trace: "", ...draft, seq, forced, internal }]);
}

export interface DraftChange {
  readonly state: StateOf<"drafts">;
  /** 1 while the draft occupies the head of its lane. */
  readonly open: 0 | 1;
  readonly dueInMs?: number;
  /** Why it is held, failed or dropped, as a short code that operators select by. Default: none. */
  readonly code?: string | null;
  readonly reason?: string | null;
  readonly externalId?: string | null;
  readonly lookups?: number;
  /** Milliseconds for which an unknown outcome is reconciled; unchanged when absent. */
  readonly reconcileForMs?: number | null;
}

const draftMoves = movesToAny("drafts", {
  set: `open = $2, due_at = now_ms() + $3, reason = $4, external_id = COALESCE($5, external_id),
       lookups = $6, reconcile_until = COALESCE(now_ms() + $7, reconcile_until), code = $9, updated_at = now_ms()`,
  where: "id = $1 AND ($8 = '' OR state = $8)",
});

/** Records that the draft was sent, unless a delivery receipt has ended it. */
export async function endSent(q: Query, id: string, change: DraftChange): Promise<void> {
  await q.write(draftMoves[change.state], ...draftValues(id, change, "sending"));
}

/** Changes the draft. With `from` only while it is in that state. Returns whether it was changed. Throws
 *  TransitionRefused without `from` when the state may not follow the draft's. */
export async function changeDraft(q: Query, id: string, change: DraftChange, from?: string): Promise<boolean> {
  const changed = await q.run(draftMoves[change.state], ...draftValues(id, change, from));
  if (changed !== 1 && from === undefined) throw new TransitionRefused("drafts", id, change.state);
  return changed === 1;
}

const draftValues = (id: string, change: DraftChange, from = ""): Value[] => [
  id,
  change.open,
  change.dueInMs ?? 0,
  change.reason ?? null,
  change.externalId ?? null,
  change.lookups ?? 0,
  change.reconcileForMs ?? null,
  from,
  change.code ?? null,
];

type ReportedDraft = Pick<DraftRow, "id" | "channel" | "conversation" | "session" | "trace" | "age">;

export function reportDraft(q: Query, draft: ReportedDraft, name: HopName, more: Partial<Hop> = {}): void {
  const { id, channel, conversation, session, trace, age: ageMs } = draft;
  q.hop({ channel, trace, conversation, draft: id, session, ageMs, ...more, name });
}

/** Runs an UPDATE of drafts, and reports the hop for each one that it changed. Returns their number. */
export async function moveDrafts(
  q: Query,
  hop: Pick<Hop, "name" | "code">,
  update: string,
  ...values: Value[]
): Promise<number> {
  const changed = await q.all<ReportedDraft>(
    `${update} RETURNING id, channel, conversation, session, trace, now_ms() - received_at AS age`,
    ...values,
  );
  for (const draft of changed) reportDraft(q, draft, hop.name, hop);
  return changed.length;
}

/** Reports a change that ends the draft, or that holds it for an operator; nothing after other changes. */
export function reportEnd(q: Query, draft: DraftRow, { state, code }: Pick<DraftChange, "state" | "code">): void {
  const name = { held: "replyHeld", dropped: "dropped", failed: "replyFailed", sent: "sent" } as const;
  if (state in name) reportDraft(q, draft, name[state as keyof typeof name], { code: code ?? null });
}

/** Returns the condition of drafts in that state which selects an index: the usual path of a draft enters the index of open
 *  drafts alone. Null for sent drafts, of which there are many. */
export function listedDrafts(state: string): string | null {
  if (state === "sent" || state === "delivered") return null;
  return state === "queued" || state === "sending" ? "open = 1" : stoppedDrafts;
}
/** The condition of the index `drafts_listed`. */
export const stoppedDrafts = "state IN ('unknown', 'held', 'failed', 'dropped')";

/** Code of a draft that the policy has held or dropped because its outcome is unknown. */
export const unknownOutcome = "unknown-outcome";
/** Code of a reply that a caller has not heard, because the connection was lost and the call did not come back. */
export const callLost = "call-lost";

/** Returns the recipient of each draft that may have been sent under an unknown id: attempts that run, and those of unknown
 *  outcome that changed after `since` (epoch milliseconds), also when the policy has held or dropped them. */
export async function unconfirmedRecipients(q: Query, channel: string, since: number): Promise<string[]> {
  const rows = await q.all<{ recipient: string }>(
    `SELECT recipient FROM drafts WHERE channel = $1 AND state = 'sending' AND open = 1
     UNION ALL SELECT recipient FROM drafts WHERE ${stoppedDrafts} AND updated_at > $2 AND channel = $1
       AND external_id IS NULL AND (state = 'unknown' OR code = '${unknownOutcome}')`,
    channel,
    since,
  );
  return rows.map(({ recipient }) => recipient);
}

/** Reason of a draft that an operator sends now, or again. A newer message of the customer does not supersede it,
 *  because the operator knows of that message. */
export const resent = "sent by an operator";

export async function readDraft(q: Query, id: string): Promise<DraftRow | null> {
  return (await q.one<DraftRow>(`SELECT ${draftColumns} FROM drafts WHERE id = $1`, id)) ?? null;
}

interface DraftPart {
  readonly reply: string;
  readonly seq: number;
}

/** Ends the later parts of a reply after a part that was not certainly sent: they are dropped, or
 *  held for an operator together with it. Call with the lane's row locked, and refresh the lane. */
export async function endRest(q: Query, { reply, seq }: DraftPart, state: "dropped" | "held"): Promise<void> {
  const reason = { dropped: "an earlier part was not sent", held: "an earlier part may not have gone out" }[state];
  const hop = { name: state === "held" ? "replyHeld" : "dropped", code: "earlier-part" } as const;
  await moveDrafts(q, hop, endings[state], reply, seq, reason);
}
const ended = {
  set: "open = 0, code = 'earlier-part', reason = $3, updated_at = now_ms()",
  where: "reply = $1 AND seq > $2 AND attempts = 0",
};
const endings = {
  dropped: moves("drafts", "dropped", { ...ended, from: ["queued", "held"] }),
  held: moves("drafts", "held", { ...ended, from: ["queued"] }),
};

/** Enqueues the held later parts again when the held part was sent or is about to be. Call with the
 *  lane's row locked, and refresh the lane. */
export async function resumeRest(q: Query, { reply, seq }: DraftPart): Promise<void> {
  await moveDrafts(
    q,
    { name: "replyReleased" },
    moves("drafts", "queued", {
      set: `open = 1, code = NULL, reason = NULL, due_at = now_ms(), updated_at = now_ms(),
         released = (SELECT MAX(released) FROM drafts first WHERE first.reply = $1 AND first.seq = $2)`,
      where: "reply = $1 AND seq > $2 AND attempts = 0",
      from: ["held"],
    }),
    reply,
    seq,
  );
}
