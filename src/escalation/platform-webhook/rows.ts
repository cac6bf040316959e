// Deliveries of the platform's webhooks, deduplicated: stored before the response, then processed. Registrations of
// webhooks at the platform: each is recorded before the API call, so that none is requested twice.

import { fromListed, listOf, ManyRows, type Query, touch } from "../../store/driver.ts";
import { moves } from "../../store/transitions.ts";
import type { BoundConversation } from "./decide.ts";

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
  delivery: Pick<PlatformWebhookRow, "agent" | "id" | "kind" | "body">,
  againMs: number | null,
): Promise<boolean> {
  const { agent, id, kind, body } = delivery;
  const stored = await q.run(
    `INSERT INTO platform_webhooks (agent, id, kind, body, state, due_at, received_at)
     VALUES ($1, $2, $3, $4, 'stored', now_ms(), now_ms()) ON CONFLICT (agent, id) DO NOTHING`,
    agent,
    id,
    kind,
    body,
  );
  const again =
    stored === 0 && againMs !== null
      ? await q.run(
          moves("platform_webhooks", "stored", {
            set: "body = $3, attempts = 0, due_at = now_ms(), received_at = now_ms()",
            where: "agent = $1 AND id = $2 AND received_at <= now_ms() - $4",
          }),
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
    `SELECT agent, id, kind, body, attempts, received_at, now_ms() - received_at AS age FROM platform_webhooks
     WHERE due_at <= now_ms() ORDER BY due_at LIMIT $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    limit,
  );
}

const endedRows = (state: "done" | "lost") =>
  new ManyRows<Pick<PlatformWebhookRow, "agent" | "id">>(
    "WITH given (agent, id) AS (VALUES",
    "(:agent, :id)",
    `) ${moves("platform_webhooks", state, {
      set: `due_at = NULL, attempts = attempts + 1, body = CASE WHEN kind = 'message' THEN '' ELSE body END
     FROM given`,
      where: "platform_webhooks.agent = given.agent AND platform_webhooks.id = given.id",
    })}`,
  );
const endings = [
  ["done", endedRows("done")],
  ["lost", endedRows("lost")],
] as const;

/** Marks deliveries as processed. The body of a message is erased, because the platform stores it. */
export async function endPlatformWebhooks(
  q: Query,
  ended: readonly { readonly row: PlatformWebhookRow; readonly state: "done" | "lost" }[],
): Promise<void> {
  for (const [state, rows] of endings) {
    const own = ended.filter((one) => one.state === state);
    await rows.write(
      q,
      own.map(({ row }) => row),
    );
  }
}

const postponedRows = new ManyRows(
  "WITH given (agent, id, ms) AS (VALUES",
  "(:agent, :id, CAST(:ms AS BIGINT))",
  `) UPDATE platform_webhooks SET attempts = attempts + 1, due_at = now_ms() + given.ms
     FROM given WHERE platform_webhooks.agent = given.agent AND platform_webhooks.id = given.id`,
);

/** Schedules retries, each in its `ms`. */
export async function postponePlatformWebhooks(
  q: Query,
  postponed: readonly { readonly row: PlatformWebhookRow; readonly ms: number }[],
): Promise<void> {
  await postponedRows.write(
    q,
    postponed.map(({ row, ms }) => ({ ...row, ms })),
  );
}

/** Returns our newest conversation that is bound to each of these platform conversations. */
export async function conversationsBoundTo(
  q: Query,
  platformIds: Iterable<string>,
): Promise<ReadonlyMap<string, BoundConversation>> {
  const rows = await q.all<BoundConversation & { platform_id: string }>(
    `SELECT platform_id, id, channel, agent ${fromListed("conversations", "platform_id")} ORDER BY id`,
    listOf(platformIds),
  );
  return new Map(rows.map(({ platform_id, ...one }) => [platform_id, one]));
}

export interface Registration {
  /** Agent name in the configuration. */
  readonly agent: string;
  /** Name of the trigger (External API 6), such as `each_message`. */
  readonly trigger: string;
  readonly url: string;
  /** Digest of all registration parameters that the URL does not contain; another digest is another registration. */
  readonly digest: string;
}

export interface RegistrationRow extends Registration {
  /** Null: requested, outcome unknown. Empty: found on the platform, without its id. */
  readonly platform_id: string | null;
  /** Milliseconds since the request. */
  readonly requested_ago: number;
}

export async function registrationsOf(q: Query, agent: string, trigger: string): Promise<RegistrationRow[]> {
  return q.all<RegistrationRow>(
    `SELECT agent, trigger_name AS "trigger", url, digest, platform_id, now_ms() - requested_at AS requested_ago FROM webhook_registrations
     WHERE agent = $1 AND trigger_name = $2 ORDER BY url`,
    agent,
    trigger,
  );
}

/** Records that the registration is being requested. Returns false when it is already recorded. */
export async function beginRegistration(q: Query, one: Registration): Promise<boolean> {
  const added = await q.run(
    `INSERT INTO webhook_registrations (agent, trigger_name, url, digest, requested_at) VALUES ($1, $2, $3, $4, now_ms())
     ON CONFLICT (agent, trigger_name, url) DO NOTHING`,
    one.agent,
    one.trigger,
    one.url,
    one.digest,
  );
  return added === 1;
}

/** Records that the registration exists. `secret`: the key with which the platform signs its deliveries,
 *  if it returns one. */
export async function endRegistration(
  q: Query,
  { agent, trigger, url }: Registration,
  is: { readonly platformId: string; readonly secret: string | null },
): Promise<void> {
  await q.write(
    "UPDATE webhook_registrations SET platform_id = $4, secret = $5 WHERE agent = $1 AND trigger_name = $2 AND url = $3",
    agent,
    trigger,
    url,
    is.platformId,
    is.secret,
  );
}

/** Deletes the record of a registration that certainly does not exist. */
export async function dropRegistration(q: Query, { agent, trigger, url }: Registration): Promise<void> {
  await q.write(
    "DELETE FROM webhook_registrations WHERE agent = $1 AND trigger_name = $2 AND url = $3",
    agent,
    trigger,
    url,
  );
}

/** Returns the known keys with which the platform signs deliveries for that agent. */
export async function signingSecretsOf(q: Query, agent: string): Promise<string[]> {
  const rows = await q.all<{ secret: string }>(
    "SELECT secret FROM webhook_registrations WHERE agent = $1 AND secret IS NOT NULL",
    agent,
  );
  return rows.map(({ secret }) => secret);
}
