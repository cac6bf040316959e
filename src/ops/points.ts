// Points: the instants that matter, as node:diagnostics_channel channels. Tests wait on them, and kill the process
// on them; in production nobody listens and a point costs a lookup.

import { channel } from "node:diagnostics_channel";

/** Every durable step. "before" is published when all is written but not yet committed (or not yet crossed),
 *  "after" when it is. */
export const pointNames = [
  "event.commit",
  "route.commit",
  "ask.record",
  "open.cross",
  "open.commit",
  "ask.cross",
  "answer.commit",
  "draft.commit",
  "send.record",
  "send.cross",
  "outcome.commit",
  "verdict.commit",
  "receipt.commit",
  "settings.commit",
  "session.commit",
  "fetch.commit",
  "notice.commit",
  "watch.commit",
  "intake.commit",
  "take.commit",
  "backup.copy",
  "restore.swap",
] as const;

export type PointName = (typeof pointNames)[number];
export type Phase = "before" | "after";

const channels = new Map(pointNames.map((name) => [name, channel(`bridgehead:${name}`)]));

/** Publishes one point; subscribers run at once, synchronously. */
export function point(name: PointName, phase: Phase, fields: { readonly [key: string]: unknown } = {}): void {
  const found = channels.get(name);
  if (found?.hasSubscribers) found.publish({ phase, ...fields });
}
