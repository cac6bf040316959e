// Stage presence.
// Takes: sessions of nodes that share the store, at every sweep.
// Does: says that this node is alive; takes open sessions of silent nodes for lost.
// Leaves: sessions `lost`, for another node to resume; those that nobody resumes are `closed` in the end.
// If it fails: at the next sweep.  If the process dies: the others notice when its lease is over.

import type { Clock, Log } from "bridgehead/contract";
import type { Database } from "../store/driver.ts";
import { takeLease } from "../store/leases.ts";
import { endLost, forgetNodes, loseOrphans, nodeLease, reclaimSessions } from "../store/sessions.ts";
import type { PureStage } from "./stage.ts";

/** A node that says nothing for so long is taken for dead. */
const leaseMs = 20_000;
const renewalMs = 5000;
/** After this nobody waits for the end of a lost session to be told. */
const lostLifetime = 6 * 3_600_000;

export function presenceStage(deps: {
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
}): PureStage {
  let nextAt = Number.NEGATIVE_INFINITY;
  return {
    takes: "sessions",
    async run(q) {
      const now = deps.clock.monotonic();
      if (now < nextAt) return [];
      const committed = [() => void (nextAt = now + renewalMs)];
      await endLost(q, lostLifetime);
      // Nobody else uses an SQLite store: what was open at its start is lost already.
      if (deps.db.kind === "sqlite") return committed;
      if ((await takeLease(q, nodeLease(deps.node), deps.node, leaseMs)) !== null)
        await reclaimSessions(q, deps.node);
      await forgetNodes(q);
      const lost = await loseOrphans(q);
      if (lost > 0) deps.log.warn({ sessions: lost }, "calls of a silent node are lost");
      return committed;
    },
  };
}
