// Failpoints: the instants of durable steps as node:diagnostics_channel channels. Tests wait for them and
// kill the process at them. In production there are no subscribers and a failpoint costs one lookup.

import { channel } from "node:diagnostics_channel";

/** All durable steps. "before" is published after the writes and before the commit (or the external
 *  call); "after" is published when the step is complete. */
export const failpointNames = [
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
  "reconcile.commit",
  "receipt.commit",
  "settings.commit",
  "session.commit",
  "fetch.commit",
  "notify.commit",
  "poll.commit",
  "platform-webhook.commit",
  "action.commit",
  "pause.commit",
  "repair.commit",
  "backup.copy",
  "restore.swap",
  "store.copy",
  "store.copied",
] as const;

export type FailpointName = (typeof failpointNames)[number];
export type Phase = "before" | "after";

const channels = new Map(failpointNames.map((name) => [name, channel(`bridgehead:${name}`)]));

/** Publishes one failpoint; subscribers run synchronously. */
export function failpoint(
  name: FailpointName,
  phase: Phase,
  fields: { readonly [key: string]: unknown } = {},
): void {
  const found = channels.get(name);
  if (found?.hasSubscribers) found.publish({ phase, ...fields });
}

/** Publishes "before" now, as the last step of a transaction, and "after" when the transaction is on disk, to those that
 *  subscribe now. */
export function failpointOfCommit(
  q: { onDisk(act: () => void): void },
  name: FailpointName,
  fields: { readonly [key: string]: unknown },
): void {
  if (!channels.get(name)?.hasSubscribers) return;
  failpoint(name, "before", fields);
  q.onDisk(() => failpoint(name, "after", fields));
}
