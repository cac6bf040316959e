// Webhooks and their deliveries.

import type { Occasion, Trigger } from "../../wire/webhook.ts";
import { all, count, insertInto, listOf, one, run, values } from "./lists.ts";
import type { Db } from "./store.ts";

export interface WebhookRow {
  readonly id: string;
  readonly agent_id: string;
  readonly title: string;
  readonly description: string;
  readonly url: string;
  /** Escalation recipients are stored as webhooks too, but no list shows them. */
  readonly trigger: Occasion;
  /** JSON object, or null. */
  readonly headers: string | null;
  readonly secret: string;
  readonly status: "active" | "inactive";
  /** 1 when the webhook comes from the agent's definition and is deleted with it. */
  readonly defined: 0 | 1;
  readonly created_at: number;
  readonly updated_at: number;
}

/** A webhook that was registered through the API or listed in a definition. */
export type AgentWebhook = WebhookRow & { readonly trigger: Trigger };

export interface DeliveryRow {
  readonly id: string;
  readonly webhook_id: string;
  readonly conversation_id: string;
  readonly trigger: Occasion;
  /** JSON object: the delivery without its messages. */
  readonly body: string;
  /** Sequence number of the conversation's newest message when the delivery was enqueued; 0 without one. */
  readonly newest_seq: number;
  readonly state: "pending" | "delivered" | "failed";
  readonly attempts: number;
  readonly due_at: number;
  /** HTTP status of the latest attempt, or null with an error. */
  readonly status: number | null;
  readonly error: string | null;
  readonly created_at: number;
  readonly ended_at: number | null;
}

type NewDelivery = Pick<
  DeliveryRow,
  "id" | "webhook_id" | "conversation_id" | "trigger" | "body" | "newest_seq" | "due_at" | "created_at"
>;

const columns =
  "id, agent_id, title, description, url, trigger, headers, secret, status, defined, created_at, updated_at".split(
    ", ",
  );
const ofPerson = "conversation_id IN (SELECT id FROM conversation WHERE person_id = ?)";

export function prepareWebhooks(db: Db) {
  const insert = run<[WebhookRow]>(
    db,
    `${insertInto("webhook", columns)}
     ON CONFLICT (id) DO UPDATE SET title = excluded.title, description = excluded.description, url = excluded.url,
       trigger = excluded.trigger, headers = excluded.headers, status = excluded.status`,
  );
  const defined = values<[], string>(db, "SELECT id FROM webhook WHERE defined = 1");
  const removeDeliveries = run<[string]>(db, "DELETE FROM delivery WHERE webhook_id = ?");
  const removeWebhook = run<[string]>(db, "DELETE FROM webhook WHERE id = ?");
  const remove = (id: string): void => {
    removeDeliveries(id);
    removeWebhook(id);
  };
  return {
    ...prepareDeliveries(db),
    insert,
    /** Stores the webhooks of the definitions and deletes defined ones that are absent. Registered webhooks stay. */
    define: (rows: readonly WebhookRow[]): void =>
      db.transaction(() => {
        const kept = new Set(rows.map(({ id }) => id));
        for (const id of defined()) if (!kept.has(id)) remove(id);
        for (const row of rows) insert(row);
      })(),
    byId: one<[agentId: string, id: string], AgentWebhook>(
      db,
      "SELECT * FROM webhook WHERE agent_id = ? AND id = ? AND trigger <> 'escalation'",
    ),
    list: all<[agentId: string], AgentWebhook>(
      db,
      "SELECT * FROM webhook WHERE agent_id = ? AND trigger <> 'escalation' ORDER BY created_at, rowid",
    ),
    active: all<[agentId: string, trigger: Trigger], AgentWebhook>(
      db,
      "SELECT * FROM webhook WHERE agent_id = ? AND trigger = ? AND status = 'active'",
    ),
    remove,
  };
}

function prepareDeliveries(db: Db) {
  const log = listOf<DeliveryRow>(db, "delivery", "webhook_id");
  const webhook = one<[string], WebhookRow>(db, "SELECT * FROM webhook WHERE id = ?");
  const due = all<[number, number], DeliveryRow>(
    db,
    `SELECT delivery.* FROM webhook JOIN delivery ON delivery.rowid = (
       SELECT rowid FROM delivery WHERE webhook_id = webhook.id AND state = 'pending' AND due_at <= ?
       ORDER BY due_at, rowid LIMIT 1)
     ORDER BY due_at, delivery.rowid LIMIT ?`,
  );
  const conclude = run<[DeliveryEnd & { readonly id: string }]>(
    db,
    `UPDATE delivery SET state = @state, attempts = @attempts, due_at = @due_at, status = @status, error = @error,
       ended_at = @ended_at WHERE id = @id`,
  );
  return {
    put: run<[NewDelivery]>(
      db,
      `INSERT INTO delivery (id, webhook_id, conversation_id, trigger, body, newest_seq, state, attempts, due_at, created_at)
       VALUES (@id, @webhook_id, @conversation_id, @trigger, @body, @newest_seq, 'pending', 0, @due_at, @created_at)`,
    ),
    delivery: one<[agentId: string, id: string], DeliveryRow>(
      db,
      "SELECT delivery.* FROM delivery JOIN webhook ON webhook.id = webhook_id WHERE agent_id = ? AND delivery.id = ?",
    ),
    /** Returns the delivery log, newest first. */
    log: (webhookId: string, limit: number, offset: number): DeliveryRow[] => log(webhookId, "DESC", limit, offset),
    logged: count<[webhookId: string]>(db, "SELECT count(*) FROM delivery WHERE webhook_id = ?"),
    /** Returns the oldest due delivery of each webhook, so a webhook with a long queue does not starve the others. */
    due: (now: number, limit: number): (DeliveryRow & { readonly webhook: WebhookRow })[] =>
      due(now, limit).flatMap((row) => {
        const own = webhook(row.webhook_id);
        return own ? [{ ...row, webhook: own }] : [];
      }),
    /** Makes the pending deliveries with that number of attempts due that would be due only after `latest`. */
    advance: run<[now: number, attempts: number, latest: number]>(
      db,
      "UPDATE delivery SET due_at = ? WHERE state = 'pending' AND attempts = ? AND due_at > ?",
    ),
    conclude: (id: string, to: DeliveryEnd) => conclude({ id, ...to }),
    /** Deletes at most `limit` deliveries that ended before `before`, and returns their number. Those of escalations are
     *  kept, because the list of escalations shows their state. */
    prune: run<[before: number, limit: number]>(
      db,
      `DELETE FROM delivery WHERE rowid IN (
         SELECT rowid FROM delivery WHERE ended_at < ? AND ended_at IS NOT NULL AND trigger <> 'escalation'
         ORDER BY ended_at LIMIT ?)`,
    ),
    forgetConversation: run<[id: string]>(db, "DELETE FROM delivery WHERE conversation_id = ?"),
    /** Deletes pending and past deliveries about all conversations of a user. */
    forget: run<[personId: string]>(db, `DELETE FROM delivery WHERE ${ofPerson}`),
  };
}

type DeliveryEnd = Pick<DeliveryRow, "state" | "attempts" | "due_at" | "status" | "error" | "ended_at">;

// Escalations and the notifications they caused.

export interface PlatformEscalationRow {
  readonly id: string;
  readonly agent_id: string;
  readonly conversation_id: string;
  /** The question that caused it; at most one escalation per question. */
  readonly message_id: string;
  readonly topic: string;
  readonly response: string;
  /** JSON array of `Notified`. */
  readonly notified: string;
  readonly created_at: number;
}

export interface Notified {
  readonly channel: "sms" | "email" | "webhook";
  readonly value: string;
  /** Id of the webhook delivery; null for recipients by SMS or email, which an external channel must notify. */
  readonly delivery: string | null;
}

const escalation = "id agent_id conversation_id message_id topic response notified created_at".split(" ");

export const prepareEscalations = (db: Db) => ({
  insert: run<[PlatformEscalationRow]>(db, insertInto("escalation", escalation)),
  of: one<[messageId: string], PlatformEscalationRow>(db, "SELECT * FROM escalation WHERE message_id = ?"),
  list: listOf<PlatformEscalationRow>(db, "escalation", "agent_id"),
  count: count<[agentId: string]>(db, "SELECT count(*) FROM escalation WHERE agent_id = ?"),
  /** Deletes the escalations of a user's conversations. */
  removeOf: run<[personId: string]>(db, `DELETE FROM escalation WHERE ${ofPerson}`),
});
