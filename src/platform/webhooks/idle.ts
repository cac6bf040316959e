// Ends inactive dialogs: marks a dialog as ended (and scores it) after some minutes, archives the
// conversation after some days, and anonymizes it later where the agent's retention settings require it.

import type { Clock, Log } from "bridgehead/contract";
import { forget } from "../retention.ts";
import type { Roster } from "../roster.ts";
import { judge } from "../scoring.ts";
import type { PlatformStore } from "../store/store.ts";
import { fire } from "./fire.ts";

export interface Patience {
  /** Milliseconds without a message until a dialog ends. */
  readonly endAfter: number;
  /** Milliseconds without a message until a conversation is archived. */
  readonly archiveAfter: number;
}

export const standardPatience: Patience = { endAfter: 6 * 60_000, archiveAfter: 30 * 86_400_000 };

const batch = 100;
/** Milliseconds until uploaded files are deleted if no message refers to them. */
const looseForMs = 86_400_000;

interface Watching {
  readonly clock: Clock;
  readonly log: Log;
  readonly patience: Patience;
  readonly signal: AbortSignal;
}

/** Polls until the signal aborts. */
export async function watchIdle(store: PlatformStore, roster: Roster, options: Watching): Promise<void> {
  const { clock, log, patience, signal } = options;
  const pause = Math.min(30_000, Math.max(10, Math.min(patience.endAfter, patience.archiveAfter) / 10));
  while (!signal.aborted) {
    try {
      while (!signal.aborted && (await look(store, roster, options)));
    } catch (error) {
      log.error({ err: error }, "ending idle dialogs failed");
    }
    await clock.sleep(pause, signal);
  }
}

/** Runs one pass. Returns true when more work may be due immediately. */
async function look(store: PlatformStore, roster: Roster, options: Watching): Promise<boolean> {
  const { clock, log, patience, signal } = options;
  const idle = store.conversations.idle(clock.now() - patience.endAfter, batch);
  // Scores before the transaction, because a model request may take long.
  const verdicts = await judge(store, roster, idle, { clock, log, signal });
  if (signal.aborted) return false;
  return store.commits.write(() => {
    const now = clock.now();
    for (const row of idle) {
      // Skips a dialog that received a message in the meantime, or that was deleted.
      const current = store.conversations.byId(row.agent_id, row.id);
      const verdict = verdicts.get(row.id);
      if (current && verdict) store.usage.add(row.agent_id, row.person_id, now, { tokens: verdict.tokens });
      if (current?.last_message_at !== row.last_message_at) continue;
      store.conversations.end(row.id, now, verdict?.score ?? null);
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
    store.messageFiles.removeLoose(now - looseForMs);
    const forgotten = roster.all().map((agent) => forget(store, agent, now, batch));
    return idle.length === batch || archived.length === batch || forgotten.includes(true);
  });
}
