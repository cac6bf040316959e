// Operator commands for drafts: list, show, resend, drop.

import type { Query } from "../driver.ts";
import { lockLane, refreshLane } from "../lanes.ts";
import { recordAction, someOperator } from "../tables/actions.ts";
import { type DraftRow, listedDrafts, moveDrafts, resent, resumeRest } from "../tables/drafts.ts";
import { isPaused, probeNow } from "../tables/pauses.ts";
import { moves } from "../transitions.ts";

export interface DraftSummary
  extends Pick<DraftRow, "id" | "channel" | "conversation" | "recipient" | "state" | "attempts">,
    Pick<DraftRow, "created_at" | "updated_at"> {
  /** Why it is held, failed or dropped: a short code. */
  readonly code: string | null;
  readonly reason: string | null;
  readonly external_id: string | null;
  readonly due_at: number;
}

export interface AttemptRow {
  readonly number: number;
  readonly kind: "ask" | "send";
  readonly node: string;
  readonly outcome: "sent" | "refused" | "deferred" | "unknown" | null;
  readonly detail: string | null;
  readonly started_at: number;
  readonly ended_at: number | null;
}

export const draftColumns =
  "id, channel, conversation, recipient, state, attempts, code, reason, external_id, due_at, created_at, updated_at";

/** Selects the rows of a list. */
export interface RowFilter {
  readonly channel?: string;
  /** Only newer rows (epoch milliseconds). */
  readonly since?: number;
  readonly limit: number;
}

export interface DraftFilter extends RowFilter {
  readonly state?: string;
  readonly code?: string;
  /** Continues after this draft (its id), with older ones. */
  readonly after?: string;
}

export interface DraftPage {
  readonly drafts: readonly DraftSummary[];
  /** The last draft that was read, when the page is not full and older drafts were not read; else null. */
  readonly readTo: Pick<DraftSummary, "id" | "created_at"> | null;
}

/** Drafts that are read for each one of the page, where no index selects them by their state. */
const readForEach = 100;

/** Lists drafts, newest first: the last changed ones of a state that an index has, and the last created ones of all, or of
 *  those that were sent. Of the latter a page reads a bounded number: an index of sent drafts would cost each message
 *  a page. */
export async function listDrafts(q: Query, wanted: DraftFilter): Promise<DraftPage> {
  const { state, after = null } = wanted;
  const indexed = state === undefined ? null : listedDrafts(state);
  const last = indexed === null ? await lastRead(q, wanted) : null;
  const [rows, order] =
    indexed === null
      ? ["id < $6 AND id >= $7", "id DESC"]
      : [`${indexed} AND (updated_at, id) < ${placeOf("$6")} AND $7 = ''`, "updated_at DESC, id DESC"];
  const drafts = await q.all<DraftSummary>(
    `SELECT ${draftColumns} FROM drafts WHERE ${rows} AND ${state === undefined ? "state <> $1" : "state = $1"}
       AND (channel = $2 OR $2 = '') AND created_at >= $3 AND (code = $4 OR $4 = '')
     ORDER BY ${order} LIMIT $5`,
    state ?? "",
    wanted.channel ?? "",
    wanted.since ?? 0,
    wanted.code ?? "",
    wanted.limit,
    after ?? endOfIds,
    last?.id ?? "",
  );
  const isComplete = drafts.length === wanted.limit || (last?.created_at ?? 0) < (wanted.since ?? 0);
  return { drafts, readTo: isComplete ? null : last };
}

/** After every id, in the order of every collation. */
const endOfIds = "zz";

/** SQL: where the list of a state that an index has continues after a draft. */
const placeOf = (draft: string): string =>
  `(COALESCE((SELECT updated_at FROM drafts WHERE id = ${draft}), ${Number.MAX_SAFE_INTEGER}), ${draft})`;

/** Returns the last of the drafts that a page reads; null when there are fewer. Reads the index of the ids. */
async function lastRead(
  q: Query,
  { after = endOfIds, limit }: DraftFilter,
): Promise<Pick<DraftSummary, "id" | "created_at"> | null> {
  const last = await q.one<Pick<DraftSummary, "id" | "created_at">>(
    "SELECT id, created_at FROM drafts WHERE id < $1 ORDER BY id DESC LIMIT 1 OFFSET $2",
    after,
    readForEach * limit - 1,
  );
  return last ?? null;
}

/** Returns a draft with its content (the adapter's JSON; empty after retention erased it) and its
 *  attempts, oldest first. */
export async function showDraft(
  q: Query,
  id: string,
): Promise<(DraftSummary & { readonly body: string; readonly tries: readonly AttemptRow[] }) | null> {
  const draft = await q.one<DraftSummary & { body: string }>(
    `SELECT ${draftColumns}, body FROM drafts WHERE id = $1`,
    id,
  );
  if (!draft) return null;
  return { ...draft, tries: await attemptsOn(q, id) };
}

/** Returns the attempts on a draft or a turn, oldest first. */
export async function attemptsOn(q: Query, subject: string): Promise<AttemptRow[]> {
  return q.all<AttemptRow>(
    "SELECT number, kind, node, outcome, detail, started_at, ended_at FROM attempts WHERE subject = $1 ORDER BY number",
    subject,
  );
}

/** Sends a held, failed or dropped draft (again) with the same idempotency key, before the later drafts of its
 *  conversation. The parts of its reply that were held or dropped with it follow. Throws when the id is unknown, when the draft is
 *  in another state, and when retention has erased its text. */
export async function resendDraft(q: Query, id: string, actor: string = someOperator): Promise<void> {
  const draft = await lockDraft(q, id, "resending", { action: "resend", actor });
  const update = moves("drafts", "queued", {
    set: `open = 1, due_at = now_ms(), lookups = 0, tried_at = NULL, released = 1, code = NULL, reason = '${resent}',
       updated_at = now_ms()`,
    where: `id = $1 AND body <> ''
       AND NOT EXISTS (SELECT 1 FROM files WHERE files.reply = drafts.reply AND files.blob IS NULL)`,
    from: ["held", "failed", "dropped"],
  });
  if ((await moveDrafts(q, released, update, id)) === 0) throw await refusal(q, id, "resending");
  await resumeRest(q, draft);
  await moveDrafts(q, released, resumeDropped, draft.reply, draft.seq, draft.code ?? "", draft.reason ?? "");
  await refreshLane(q, draft.conversation, "out");
}

/** The later parts that were not sent because of the part, or that were dropped for the same reason: $3 is its code, $4 its
 *  reason. */
const resumeDropped = moves("drafts", "queued", {
  set: "open = 1, released = 1, code = NULL, reason = NULL, due_at = now_ms(), updated_at = now_ms()",
  where: `reply = $1 AND seq > $2 AND attempts = 0 AND body <> ''
       AND (code = 'earlier-part' OR COALESCE(code, '') = $3 AND COALESCE(reason, '') = $4)`,
  from: ["dropped"],
});

const released = { name: "replyReleased" } as const;

/** Sends a draft that waits for its delay, or for its next attempt, with the other parts of its reply. Earlier drafts of
 *  its conversation are sent before it, so they become due as well. A draft that is claimed at this moment is still sent
 *  once, because the lane is leased. Throws when the id is unknown, when the draft is in another state, when an earlier
 *  draft blocks the conversation, and when its channel is paused. */
export async function sendDraftNow(q: Query, id: string, actor: string): Promise<void> {
  const { channel, conversation, reply, seq } = await lockDraft(q, id, "sending", {
    action: "send-now",
    actor,
  });
  const update = moves("drafts", "queued", {
    set: `due_at = now_ms(), released = 1, reason = '${resent}', updated_at = now_ms()`,
    where: `(id = $1 OR reply = $2) AND open = 1
       AND NOT EXISTS (SELECT 1 FROM drafts earlier WHERE ${isBlocking("earlier", "$3", "$4")})
       AND EXISTS (SELECT 1 FROM drafts chosen WHERE chosen.id = $1 AND chosen.state = 'queued')
       AND (internal = 1 OR session IS NOT NULL OR NOT ${isPaused("drafts.channel")})`,
    from: ["queued"],
  });
  if ((await moveDrafts(q, released, update, id, reply, conversation, seq)) === 0)
    throw await refusal(q, id, "sending");
  await q.write(
    `UPDATE drafts SET due_at = now_ms()
     WHERE conversation = $1 AND open = 1 AND seq < $2 AND state = 'queued' AND due_at > now_ms()`,
    conversation,
    seq,
  );
  await probeNow(q, channel);
  await refreshLane(q, conversation, "out");
}

/** SQL: true for an earlier draft that the conversation's outbound lane does not pass. */
const isBlocking = (draft: string, conversation: string, seq: string): string =>
  `${draft}.conversation = ${conversation} AND ${draft}.open = 1 AND ${draft}.seq < ${seq}
     AND ${draft}.state IN ('failed', 'held', 'unknown')`;

/** Drops a draft that has not certainly been sent, and the later parts of its reply; behind a failed part, which blocks its
 *  conversation, they are sent. It keeps the code for which it was held. `why` is the operator's reason. Throws when the id is
 *  unknown, or when the draft is in another state. */
export async function dropDraft(q: Query, id: string, actor: string = someOperator, why?: string): Promise<void> {
  const { conversation, reply, seq } = await lockDraft(q, id, "dropping", {
    action: "drop",
    actor,
    detail: why ?? null,
  });
  const [hop, reason] = [{ name: "dropped", code: operatorCode } as const, droppedBecause(why)];
  const before = await q.one<{ state: string }>("SELECT state FROM drafts WHERE id = $1", id);
  if ((await moveDrafts(q, hop, dropOne, id, reason)) === 0) throw await refusal(q, id, "dropping");
  if (before?.state !== "failed") await moveDrafts(q, hop, dropLaterParts, reply, seq, reason);
  await refreshLane(q, conversation, "out");
}

/** The code in the log and the metrics of what an operator has dropped. */
export const operatorCode = "operator";

const dropOne = moves("drafts", "dropped", {
  set: "open = 0, reason = $2, updated_at = now_ms()",
  where: "id = $1",
  from: ["queued", "unknown", "held", "failed"],
});
const dropLaterParts = moves("drafts", "dropped", {
  set: "open = 0, reason = $3, updated_at = now_ms()",
  where: "reply = $1 AND seq > $2 AND attempts = 0",
  from: ["held", "queued"],
});

const droppedPrefix = "dropped by an operator";

/** The reason of an item that an operator has dropped. */
export const droppedBecause = (why: string | undefined): string =>
  why === undefined || why === "" ? droppedPrefix : `${droppedPrefix}: ${why}`;

/** SQL: true for items that no operator has dropped. */
export const notDropped = `COALESCE(reason, '') NOT LIKE '${droppedPrefix}%'`;

type LockedDraft = Pick<DraftRow, "channel" | "conversation" | "reply" | "seq"> & Pick<DraftSummary, "code" | "reason">;

/** Records the operator's action, and locks the lane of its draft. */
async function lockDraft(
  q: Query,
  id: string,
  what: string,
  action: Parameters<typeof recordAction>[1],
): Promise<LockedDraft> {
  await recordAction(q, action, { draft: id });
  const draft = await q.one<LockedDraft>(
    "SELECT channel, conversation, reply, seq, code, reason FROM drafts WHERE id = $1",
    id,
  );
  if (!draft) throw new Error(`${what} draft ${id}: there is none (see outbox list)`);
  await lockLane(q, draft.conversation, "out");
  return draft;
}

/** Returns why the draft was not changed. */
async function refusal(q: Query, id: string, what: "resending" | "sending" | "dropping"): Promise<Error> {
  const draft = await q.one<{ state: string; body: string; gone: number; earlier: string | null }>(
    `SELECT state, body, (SELECT COUNT(*) FROM files WHERE files.reply = drafts.reply AND blob IS NULL) AS gone,
       (SELECT MIN(earlier.id) FROM drafts earlier WHERE ${isBlocking("earlier", "drafts.conversation", "drafts.seq")}) AS earlier
     FROM drafts WHERE id = $1`,
    id,
  );
  const why =
    draft?.body === ""
      ? "its text was erased (retention)"
      : what === "resending" && draft && draft.gone > 0
        ? "its files were erased (retention)"
        : what === "sending" && draft?.state === "queued"
          ? draft.earlier === null
            ? "its channel is paused (see resume)"
            : `the earlier draft ${draft.earlier} blocks its conversation`
          : `it is ${draft?.state}`;
  return new Error(`${what} draft ${id}: ${why}`);
}
