// Summary of open escalations and their notifications, for health and metrics. Reads only rows that are not closed.

import type { Query } from "../../store/driver.ts";

/** Delivery state of the notifications of one unclosed escalation on one channel. */
export interface NotificationsOn {
  readonly escalation: string;
  readonly state: "open" | "acknowledged";
  /** 1 when a step of the escalation policy has run for it. */
  readonly notified: number;
  /** Null while the escalation has no notification. */
  readonly channel: string | null;
  /** First and repeated notifications: accepted by the provider (`delivered`), and failed, or still not
   *  accepted after an attempt (`failed`). */
  readonly delivered: number;
  readonly failed: number;
  /** Notifications of all kinds that will not be sent, or whose first attempt failed. */
  readonly stuck: number;
}

export interface AlarmRows {
  readonly notifications: readonly NotificationsOn[];
  /** Milliseconds since the oldest unacknowledged escalation was opened; null if none exists. */
  readonly oldest: number | null;
  /** Numbers of the unacknowledged escalations, the oldest first; at most ten. */
  readonly numbers: readonly number[];
}

const stuck = `(drafts.state IN ('failed', 'held', 'dropped', 'unknown') OR (drafts.state = 'queued' AND drafts.attempts > 0)
  OR (drafts.state = 'sending' AND drafts.attempts > 1) OR replies.state = 'failed')`;
const asksAck = "notifications.kind IN ('opened', 'reminder')";

export async function alarmRows(q: Query): Promise<AlarmRows> {
  const notifications = await q.all<NotificationsOn>(
    `SELECT escalations.id AS escalation, escalations.state, notification_targets.channel,
       MAX(CASE WHEN escalations.notified_at IS NULL THEN 0 ELSE 1 END) AS notified,
       COALESCE(SUM(CASE WHEN ${asksAck} AND drafts.state IN ('sent', 'delivered') THEN 1 ELSE 0 END), 0) AS delivered,
       COALESCE(SUM(CASE WHEN ${asksAck} AND ${stuck} THEN 1 ELSE 0 END), 0) AS failed,
       COALESCE(SUM(CASE WHEN ${stuck} THEN 1 ELSE 0 END), 0) AS stuck
     FROM escalations
     LEFT JOIN notification_targets ON notification_targets.escalation = escalations.id
     LEFT JOIN notifications ON notifications.target = notification_targets.id
     LEFT JOIN replies ON replies.id = notifications.reply
     LEFT JOIN drafts ON drafts.reply = replies.id
     WHERE escalations.state IN ('open', 'acknowledged')
     GROUP BY escalations.id, escalations.state, notification_targets.channel`,
  );
  const open = await q.all<{ number: number; age: number }>(
    "SELECT number, now_ms() - opened_at AS age FROM escalations WHERE state = 'open' ORDER BY number LIMIT 10",
  );
  return { notifications, oldest: open[0]?.age ?? null, numbers: open.map(({ number }) => number) };
}
