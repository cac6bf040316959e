// Statements of triggers and of undeliverable drafts.

import type { EscalationTrigger } from "../../pipeline/escalation.ts";
import { joinEach, ManyRows, type Query } from "../../store/driver.ts";
import type { DraftRow } from "../../store/tables/drafts.ts";
import { lockEscalations } from "../../store/tables/escalations.ts";
import type { NotificationRow } from "../../store/tables/responders.ts";
import { aboutOf, type PassedOnChannel, type Subject, type Undelivered } from "./decide.ts";

const subjectRows = new ManyRows(
  "WITH given (key, about, conversation) AS (VALUES",
  "(:key, :about, CAST(:conversation AS TEXT))",
  `) SELECT given.key, COALESCE(
       (SELECT id FROM escalations WHERE escalations.about = given.about AND state <> 'closed'),
       (SELECT id FROM escalations WHERE escalations.about = given.about ORDER BY number DESC LIMIT 1)
     ) AS escalation,
     CASE WHEN EXISTS (SELECT 1 FROM triggers WHERE triggers.key = given.key) THEN 1 ELSE 0 END AS triggered,
     (SELECT seq FROM turns WHERE turns.conversation = given.conversation AND kind = 'question' AND opening IS NULL
      ORDER BY seq DESC LIMIT 1) AS asked
     FROM given`,
);

/** Returns the subjects of these triggers, in their order. Their escalations are locked: a close at another node
 *  happens before or after this transaction. */
export async function loadSubjects(q: Query, triggers: readonly EscalationTrigger[]): Promise<readonly Subject[]> {
  const found = await subjectRows.all<{
    key: string;
    escalation: string | null;
    triggered: number;
    asked: number | null;
  }>(
    q,
    triggers.map((one) => ({ ...one, about: aboutOf(one) })),
  );
  const byKey = new Map(found.map((one) => [one.key, one]));
  const ids = found.flatMap(({ escalation, triggered }) => (triggered === 1 ? [] : (escalation ?? [])));
  const rows = ids.length > 0 ? await lockEscalations(q, ids) : new Map();
  return triggers.map(({ key }) => {
    const { escalation = null, triggered = 0, asked = null } = byKey.get(key) ?? {};
    return { row: rows.get(escalation ?? "") ?? null, triggered: triggered === 1, asked };
  });
}

/** Returns what an undeliverable draft carries, with the escalations of its notifications, locked. `id`: of the reply, when it has no draft. */
export async function loadUndelivered(q: Query, { id, reply }: Pick<DraftRow, "id" | "reply">): Promise<Undelivered> {
  const rows = await q.all<
    { of: string; attempts: number } & Partial<NotificationRow> & { id: string | null; escalation: string }
  >(
    `SELECT replies.kind AS of, COALESCE((SELECT attempts FROM drafts WHERE drafts.id = $2), 0) AS attempts,
       notifications.id, notifications.target, notifications.kind, notifications.subject, notifications.text, notifications.reply,
       notification_targets.escalation
     FROM replies LEFT JOIN notifications ON notifications.reply = replies.id LEFT JOIN notification_targets ON notification_targets.id = notifications.target
     WHERE replies.id = $1 ORDER BY notifications.id`,
    reply,
    id,
  );
  const notifications = rows.filter((row) => row.id !== null) as unknown as Undelivered["notifications"];
  const escalations = notifications.map(({ escalation }) => escalation);
  return {
    isHumans: rows[0]?.of === "human",
    attempts: rows[0]?.attempts ?? 0,
    notifications,
    failed: {
      rows: escalations.length === 0 ? new Map() : await lockEscalations(q, escalations),
      on: await passedOn(q, notifications),
    },
  };
}

const passedOnRows = new ManyRows<Pick<NotificationRow, "id" | "subject"> & { readonly escalation: string }>(
  "WITH given (id, escalation, subject) AS (VALUES",
  "(:id, :escalation, :subject)",
  `) SELECT given.id, notification_targets.channel, COUNT(DISTINCT notification_targets.id) AS targets,
       COUNT(DISTINCT notifications.id) AS written,
       COALESCE(SUM(CASE WHEN notifications.due_at IS NOT NULL
         OR (replies.channel = notification_targets.channel AND replies.state = 'ready')
         OR (drafts.channel = notification_targets.channel AND drafts.state IN ('queued', 'sending', 'unknown'))
         OR drafts.state IN ('sent', 'delivered') THEN 1 ELSE 0 END), 0) AS alive
     FROM given ${joinEach("notification_targets", "notification_targets.escalation = given.escalation")}
     LEFT JOIN notifications ON notifications.target = notification_targets.id AND notifications.kind = 'customer' AND notifications.subject = given.subject AND notifications.left_behind = 0
     LEFT JOIN replies ON replies.id = notifications.reply LEFT JOIN drafts ON drafts.reply = notifications.reply
     GROUP BY given.id, notification_targets.channel`,
);

/** Counts the notifications of each customer's message among these on the channels of the targets, without those that were
 *  left behind; by notification. A draft on a channel that no longer serves its target is not alive. Call with the
 *  escalations locked: the last two may fail at two nodes at the same time. */
export async function passedOn(
  q: Query,
  failed: Undelivered["notifications"],
): Promise<ReadonlyMap<string, readonly PassedOnChannel[]>> {
  const messages = failed.filter(({ kind }) => kind === "customer");
  const rows = await passedOnRows.all<PassedOnChannel & { readonly id: string }>(q, messages);
  return Map.groupBy(rows, ({ id }) => id);
}
