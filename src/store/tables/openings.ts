// Outcomes of outbound conversations, for the command that started them.

import type { Query } from "../driver.ts";

/** `waiting`: no final outcome yet. */
export interface OpeningOutcome {
  readonly state: "waiting" | "sent" | "held" | "failed" | "dropped";
  readonly reason: string | null;
}

interface Standing {
  readonly state: string;
  readonly reason: string | null;
}

const sent = ["sent", "delivered"];
const settled = ["held", "failed", "dropped"] as const;

/** Derives the outcome from the turn, its reply and the drafts of that reply; the latest stage counts.
 *  Throws when there is no such turn. */
export async function openingOutcome(q: Query, turn: string): Promise<OpeningOutcome> {
  const own = await q.one<Standing>("SELECT state, reason FROM turns WHERE id = $1", turn);
  if (!own) throw new Error(`looking at opening ${turn}: there is none`);
  if (own.state === "failed" || own.state === "dropped") return { state: own.state, reason: own.reason };
  const reply = await q.one<Standing & { id: string }>(
    "SELECT id, state, reason FROM replies WHERE turn = $1",
    turn,
  );
  if (!reply) return { state: "waiting", reason: own.reason };
  if (reply.state === "failed") return { state: "failed", reason: reply.reason };
  const drafts = await q.all<Standing>(
    "SELECT state, reason FROM drafts WHERE reply = $1 ORDER BY seq",
    reply.id,
  );
  for (const state of settled) {
    const found = drafts.find((draft) => draft.state === state);
    if (found) return { state, reason: found.reason };
  }
  if (drafts.length > 0 && drafts.every(({ state }) => sent.includes(state)))
    return { state: "sent", reason: null };
  return { state: "waiting", reason: drafts.find(({ state }) => !sent.includes(state))?.reason ?? null };
}

export interface RecentOpening {
  readonly turn: string;
  readonly conversation: string;
  /** Milliseconds since it was started. */
  readonly ago: number;
  /** The `opening` column of the turn (see `readOpening`). */
  readonly opening: string;
}

/** Returns outbound conversations with that person on that channel within the last `withinMs`, newest
 *  first. Locks the channel's row and so waits for concurrent starts; call it in the transaction that
 *  starts the next one. */
export async function recentOpenings(
  q: Query,
  channel: string,
  person: string,
  withinMs: number,
): Promise<RecentOpening[]> {
  await q.write("UPDATE channels SET cursor = cursor WHERE id = $1", channel);
  return q.all<RecentOpening>(
    `SELECT id AS turn, conversation, now_ms() - made_at AS ago, opening FROM turns
     WHERE channel = $1 AND person = $2 AND made_at > now_ms() - $3 AND opening IS NOT NULL
     ORDER BY made_at DESC, id DESC`,
    channel,
    person,
    withinMs,
  );
}
