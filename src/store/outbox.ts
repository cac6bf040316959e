// Drafts as the operator sees and moves them.

import { changeDraft, type DraftRow, readDraft } from "./drafts.ts";
import type { Query } from "./driver.ts";
import { refreshLane } from "./lanes.ts";

export interface ListedDraft {
  readonly id: string;
  readonly channel: string;
  readonly conversation: string;
  readonly recipient: string;
  readonly state: string;
  readonly attempts: number;
  readonly due_at: number;
  readonly reason: string | null;
  readonly created_at: number;
}

/** Newest first. Without a state: everything that is not yet, or not well, done. */
export async function listDrafts(
  q: Query,
  filter: { readonly state?: string; readonly channel?: string; readonly limit: number },
): Promise<ListedDraft[]> {
  return q.all<ListedDraft>(
    `SELECT id, channel, conversation, recipient, state, attempts, due_at, reason, created_at FROM drafts
     WHERE CASE WHEN $1 = '' THEN state NOT IN ('sent', 'delivered', 'dropped') ELSE state = $1 END
       AND ($2 = '' OR channel = $2) ORDER BY created_at DESC, id DESC LIMIT $3`,
    filter.state ?? "",
    filter.channel ?? "",
    filter.limit,
  );
}

export interface ShownAttempt {
  readonly number: number;
  readonly node: string;
  readonly outcome: string | null;
  readonly detail: string | null;
  readonly started_at: number;
  readonly ended_at: number | null;
}

/** A draft with every attempt on it, or null. */
export async function showDraft(
  q: Query,
  id: string,
): Promise<{
  readonly draft: DraftRow & { readonly reason: string | null };
  readonly attempts: readonly ShownAttempt[];
} | null> {
  const draft = await readDraft(q, id);
  if (!draft) return null;
  const row = await q.one<{ reason: string | null }>("SELECT reason FROM drafts WHERE id = $1", id);
  const attempts = await q.all<ShownAttempt>(
    "SELECT number, node, outcome, detail, started_at, ended_at FROM attempts WHERE subject = $1 ORDER BY number",
    id,
  );
  return { draft: { ...draft, reason: row?.reason ?? null }, attempts };
}

/** What an operator may move a draft from; anything else is still being worked on, or done. */
const movable = ["held", "failed", "dropped"];

/** Queues a held, failed or dropped draft again, under the same key, before the later ones of its conversation. Throws
 *  for any other, and for one whose words are forgotten. */
export async function resendDraft(q: Query, id: string): Promise<void> {
  const draft = await movableDraft(q, id, "resending", movable);
  if (draft.body === "null") throw new Error(`resending draft ${id}: its words are forgotten (retention)`);
  await changeDraft(q, id, { state: "queued", open: 1, reason: "resent by the operator" });
  await refreshLane(q, draft.conversation, "out");
}

/** Gives a held, failed or waiting draft up. Throws for one that is being sent, or has gone out. */
export async function dropDraft(q: Query, id: string): Promise<void> {
  const draft = await movableDraft(q, id, "dropping", ["held", "failed", "queued"]);
  await changeDraft(q, id, { state: "dropped", open: 0, reason: "dropped by the operator" });
  await refreshLane(q, draft.conversation, "out");
}

async function movableDraft(
  q: Query,
  id: string,
  action: string,
  states: readonly string[],
): Promise<DraftRow> {
  // Locked first: a sender that claims it meanwhile must be seen.
  await q.one(
    `SELECT id FROM drafts WHERE id = $1
     FOR UPDATE -- only: postgres`,
    id,
  );
  const draft = await readDraft(q, id);
  if (!draft) throw new Error(`${action} draft ${id}: there is no such draft (see outbox list)`);
  if (!states.includes(draft.state)) {
    throw new Error(`${action} draft ${id}: it is ${draft.state}; only ${states.join(", ")} can be`);
  }
  return draft;
}
