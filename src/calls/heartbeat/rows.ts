// Statements of stage node heartbeat: the sessions of nodes that ended, and those of this node.

import type { Query } from "../../store/driver.ts";
import type { SessionRow } from "../../store/tables/sessions.ts";
import { moves } from "../../store/transitions.ts";
import { hasten, pinLanes } from "../rows.ts";

const silent = "the node that held it is silent";

/** Marks open sessions of nodes without a valid lease as lost; returns their number. Work on them is taken over
 *  after at most `takeoverMs`. */
export async function loseOrphans(q: Query, takeoverMs: number): Promise<number> {
  const orphans = await q.all<{ conversation: string }>(
    `${moves("sessions", "lost", {
      set: "lost_at = now_ms(), reason = $1",
      where: "NOT EXISTS (SELECT 1 FROM leases WHERE leases.name = 'node:' || sessions.node AND until > now_ms())",
    })} RETURNING conversation`,
    silent,
  );
  for (const { conversation } of orphans) {
    await pinLanes(q, conversation);
    await hasten(q, conversation, takeoverMs);
  }
  return orphans.length;
}

/** Reopens sessions that other nodes marked as lost while this node could not reach the store, although
 *  it still holds them. */
export async function reclaimSessions(q: Query, node: string): Promise<void> {
  const own = await q.all<{ conversation: string }>(
    `${moves("sessions", "open", {
      set: "lost_at = NULL, reason = NULL",
      where: "state <> 'closed' AND node = $1 AND reason = $2",
      from: ["lost"],
    })} RETURNING conversation`,
    node,
    silent,
  );
  for (const { conversation } of own) await pinLanes(q, conversation);
}

/** Closes sessions that have been lost for longer than `afterMs`, because no end callback is expected any more. */
export async function endLost(q: Query, afterMs: number): Promise<void> {
  const ended = await q.all<Pick<SessionRow, "channel" | "id" | "conversation">>(
    `${moves("sessions", "closed", {
      set: "closed_at = now_ms()",
      where: "state <> 'closed' AND lost_at < now_ms() - $1",
      from: ["lost"],
    })} RETURNING channel, id, conversation`,
    afterMs,
  );
  for (const { channel, id: session, conversation } of ended)
    q.hop({ name: "call", channel, trace: "", conversation, session, state: "closed", code: "lost" });
}
