// Webhooks and their deliveries.

import type { Occasion, Trigger } from "../../wire/webhook.ts";
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
  readonly body: string;
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
  "id" | "webhook_id" | "conversation_id" | "trigger" | "body" | "due_at" | "created_at"
>;

export function prepareWebhooks(db: Db) {
  const columns = `id, agent_id, title, description, url, trigger, headers, secret, status, defined, created_at, updated_at`;
  const insert = db.prepare<[WebhookRow]>(
    `INSERT INTO webhook (${columns}) VALUES (@id, @agent_id, @title, @description, @url, @trigger, @headers, @secret,
       @status, @defined, @created_at, @updated_at)
     ON CONFLICT (id) DO UPDATE SET title = excluded.title, description = excluded.description, url = excluded.url,
       trigger = excluded.trigger, headers = excluded.headers, status = excluded.status`,
  );
  const defined = db.prepare<[], string>("SELECT id FROM webhook WHERE defined = 1").pluck();
  const byId = db.prepare<[string, string], AgentWebhook>(
    "SELECT * FROM webhook WHERE agent_id = ? AND id = ? AND trigger <> 'escalation'",
  );
  const anyById = db.prepare<[string], WebhookRow>("SELECT * FROM webhook WHERE id = ?");
  const list = db.prepare<[string], AgentWebhook>(
    "SELECT * FROM webhook WHERE agent_id = ? AND trigger <> 'escalation' ORDER BY created_at, rowid",
  );
  const active = db.prepare<[string, string], AgentWebhook>(
    "SELECT * FROM webhook WHERE agent_id = ? AND trigger = ? AND status = 'active'",
  );
  const removeDeliveries = db.prepare("DELETE FROM delivery WHERE webhook_id = ?");
  const remove = db.prepare("DELETE FROM webhook WHERE id = ?");
  const forget = db.prepare(
    "DELETE FROM delivery WHERE conversation_id IN (SELECT id FROM conversation WHERE person_id = ?)",
  );
  const forgetConversation = db.prepare("DELETE FROM delivery WHERE conversation_id = ?");
  const put = db.prepare<[NewDelivery]>(
    `INSERT INTO delivery (id, webhook_id, conversation_id, trigger, body, state, attempts, due_at, created_at)
     VALUES (@id, @webhook_id, @conversation_id, @trigger, @body, 'pending', 0, @due_at, @created_at)`,
  );
  const delivery = db.prepare<[string, string], DeliveryRow>(
    `SELECT delivery.* FROM delivery JOIN webhook ON webhook.id = webhook_id WHERE agent_id = ? AND delivery.id = ?`,
  );
  const log = db.prepare<[string, number, number], DeliveryRow>(
    "SELECT * FROM delivery WHERE webhook_id = ? ORDER BY created_at DESC, rowid DESC LIMIT ? OFFSET ?",
  );
  const logged = db.prepare<[string], number>("SELECT count(*) FROM delivery WHERE webhook_id = ?").pluck();
  const due = db.prepare<[number, number], DeliveryRow>(
    `SELECT delivery.* FROM webhook JOIN delivery ON delivery.rowid = (
       SELECT rowid FROM delivery WHERE webhook_id = webhook.id AND state = 'pending' AND due_at <= ?
       ORDER BY due_at, rowid LIMIT 1)
     ORDER BY due_at, delivery.rowid LIMIT ?`,
  );
  const conclude = db.prepare(
    `UPDATE delivery SET state = @state, attempts = @attempts, due_at = @due_at, status = @status, error = @error,
       ended_at = @ended_at WHERE id = @id`,
  );
  const drop = (id: string) => {
    removeDeliveries.run(id);
    remove.run(id);
  };
  return {
    insert: (row: WebhookRow): void => void insert.run(row),
    /** Stores the webhooks of the definitions and deletes defined ones that are absent. Registered
     *  webhooks stay. */
    define: (rows: readonly WebhookRow[]): void =>
      db.transaction(() => {
        const kept = new Set(rows.map(({ id }) => id));
        for (const id of defined.all()) if (!kept.has(id)) drop(id);
        for (const row of rows) insert.run(row);
      })(),
    byId: (agentId: string, id: string): AgentWebhook | undefined => byId.get(agentId, id),
    list: (agentId: string): AgentWebhook[] => list.all(agentId),
    active: (agentId: string, trigger: Trigger): AgentWebhook[] => active.all(agentId, trigger),
    remove: drop,
    /** Deletes pending and past deliveries about all conversations of a user. */
    forget: (personId: string): void => void forget.run(personId),
    /** Deletes pending and past deliveries about a conversation. */
    forgetConversation: (id: string): void => void forgetConversation.run(id),
    put: (row: NewDelivery): void => void put.run(row),
    delivery: (agentId: string, id: string): DeliveryRow | undefined => delivery.get(agentId, id),
    /** Returns the delivery log, newest first. */
    log: (webhookId: string, limit: number, offset: number): DeliveryRow[] =>
      log.all(webhookId, limit, offset),
    logged: (webhookId: string): number => logged.get(webhookId) ?? 0,
    /** Returns the oldest due delivery of each webhook, so a webhook with a long queue does not starve the
     *  others. */
    due: (now: number, limit: number): (DeliveryRow & { readonly webhook: WebhookRow })[] =>
      due.all(now, limit).flatMap((row) => {
        const webhook = anyById.get(row.webhook_id);
        return webhook ? [{ ...row, webhook }] : [];
      }),
    conclude: (
      id: string,
      to: Pick<DeliveryRow, "state" | "attempts" | "due_at" | "status" | "error" | "ended_at">,
    ): void => void conclude.run({ id, ...to }),
  };
}

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
  /** Id of the webhook delivery; null for recipients by SMS or email, which an external channel must
   *  notify. */
  readonly delivery: string | null;
}

export type Escalations = ReturnType<typeof prepareEscalations>;

export function prepareEscalations(db: Db) {
  const insert = db.prepare<[PlatformEscalationRow]>(
    `INSERT INTO escalation (id, agent_id, conversation_id, message_id, topic, response, notified, created_at)
     VALUES (@id, @agent_id, @conversation_id, @message_id, @topic, @response, @notified, @created_at)`,
  );
  const of = db.prepare<[string], PlatformEscalationRow>("SELECT * FROM escalation WHERE message_id = ?");
  const list = (direction: "ASC" | "DESC") =>
    db.prepare<[string, number, number], PlatformEscalationRow>(
      `SELECT * FROM escalation WHERE agent_id = ? ORDER BY created_at ${direction}, rowid ${direction} LIMIT ? OFFSET ?`,
    );
  const lists = { ASC: list("ASC"), DESC: list("DESC") };
  const count = db.prepare<[string], number>("SELECT count(*) FROM escalation WHERE agent_id = ?").pluck();
  const removeOf = db.prepare(
    "DELETE FROM escalation WHERE conversation_id IN (SELECT id FROM conversation WHERE person_id = ?)",
  );
  return {
    insert: (row: PlatformEscalationRow): void => void insert.run(row),
    of: (messageId: string): PlatformEscalationRow | undefined => of.get(messageId),
    list: (
      agentId: string,
      direction: "ASC" | "DESC",
      limit: number,
      offset: number,
    ): PlatformEscalationRow[] => lists[direction].all(agentId, limit, offset),
    count: (agentId: string): number => count.get(agentId) ?? 0,
    /** Deletes the escalations of a user's conversations. */
    removeOf: (personId: string): void => void removeOf.run(personId),
  };
}
