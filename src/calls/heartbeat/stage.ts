// Stage node heartbeat. Input: sessions and leased lanes of nodes that share the store, at every sweep. Effect: renews
// this node's heartbeat lease; marks open sessions of nodes with an expired lease as lost; ends the leases of such nodes where no
// attempt is under way, and all leases and claims of this node's earlier processes that have ended. Output: sessions `lost`, for
// another node to resume; those that no node resumes are finally `closed`; lanes that are due again. Failure: retried at
// the next sweep; lanes are due again when their leases end. Crash: the other nodes detect it when the node's lease
// expires.

import type { TransactionalStage } from "../../engine/stage.ts";
import { type Core, logOnDisk, type Query } from "../../store/driver.ts";
import {
  endProcesses,
  forgetNodes,
  nodeLease,
  releaseClaims,
  releaseLanes,
  silentNodes,
  takeLease,
} from "../../store/leases.ts";
import { endLost, loseOrphans, reclaimSessions } from "./rows.ts";

export function heartbeatStage(deps: Core): TransactionalStage {
  const timing = deps.timing.calls;
  let nextAt = Number.NEGATIVE_INFINITY;
  /** Earlier processes of this node are looked for at the start, and once again, because the server may take a moment to notice
   *  the end of a connection. Later a lost lock would not prove an end: a restart of the server releases all. */
  let looks = 0;
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
      const processes = looks < 2 ? await endProcesses(q, deps.node) : { ended: [], running: [] };
      const lost = await loseOrphans(q, timing.laneTakeover);
      if (lost > 0) deps.log.warn({ sessions: lost }, "node heartbeat expired: its calls are lost");
      await q
        .savepoint(() => releaseEnded(q, processes.ended, deps))
        .catch((error: unknown) => deps.log.error({ err: error }, "releasing the work of ended nodes failed"));
      await forgetNodes(q, timing.nodeRecord);
      committed.push(() => {
        const { running: nodes } = processes;
        if (looks === 1 && nodes.length > 0)
          deps.log.warn({ nodes }, "another running process has the name of this node");
        looks += 1;
      });
      return committed;
    },
  };
}

/** After the sessions: these are locked before lanes. `ended`: processes that have certainly ended. */
async function releaseEnded(q: Query, ended: readonly string[], { log }: Core): Promise<void> {
  await releaseClaims(q, ended);
  const lanes = (await releaseLanes(q, ended, "all")) + (await releaseLanes(q, await silentNodes(q), "unattempted"));
  if (lanes > 0) logOnDisk(q, log).info({ lanes }, "work of an ended node is due again");
}
