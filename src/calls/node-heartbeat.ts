// Stage node heartbeat. Input: sessions of nodes that share the store, at every sweep. Effect: renews this node's
// heartbeat lease; marks open sessions of nodes with an expired lease as lost. Output: sessions `lost`, for another
// node to resume; those that no node resumes are finally `closed`. Failure: retried at the next sweep. Crash: the other
// nodes detect it when the node's lease expires.

import type { TransactionalStage } from "../engine/stage.ts";
import type { Core } from "../store/driver.ts";
import { takeLease } from "../store/leases.ts";
import { endLost, forgetNodes, loseOrphans, nodeLease, reclaimSessions } from "./rows.ts";

export function heartbeatStage(deps: Core): TransactionalStage {
  const timing = deps.timing.calls;
  let nextAt = Number.NEGATIVE_INFINITY;
  return {
    takes: "sessions",
    async run(q) {
      const now = deps.clock.monotonic();
      if (now < nextAt) return [];
      const committed = [() => void (nextAt = now + timing.nodeRenewal)];
      await endLost(q, timing.lostCall);
      // An SQLite store has one node: the sessions that were open at its start are already lost.
      if (deps.db.kind === "sqlite") return committed;
      if ((await takeLease(q, nodeLease(deps.node), deps.node, timing.nodeLease)) !== null)
        await reclaimSessions(q, deps.node);
      await forgetNodes(q, timing.nodeRecord);
      const lost = await loseOrphans(q, timing.laneTakeover);
      if (lost > 0) deps.log.warn({ sessions: lost }, "node heartbeat expired: its calls are lost");
      return committed;
    },
  };
}
