// What waits to be tried again, for a long time when it has failed often: somebody has a reason not to wait.

import type { Query } from "./driver.ts";
import { lockLane, refreshLane } from "./lanes.ts";

/** Whatever has been tried in that conversation and waits for its next attempt is tried now. A channel that pauses still
 *  pauses. */
export async function tryNow(q: Query, conversation: string): Promise<void> {
  await lockLane(q, conversation, "out");
  const changed = await q.run(
    `UPDATE drafts SET due_at = now_ms() WHERE conversation = $1 AND open = 1 AND state = 'queued' AND attempts > 0
       AND due_at > now_ms()`,
    conversation,
  );
  if (changed > 0) await refreshLane(q, conversation, "out");
}
