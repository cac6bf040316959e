// Dialogs end by inactivity: after some minutes the dialog has ended, after some days the conversation is archived.

import type { Clock, Log } from "bridgehead/contract";
import type { PlatformStore } from "../store/store.ts";
import { fire } from "./fire.ts";

export interface Patience {
  /** Milliseconds without a message after which a dialog has ended. */
  readonly endAfter: number;
  /** Milliseconds without a message after which a conversation is archived. */
  readonly archiveAfter: number;
}

export const standardPatience: Patience = { endAfter: 6 * 60_000, archiveAfter: 30 * 86_400_000 };

const batch = 100;

/** Looks again and again until the signal aborts. */
export async function watchIdle(
  store: PlatformStore,
  options: {
    readonly clock: Clock;
    readonly log: Log;
    readonly patience: Patience;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const { clock, log, patience, signal } = options;
  const pause = Math.min(30_000, Math.max(10, Math.min(patience.endAfter, patience.archiveAfter) / 10));
  while (!signal.aborted) {
    try {
      while (!signal.aborted && (await endIdle(store, clock, patience)));
    } catch (error) {
      log.error({ err: error }, "ending idle dialogs failed");
    }
    await clock.sleep(pause, signal);
  }
}

/** One look; true when there may be more to do at once. */
async function endIdle(store: PlatformStore, clock: Clock, patience: Patience): Promise<boolean> {
  return store.commits.write(() => {
    const now = clock.now();
    const ended = store.conversations.idle(now - patience.endAfter, batch);
    for (const row of ended) {
      store.conversations.end(row.id, now);
      fire(store, now, "end_dialog", row);
    }
    const archived = store.conversations.stale(now - patience.archiveAfter, batch);
    for (const row of archived) {
      store.conversations.change(
        row.id,
        { title: null, context: null, status: "archived", state_id: null },
        now,
      );
      fire(store, now, "auto_archive_conversation", row);
    }
    return ended.length === batch || archived.length === batch;
  });
}
