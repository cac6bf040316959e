// Failpoints: the instants of durable steps as node:diagnostics_channel channels. Tests wait for them and
// kill the process at them. In production there are no subscribers.

import { channel } from "node:diagnostics_channel";

/** All durable steps. */
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

interface Failpoint {
  readonly hasSubscribers: boolean;
  /** "before" is published after the writes and before the commit (or the external call); "after" is published when the
   *  step is complete. Subscribers run synchronously. */
  publish(instant: { readonly phase: "before" | "after"; readonly [field: string]: unknown }): void;
}

/** The failpoints by name. `publish` does nothing without subscribers. */
export const failpoints = Object.fromEntries<Failpoint>(
  failpointNames.map((name) => [name, channel(`bridgehead:${name}`)]),
) as { readonly [name in FailpointName]: Failpoint };
