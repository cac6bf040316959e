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

/** Returns the notifications that these targets have not received, oldest first, without those that were left
 *  behind (`leaveBehind`). */
export async function loadUnsent(q: Query, targets: readonly string[]): Promise<readonly UnsentNotification[]> {
  const found = await q.all<Omit<UnsentNotification, "due"> & { due: number }>(
    `SELECT DISTINCT notifications.id, notifications.target, notifications.kind, notifications.subject, notifications.text, notifications.reply,
       notifications.made_at, notification_targets.escalation, CASE WHEN notifications.due_at IS NULL THEN 0 ELSE 1 END AS due
     ${fromListed("notification_targets", "id")}
     JOIN notifications ON notifications.target = notification_targets.id
     LEFT JOIN replies ON replies.id = notifications.reply LEFT JOIN drafts ON drafts.reply = notifications.reply
     WHERE notifications.due_at IS NOT NULL
       OR (replies.channel = notification_targets.channel AND notifications.left_behind = 0
           AND (replies.state = 'ready' OR drafts.state IN ('queued', 'sending', 'unknown')))
     ORDER BY notifications.made_at, notifications.id`,
    listOf(targets),
  );
  return found.map((one) => ({ ...one, due: one.due === 1 }));
}

/** Marks notifications whose draft stays on a removed channel, so that their target may get the same again. Numbers those
 *  of one target, kind and subject from 1. */
export async function leaveBehind(q: Query, ids: readonly string[]): Promise<void> {
  await q.run(
    `UPDATE notifications SET left_behind = (
       SELECT MAX(same.left_behind) + 1 FROM notifications same WHERE same.target = notifications.target
         AND same.kind = notifications.kind AND same.subject = notifications.subject)
     WHERE ${isListed("id")}`,
    listOf(ids),
  );
}
