// Escalations and the notifications they caused.

import type { Db } from "./database.ts";

export interface EscalationRow {
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

export interface Escalations {
  insert(row: EscalationRow): void;
  of(messageId: string): EscalationRow | undefined;
  list(agentId: string, direction: "ASC" | "DESC", limit: number, offset: number): EscalationRow[];
  count(agentId: string): number;
  /** Deletes the escalations of a user's conversations. */
  removeOf(personId: string): void;
}

export function prepareEscalations(db: Db): Escalations {
  const insert = db.prepare<[EscalationRow]>(
    `INSERT INTO escalation (id, agent_id, conversation_id, message_id, topic, response, notified, created_at)
     VALUES (@id, @agent_id, @conversation_id, @message_id, @topic, @response, @notified, @created_at)`,
  );
  const of = db.prepare<[string], EscalationRow>("SELECT * FROM escalation WHERE message_id = ?");
  const list = (direction: "ASC" | "DESC") =>
    db.prepare<[string, number, number], EscalationRow>(
      `SELECT * FROM escalation WHERE agent_id = ? ORDER BY created_at ${direction}, rowid ${direction} LIMIT ? OFFSET ?`,
    );
  const lists = { ASC: list("ASC"), DESC: list("DESC") };
  const count = db.prepare<[string], number>("SELECT count(*) FROM escalation WHERE agent_id = ?").pluck();
  const removeOf = db.prepare(
    "DELETE FROM escalation WHERE conversation_id IN (SELECT id FROM conversation WHERE person_id = ?)",
  );
  return {
    insert: (row) => void insert.run(row),
    of: (messageId) => of.get(messageId),
    list: (agentId, direction, limit, offset) => lists[direction].all(agentId, limit, offset),
    count: (agentId) => count.get(agentId) ?? 0,
    removeOf: (personId) => void removeOf.run(personId),
  };
}
