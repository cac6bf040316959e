// Early retry of drafts in a long backoff, for callers that have a reason not to wait.

import type { Query } from "../driver.ts";
import { lockLane, refreshLane } from "../lanes.ts";

/** Makes drafts of the conversation that wait for a retry due now. A pause of the channel still applies. */
export async function tryNow(q: Query, conversation: string): Promise<void> {
  await lockLane(q, conversation, "out");
  const changed = await q.run(
    `UPDATE drafts SET due_at = now_ms() WHERE conversation = $1 AND open = 1 AND state = 'queued' AND attempts > 0
       AND due_at > now_ms()`,
    conversation,
  );
  if (changed > 0) await refreshLane(q, conversation, "out");
}
