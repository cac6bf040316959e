// Targets: a responder's address for one escalation and one transport. Notifications: messages to
// targets; one without a reply is waiting to be rendered.

import type { Way } from "../../domain/policy.ts";
import { fromListed, listOf, ManyRows, type Query, touch } from "../driver.ts";

export type NotificationKind = "opened" | "reminder" | "acknowledged" | "customer" | "message";

export interface TargetRow {
  readonly id: string;
  readonly escalation: string;
  /** The responder's name in the escalation policy; `agent:<address>` for a recipient from the agent's skill. */
  readonly person: string;
  readonly name: string;
  readonly way: Way;
  /** In the carrying channel's canonical form. */
  readonly address: string;
  /** The channel that sends the notifications. */
  readonly channel: string;
  /** Our conversation with this target on that channel; null until the first notification is written. */
  readonly conversation: string | null;
  readonly link_until: number | null;
}

export const targetColumns = "id, escalation, person, name, way, address, channel, conversation, link_until";

export type NewTarget = Omit<TargetRow, "conversation" | "link_until">;

const targetRows = new ManyRows<NewTarget>(
  "INSERT INTO notification_targets (id, escalation, person, name, way, address, channel) VALUES",
  "(:id, :escalation, :person, :name, :way, :address, :channel)",
  "ON CONFLICT (escalation, way, address) DO NOTHING",
);

/** Adds targets. One with the transport and address of another target of the escalation is ignored. */
export const addTargets = (q: Query, targets: readonly NewTarget[]): Promise<number> => targetRows.run(q, targets);

const linkRows = new ManyRows(
  "WITH given (id, link, ms) AS (VALUES",
  "(:target, :link, CAST(:ms AS BIGINT))",
  `) UPDATE notification_targets SET link = given.link, link_until = now_ms() + given.ms
     FROM given WHERE notification_targets.id = given.id`,
);

/** Stores acknowledgement links that replace earlier ones. `link` is the SHA-256 of the token in the URL;
 *  the token itself is not stored. */
export async function giveLinks(
  q: Query,
  links: readonly { readonly target: string; readonly link: string }[],
  forMs: number,
): Promise<void> {
  await linkRows.run(
    q,
    links.map((one) => ({ ...one, ms: forMs })),
  );
}

/** Finds a target by the hash of the token; `left`: milliseconds until the link expires. */
export async function targetByLink(q: Query, link: string): Promise<(TargetRow & { readonly left: number }) | null> {
  const row = await q.one<TargetRow & { left: number }>(
    `SELECT ${targetColumns}, link_until - now_ms() AS left FROM notification_targets WHERE link = $1`,
    link,
  );
  return row ?? null;
}

export interface NotificationRow {
  readonly id: string;
  readonly target: string;
  readonly kind: NotificationKind;
  readonly subject: string;
  readonly text: string | null;
  readonly reply: string | null;
}

const notificationColumns = "id, target, kind, subject, text, reply";

/** SQL: ignores a notification that its target has already (same kind and subject). Those whose draft stays on a removed
 *  channel do not count: `left_behind` is 0, or their number in the order in which they were left. */
export const ignoreDuplicates = "ON CONFLICT (target, kind, subject, left_behind) DO NOTHING";

const notificationRows = new ManyRows<NewNotification>(
  "INSERT INTO notifications (id, target, kind, subject, text, due_at, made_at) VALUES",
  "(:id, :target, :kind, :subject, :text, now_ms() + :inMs, now_ms())",
  ignoreDuplicates,
);

/** A notification that is due in `inMs` milliseconds. */
export type NewNotification = Omit<NotificationRow, "reply"> & { readonly inMs: number };

/** Enqueues notifications. Ignores duplicates (same target, kind and subject); returns how many were new. */
export async function addNotifications(q: Query, notifications: readonly NewNotification[]): Promise<number> {
  const added = await notificationRows.run(q, notifications);
  if (added > 0 && notifications.some(({ inMs }) => inMs <= 0)) touch(q, "escalations");
  for (const { inMs } of notifications) if (added > 0 && inMs > 0) q.waits.add(inMs);
  return added;
}

/** SQL: true for a target that was notified. Also for one that replaces a target of that responder on a removed
 *  channel: all others have a first notification. */
export const isNotifiedTarget = `(notification_targets.conversation IS NOT NULL
  OR COALESCE((SELECT 1 FROM notifications own WHERE own.target = notification_targets.id AND own.reply IS NOT NULL LIMIT 1), 0) = 1
  OR COALESCE((SELECT 1 FROM notifications own WHERE own.target = notification_targets.id AND own.kind = 'opened' LIMIT 1), 0) = 0)`;

const recipients = {
  all: "COALESCE($6, '') IS NOT NULL",
  /** The target that acknowledged the escalation; all when none did. */
  owner: "notification_targets.id = COALESCE($6, notification_targets.id)",
  /** The target that acknowledged it; all that were notified when none did. */
  notified: `(notification_targets.id = $6 OR ($6 IS NULL AND ${isNotifiedTarget}))`,
};

/** Enqueues one notification for targets of an escalation, due at once. Ignores duplicates (same target, kind and
 *  subject). `id` is the prefix of the new ids. */
export async function notifyTargets(
  q: Query,
  escalation: { readonly id: string; readonly acknowledged_target: string | null },
  { id, kind, subject, text }: Pick<NotificationRow, "id" | "kind" | "subject" | "text">,
  to: keyof typeof recipients,
): Promise<void> {
  const added = await q.run(
    `INSERT INTO notifications (id, target, kind, subject, text, due_at, made_at)
     SELECT $2 || '/' || notification_targets.id, notification_targets.id, $3, $4, $5, now_ms(), now_ms() FROM notification_targets
     WHERE escalation = $1 AND ${recipients[to].replaceAll("$6", "CAST($6 AS TEXT)")}
     ${ignoreDuplicates}`,
    escalation.id,
    id,
    kind,
    subject,
    text,
    escalation.acknowledged_target,
  );
  if (added > 0) touch(q, "escalations");
}

/** A due notification and the escalation of its target. */
export interface DueNotification extends NotificationRow {
  readonly escalation: string;
}

const dueColumns = `${notificationColumns}, (SELECT escalation FROM notification_targets WHERE notification_targets.id = notifications.target) AS escalation`;

/** Returns due notifications, oldest first. Includes rows dated in the future, which exist after a
 *  backward clock step: those written more than `aheadMs` in the future. Locked for this transaction. There are two statements because a combined one
 *  would read all waiting rows at every sweep. */
export async function dueNotifications(q: Query, limit: number, aheadMs: number): Promise<DueNotification[]> {
  const due = await q.all<DueNotification>(
    `SELECT ${dueColumns} FROM notifications WHERE due_at <= now_ms() ORDER BY due_at, id LIMIT $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    limit,
  );
  if (due.length === limit) return due;
  const ahead = await q.all<DueNotification>(
    `SELECT ${dueColumns} FROM notifications WHERE due_at IS NOT NULL AND made_at > now_ms() + $2 AND due_at > now_ms()
     ORDER BY made_at LIMIT $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    limit - due.length,
    aheadMs,
  );
  return [...due, ...ahead];
}

/** A notification of an escalation, its target, and the draft that carries it. */
export interface NotificationStateRow {
  readonly target: string;
  readonly name: string;
  readonly way: Way;
  readonly address: string;
  readonly kind: NotificationKind;
  /** Its beginning: a customer's message may be a million characters long. */
  readonly text: string | null;
  readonly made_at: number;
  /** Null, like the other columns of the draft, without a draft. A draft can carry several notifications. */
  readonly draft: string | null;
  readonly state: string | null;
  readonly reason: string | null;
}

/** Returns the notifications of an escalation in the order of their creation. */
export async function notificationStatesOf(q: Query, escalation: string): Promise<NotificationStateRow[]> {
  return q.all<NotificationStateRow>(
    `SELECT notifications.target, notification_targets.name, notification_targets.way, notification_targets.address, notifications.kind, substr(notifications.text, 1, 20000) AS text, notifications.made_at,
       drafts.id AS draft, drafts.state, drafts.reason FROM notifications
     JOIN notification_targets ON notification_targets.id = notifications.target LEFT JOIN drafts ON drafts.reply = notifications.reply
     WHERE notification_targets.escalation = $1 ORDER BY notifications.made_at, notifications.id`,
    escalation,
  );
}

/** Returns the notifications that a reply carries. There are several when one message covers several
 *  escalations, and none when the reply is not a notification. */
export async function notificationsOf(q: Query, reply: string): Promise<NotificationRow[]> {
  return q.all<NotificationRow>(`SELECT ${notificationColumns} FROM notifications WHERE reply = $1 ORDER BY id`, reply);
}

/** Returns whether any target exists in the store. */
export async function hasTargets(q: Query): Promise<boolean> {
  return (await q.one("SELECT 1 FROM notification_targets LIMIT 1")) !== undefined;
}

/** Returns the external ids of our sent messages in each conversation, oldest first. */
export async function sentIds(
  q: Query,
  conversations: Iterable<string>,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const rows = await q.all<{ conversation: string; id: string }>(
    `SELECT conversation, external_id AS id ${fromListed("drafts", "conversation")}
     WHERE external_id IS NOT NULL AND state IN ('sent', 'delivered') ORDER BY conversation, seq`,
    listOf(conversations),
  );
  const byConversation = Map.groupBy(rows, ({ conversation }) => conversation);
  return new Map([...byConversation].map(([conversation, own]) => [conversation, own.map(({ id }) => id)]));
}
