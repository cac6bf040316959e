// Operator commands for drafts: list, show, resend, drop.

import type { Query } from "../driver.ts";
import { lockLane, refreshLane } from "../lanes.ts";
import { recordAction, someOperator } from "../tables/actions.ts";
import { resent, resumeRest } from "../tables/drafts.ts";
import { moves } from "../transitions.ts";

export interface DraftSummary {
  readonly id: string;
  readonly channel: string;
  readonly conversation: string;
  readonly recipient: string;
  readonly state: string;
  readonly attempts: number;
  /** Why it is held, failed or dropped: a short code. */
  readonly code: string | null;
  readonly reason: string | null;
  readonly external_id: string | null;
  readonly due_at: number;
  readonly created_at: number;
  readonly updated_at: number;
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

/** Columns of `DraftSummary`. */
export const draftColumns =
  "id, channel, conversation, recipient, state, attempts, code, reason, external_id, due_at, created_at, updated_at";

/** Newest first. */
export async function listDrafts(
  q: Query,
  wanted: {
    readonly state?: string;
    readonly channel?: string;
    readonly code?: string;
    /** Only drafts created since then (epoch milliseconds). */
    readonly since?: number;
    readonly limit: number;
  },
): Promise<DraftSummary[]> {
  const order = wanted.state === undefined ? "id DESC" : "updated_at DESC, id DESC";
  return q.all<DraftSummary>(
    `SELECT ${draftColumns} FROM drafts WHERE ${wanted.state === undefined ? "state <> $1" : "state = $1"}
       AND (channel = $2 OR $2 = '') AND created_at >= $3 AND (code = $4 OR $4 = '')
     ORDER BY ${order} LIMIT $5`,
    wanted.state ?? "",
    wanted.channel ?? "",
    wanted.since ?? 0,
    wanted.code ?? "",
    wanted.limit,
  );
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

/** Sends a held, failed or dropped draft (again) with the same idempotency key, before the later drafts
 *  of its conversation. The parts of its reply that were held with it follow.
 *  Throws when the id is unknown, when the draft is in another state, and when retention has erased its
 *  text. */
export async function resendDraft(q: Query, id: string, actor: string = someOperator): Promise<void> {
  await recordAction(q, { action: "resend", actor }, { draft: id });
  const update = moves("drafts", "queued", {
    set: `open = 1, due_at = now_ms(), lookups = 0, tried_at = NULL, released = 1, code = NULL, reason = '${resent}',
       updated_at = now_ms()`,
    where: `id = $1 AND body <> ''
       AND NOT EXISTS (SELECT 1 FROM files WHERE files.reply = drafts.reply AND files.blob IS NULL)`,
    from: ["held", "failed", "dropped"],
  });
  await move(q, id, "resending", [update], (draft) => resumeRest(q, draft));
}

/** Drops a draft that has not certainly been sent, and the parts of its reply that were held with it. It keeps the code
 *  for which it was held. `why` is the operator's reason. Throws when the id is unknown, or when the draft is in another
 *  state. */
export async function dropDraft(
  q: Query,
  id: string,
  actor: string = someOperator,
  why?: string,
): Promise<void> {
  await recordAction(q, { action: "drop", actor, detail: why ?? null }, { draft: id });
  const update = moves("drafts", "dropped", {
    set: "open = 0, reason = $2, updated_at = now_ms()",
    where: "id = $1",
    from: ["queued", "unknown", "held", "failed"],
  });
  const reason = droppedBecause(why);
  await move(q, id, "dropping", [update, reason], ({ reply, seq }) =>
    q.write(dropHeldWith, reply, seq, reason),
  );
}

const dropHeldWith = moves("drafts", "dropped", {
  set: "open = 0, reason = $3, updated_at = now_ms()",
  where: "reply = $1 AND seq > $2 AND code IN ('earlier-part', 'shadow') AND attempts = 0",
  from: ["held"],
});

/** The reason of an item that an operator has dropped. */
export const droppedBecause = (why: string | undefined): string =>
  why === undefined || why === "" ? "dropped by an operator" : `dropped by an operator: ${why}`;

async function move(
  q: Query,
  id: string,
  what: string,
  [update, ...values]: readonly [sql: string, ...values: string[]],
  then: (draft: { readonly reply: string; readonly seq: number }) => Promise<void>,
): Promise<void> {
  const before = await q.one<{ conversation: string; reply: string; seq: number }>(
    "SELECT conversation, reply, seq FROM drafts WHERE id = $1",
    id,
  );
  if (!before) throw new Error(`${what} draft ${id}: there is none (see outbox list)`);
  await lockLane(q, before.conversation, "out");
  const changed = await q.run(update, id, ...values);
  if (changed === 1) {
    await then(before);
    return refreshLane(q, before.conversation, "out");
  }
  const draft = await q.one<{ state: string; body: string; gone: number }>(
    `SELECT state, body, (SELECT COUNT(*) FROM files WHERE files.reply = drafts.reply AND blob IS NULL) AS gone
     FROM drafts WHERE id = $1`,
    id,
  );
  if (draft?.body === "") throw new Error(`${what} draft ${id}: its words were forgotten (retention)`);
  if (draft && draft.gone > 0 && what === "resending")
    throw new Error(`${what} draft ${id}: its files were forgotten (retention)`);
  throw new Error(`${what} draft ${id}: it is ${draft?.state}`);
}
