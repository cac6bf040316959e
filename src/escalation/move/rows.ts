// Statements of stage move.

import { fromListed, isListed, listOf, type Query } from "../../store/driver.ts";
import { isNotifiedTarget, type TargetRow, targetColumns } from "../../store/tables/responders.ts";
import type { KnownTarget, UnsentNotification } from "./decide.ts";

/** Returns all targets of these escalations, by escalation. Call with the escalations locked. */
export async function loadKnownTargets(
  q: Query,
  escalations: readonly string[],
): Promise<ReadonlyMap<string, readonly KnownTarget[]>> {
  const found = await q.all<TargetRow & { notified: number }>(
    `SELECT ${targetColumns}, CASE WHEN ${isNotifiedTarget} THEN 1 ELSE 0 END AS notified
     ${fromListed("notification_targets", "escalation")} ORDER BY id`,
    listOf(escalations),
  );
  const targets = found.map((one) => ({ ...one, notified: one.notified === 1 }));
  return Map.groupBy(targets, ({ escalation }) => escalation);
}

/** Returns the notifications that these targets have not received, oldest first. Leaves out those that have left their
 *  channel (`leaveChannel`). */
export async function loadUnsent(q: Query, targets: readonly string[]): Promise<readonly UnsentNotification[]> {
  const found = await q.all<Omit<UnsentNotification, "due"> & { due: number }>(
    `SELECT DISTINCT notifications.id, notifications.target, notifications.kind, notifications.subject, notifications.text, notifications.reply,
       notifications.made_at, notification_targets.escalation, CASE WHEN notifications.due_at IS NULL THEN 0 ELSE 1 END AS due
     ${fromListed("notification_targets", "id")}
     JOIN notifications ON notifications.target = notification_targets.id
     LEFT JOIN replies ON replies.id = notifications.reply LEFT JOIN drafts ON drafts.reply = notifications.reply
     WHERE notifications.due_at IS NOT NULL
       OR (replies.channel = notification_targets.channel AND notifications.subject NOT LIKE '% ' || notifications.id
           AND (replies.state = 'ready' OR drafts.state IN ('queued', 'sending', 'unknown')))
     ORDER BY notifications.made_at, notifications.id`,
    listOf(targets),
  );
  return found.map((one) => ({ ...one, due: one.due === 1 }));
}

/** Marks notifications whose draft stays on a removed channel, so that their target may get the same again. */
export async function leaveChannel(q: Query, ids: readonly string[]): Promise<void> {
  await q.run(`UPDATE notifications SET subject = subject || ' ' || id WHERE ${isListed("id")}`, listOf(ids));
}
