// Statements of stage send.

import type { Query } from "../../store/driver.ts";
import { type Claim, type Held, type Lease, leaseHeads } from "../../store/lanes.ts";
import { type DraftRow, draftColumns, resent } from "../../store/tables/drafts.ts";
import { isPaused } from "../../store/tables/pauses.ts";
import { moves } from "../../store/transitions.ts";

/** The head of a lane with the facts that decide whether it may be sent. */
export interface HeadRow extends DraftRow {
  /** The reason why the recipient is suppressed, or null. */
  readonly suppressed: string | null;
}

const columns = `${draftColumns}, (SELECT reason FROM suppressions
       WHERE suppressions.channel = drafts.channel AND address = drafts.recipient AND active = 1) AS suppressed`;

/** Leases outbound lanes and reads their heads (`leaseHeads`). */
export const leaseDrafts = (q: Query, claim: Claim): Promise<readonly Held<HeadRow>[]> =>
  leaseHeads<HeadRow>(q, "out", claim, { columns });

/** Returns the oldest open draft of the lane, or null. */
export async function headDraft(q: Query, lease: Pick<Lease, "conversation">): Promise<HeadRow | null> {
  const row = await q.one<HeadRow>(
    `SELECT ${columns} FROM drafts WHERE conversation = $1 AND open = 1 ORDER BY seq LIMIT 1`,
    lease.conversation,
  );
  return row ?? null;
}

/** Returns whether the customer has written again since the question that the draft answers. Always false
 *  for replies that answer no question, for later parts of a reply that is partly sent, and for drafts
 *  that an operator resends. */
export async function isSuperseded(q: Query, draft: Pick<DraftRow, "id" | "reply">): Promise<boolean> {
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

/** Returns whether a human wrote the reply to the customer; then the human is notified when it is not sent. */
export async function isHumans(q: Query, { reply }: Pick<DraftRow, "reply">): Promise<boolean> {
  return (await q.one("SELECT 1 FROM replies WHERE id = $1 AND kind = 'human'", reply)) !== undefined;
}

const sendingMove = moves("drafts", "sending", {
  set: "attempts = attempts + 1, settle_until = NULL, tried_at = COALESCE(tried_at, now_ms()), updated_at = now_ms()",
  where: `id = $1 AND open = 1 AND attempts = $2 AND (forced = 1 OR NOT EXISTS (
       SELECT 1 FROM suppressions WHERE suppressions.channel = drafts.channel AND address = drafts.recipient AND active = 1))
       AND (internal = 1 OR session IS NOT NULL OR NOT ${isPaused("drafts.channel")})`,
});

/** Records the attempt before it is made; this ends the reconcile period of an earlier attempt. Call with
 *  the lane's row locked. Returns false, and writes nothing, when the draft may not be sent any more: an
 *  operator dropped it, a delivery receipt ended it, or after the claim its recipient was suppressed or its
 *  channel paused. */
export async function recordSending(
  q: Query,
  draft: Pick<DraftRow, "id" | "attempts">,
  node: string,
  token: number,
): Promise<boolean> {
  const changed = await q.run(sendingMove, draft.id, draft.attempts);
  if (changed !== 1) return false;
  await q.write(
    "INSERT INTO attempts (subject, number, kind, node, token, started_at) VALUES ($1, $2, 'send', $3, $4, now_ms())",
    draft.id,
    draft.attempts + 1,
    node,
    token,
  );
  return true;
}
