// Messages that were not answered, as the operator sees and releases them.

import type { Query } from "./driver.ts";

export interface ListedEvent {
  readonly id: number;
  readonly channel: string;
  readonly external_id: string;
  readonly sender: string | null;
  readonly subject: string | null;
  readonly state: string;
  readonly code: string | null;
  readonly reason: string | null;
  readonly received_at: number;
}

const columns = "id, channel, external_id, sender, subject, state, code, reason, received_at";

/** Newest first. Without a state: every message that was not answered. */
export async function listEvents(
  q: Query,
  filter: {
    readonly state?: string;
    readonly code?: string;
    readonly channel?: string;
    readonly limit: number;
  },
): Promise<ListedEvent[]> {
  const state = filter.state ?? "";
  const unanswered = ["", "ignored", "held", "failed"].includes(state);
  // The conditions of the two partial indexes, word for word: otherwise every event ever would be read.
  const indexed = {
    true: "state IN ('ignored', 'held', 'failed')",
    false: state === "stored" ? "state = 'stored'" : "1 = 1",
  };
  return q.all<ListedEvent>(
    `SELECT ${columns} FROM events
     WHERE kind = 'message' AND ${indexed[`${unanswered}`]} AND ($1 = '' OR state = $1)
       AND ($2 = '' OR code = $2) AND ($3 = '' OR channel = $3) ORDER BY id DESC LIMIT $4`,
    state,
    filter.code ?? "",
    filter.channel ?? "",
    filter.limit,
  );
}

/** One event with its body, or null. */
export async function showEvent(
  q: Query,
  id: number,
): Promise<(ListedEvent & { readonly body: string }) | null> {
  return (
    (await q.one<ListedEvent & { body: string }>(`SELECT ${columns}, body FROM events WHERE id = $1`, id)) ??
    null
  );
}

/** The message as it arrived; null when it was not kept, or no longer is. */
export async function readRaw(q: Query, id: number): Promise<Uint8Array | null> {
  const row = await q.one<{ bytes: Uint8Array }>(
    "SELECT blobs.bytes FROM events JOIN blobs ON blobs.id = events.raw WHERE events.id = $1",
    id,
  );
  return row?.bytes ?? null;
}

/** Lets a message that was ignored, held or failed be routed after all: the operator's word stands above the guards. */
export async function releaseEvent(q: Query, id: number): Promise<void> {
  const event = await showEvent(q, id);
  if (!event) throw new Error(`answering message ${id}: there is no such message (see inbox list)`);
  const changed = await q.run(
    `UPDATE events SET state = 'stored', code = 'released', reason = NULL, attempts = 0, due_at = now_ms()
     WHERE id = $1 AND kind = 'message' AND state IN ('ignored', 'held', 'failed') AND body <> '{}'
       AND (code IS NULL OR code <> 'duplicate')`,
    id,
  );
  if (changed === 1) return;
  if (event.body === "{}") throw new Error(`answering message ${id}: its words are forgotten (retention)`);
  throw new Error(
    `answering message ${id}: it is ${event.state}${event.code === "duplicate" ? " (a duplicate)" : ""}; there is nothing to release`,
  );
}
