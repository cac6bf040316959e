// Deliveries of the platform's webhooks, deduplicated: stored before the response, then processed.

import { type Query, touch } from "../../store/driver.ts";

export type PlatformWebhookKind = "escalation" | "message";

export interface PlatformWebhookRow {
  /** Agent name in the configuration. */
  readonly agent: string;
  /** The id of the delivery, or `sha256:` and the hash of its content. */
  readonly id: string;
  readonly kind: PlatformWebhookKind;
  readonly body: string;
  readonly attempts: number;
  readonly received_at: number;
  /** Milliseconds since it was received. */
  readonly age: number;
}

/** Stores a delivery that is due at once. Returns false for a duplicate: the same id was received within
 *  `againMs` (null: ever). */
export async function insertPlatformWebhook(
  q: Query,
  intake: Pick<PlatformWebhookRow, "agent" | "id" | "kind" | "body">,
  againMs: number | null,
): Promise<boolean> {
  const { agent, id, kind, body } = intake;
  const stored = await q.run(
    `INSERT INTO intakes (agent, id, kind, body, state, due_at, received_at)
     VALUES ($1, $2, $3, $4, 'stored', now_ms(), now_ms()) ON CONFLICT (agent, id) DO NOTHING`,
    agent,
    id,
    kind,
    body,
  );
  const again =
    stored === 0 && againMs !== null
      ? await q.run(
          `UPDATE intakes SET body = $3, state = 'stored', attempts = 0, due_at = now_ms(), received_at = now_ms()
           WHERE agent = $1 AND id = $2 AND state <> 'stored' AND received_at <= now_ms() - $4`,
          agent,
          id,
          body,
          againMs,
        )
      : 0;
  if (stored + again > 0) touch(q, "escalations");
  return stored + again > 0;
}

/** Returns due deliveries, longest due first. Locked for this transaction. */
export async function duePlatformWebhooks(q: Query, limit: number): Promise<PlatformWebhookRow[]> {
  return q.all<PlatformWebhookRow>(
    `SELECT agent, id, kind, body, attempts, received_at, now_ms() - received_at AS age FROM intakes
     WHERE due_at <= now_ms() ORDER BY due_at LIMIT $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    limit,
  );
}

/** Marks the delivery as processed. The body of a message is erased, because the platform stores it. */
export async function endPlatformWebhook(
  q: Query,
  { agent, id, kind }: PlatformWebhookRow,
  state: "done" | "lost",
): Promise<void> {
  await q.write(
    `UPDATE intakes SET state = $3, due_at = NULL, attempts = attempts + 1, body = CASE WHEN $4 = 'message' THEN '' ELSE body END
     WHERE agent = $1 AND id = $2`,
    agent,
    id,
    state,
    kind,
  );
}

/** Schedules a retry in `ms`. */
export async function postponePlatformWebhook(
  q: Query,
  { agent, id }: PlatformWebhookRow,
  ms: number,
): Promise<void> {
  await q.write(
    "UPDATE intakes SET attempts = attempts + 1, due_at = now_ms() + $3 WHERE agent = $1 AND id = $2",
    agent,
    id,
    Math.ceil(ms),
  );
}

/** Returns our newest conversation that is bound to that platform conversation. */
export async function conversationBoundTo(
  q: Query,
  platformId: string,
): Promise<{ readonly id: string; readonly channel: string; readonly agent: string } | null> {
  const row = await q.one<{ id: string; channel: string; agent: string }>(
    "SELECT id, channel, agent FROM conversations WHERE platform_id = $1 ORDER BY id DESC LIMIT 1",
    platformId,
  );
  return row ?? null;
}
