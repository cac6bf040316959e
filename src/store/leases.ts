// Named leases with fencing tokens, such as the lease for running a channel's inbound and the heartbeat of a node, and leases
// of lanes that other events than due work begin or end: a poll, a restored store, a start, the end of a node.

import { isListed, listOf, type Query, touch } from "./driver.ts";
import { type Direction, itemTable, type Lease } from "./lanes.ts";

/** A lease is this many times longer where one process owns the store. No process waits for its end, and the next process
 *  ends it at its start, so most renewals need not write. */
const soleFactor = 360;

/** Claims or renews `name` for `holder`; null when another holder has it. The token increases with every
 *  change of holder. */
export async function takeLease(q: Query, name: string, holder: string, leaseMs: number): Promise<number | null> {
  const forMs = q.leases === null ? leaseMs : leaseMs * soleFactor;
  if (q.leases !== null) {
    const held = await q.one<{ token: number }>(
      "SELECT token FROM leases WHERE name = $1 AND holder = $2 AND until > now_ms() + $3",
      name,
      holder,
      forMs / 2,
    );
    if (held) return held.token;
  }
  const row = await q.one<{ token: number }>(
    `INSERT INTO leases (name, holder, token, until) VALUES ($1, $2, 1, now_ms() + $3)
     ON CONFLICT (name) DO UPDATE SET until = excluded.until, holder = excluded.holder,
       token = CASE WHEN leases.holder = excluded.holder THEN leases.token ELSE leases.token + 1 END
     WHERE leases.holder = excluded.holder OR leases.until <= now_ms() RETURNING token`,
    name,
    holder,
    forMs,
  );
  return row?.token ?? null;
}

export async function dropLease(q: Query, name: string, holder: string): Promise<void> {
  await q.write("UPDATE leases SET until = 0, holder = NULL WHERE name = $1 AND holder = $2", name, holder);
}

/** Name of the lease that serves as the heartbeat of a node. */
export const nodeLease = (node: string): string => `node:${node}`;

/** Returns the nodes whose heartbeat has expired since the last call by any node. */
export async function silentNodes(q: Query): Promise<string[]> {
  const rows = await q.all<{ holder: string }>(
    `WITH silent AS (
       SELECT name, holder FROM leases WHERE name LIKE 'node:%' AND holder IS NOT NULL AND until <= now_ms()
       FOR UPDATE SKIP LOCKED
     ), noted AS (UPDATE leases SET holder = NULL WHERE name IN (SELECT name FROM silent))
     SELECT holder FROM silent`,
  );
  return rows.map(({ holder }) => holder);
}

/** A key of PostgreSQL's advisory locks. `process`: an SQL expression for the name of a process (`Core.node`). */
const processKey = (process: string): string => `hashtextextended('bridgehead process ' || ${process}, 0)`;

/** Statement of a connection that lives as long as the process $1: the server ends the lock with it (`endProcesses`). */
export const lockProcess = `SELECT pg_advisory_lock(${processKey("CAST($1 AS TEXT)")})`;

/** Ends the named leases of the processes of this node that have ended: their names have the same text before the last "/", and
 *  the server has lost their connections. `running`: those that still have one and give signs. On PostgreSQL. */
export async function endProcesses(
  q: Query,
  node: string,
): Promise<{ readonly ended: readonly string[]; readonly running: readonly string[] }> {
  const named = node.slice(0, node.lastIndexOf("/") + 1);
  if (named === "") return { ended: [], running: [] };
  const rows = await q.all<{ holder: string; ended: boolean; beats: boolean }>(
    `SELECT holder, pg_try_advisory_xact_lock(${processKey("holder")}) AS ended, until > now_ms() AS beats
     FROM leases WHERE starts_with(name, $1) AND holder <> $2`,
    nodeLease(named),
    node,
  );
  const ended = rows.filter((row) => row.ended).map(({ holder }) => holder);
  if (ended.length > 0)
    await q.run(`UPDATE leases SET until = 0, holder = NULL WHERE ${isListed("holder")}`, listOf(ended));
  return { ended, running: rows.filter((row) => !row.ended && row.beats).map(({ holder }) => holder) };
}

/** Updates that make downloads, and probes of pauses, due at once. A condition follows. */
const freeDownloads = "UPDATE attachments SET holder = NULL, due_at = now_ms() WHERE due_at IS NOT NULL AND";
const freeProbes = "UPDATE send_pauses SET until = now_ms(), probe = NULL WHERE";

/** Makes the downloads and the probes of pauses due that these processes had claimed. `ended`: processes that have certainly
 *  ended. Call it before `releaseLanes`: a probe belongs to the holder of its lane. On PostgreSQL. */
export async function releaseClaims(q: Query, ended: readonly string[]): Promise<void> {
  if (ended.length === 0) return;
  const holders = listOf(ended);
  const downloads = await q.run(`${freeDownloads} ${isListed("holder")}`, holders);
  if (downloads > 0) touch(q, "attachments");
  const probes = await q.run(
    `${freeProbes} EXISTS (
       SELECT 1 FROM drafts JOIN lanes ON lanes.id = drafts.conversation || '/out'
       WHERE drafts.id = send_pauses.probe AND ${isListed("lanes.holder")})`,
    holders,
  );
  if (probes > 0) touch(q, "drafts");
}

/** Deletes the heartbeats that expired more than `afterMs` ago. */
export async function forgetNodes(q: Query, afterMs: number): Promise<void> {
  await q.run("DELETE FROM leases WHERE name LIKE 'node:%' AND until < now_ms() - $1", afterMs);
}

/** Ends the leases of lanes of these nodes on PostgreSQL, and returns their number. `all`: also those with an attempt under
 *  way, whose outcome is then unknown; only for a process that has certainly ended. `unattempted`: a node that only seemed to have
 *  ended sends nothing there: the record of its attempt finds its lease lost. Lanes in which another transaction is writing stay
 *  leased. Call it after the locks of sessions, because it locks lanes. */
export async function releaseLanes(q: Query, nodes: readonly string[], which: "all" | "unattempted"): Promise<number> {
  if (nodes.length === 0) return 0;
  const held = await q.all<{ id: string }>(
    `SELECT id FROM lanes WHERE ${isListed("holder")} FOR UPDATE SKIP LOCKED`,
    listOf(nodes),
  );
  if (held.length === 0) return 0;
  /** A question of a call may have been dropped while it is asked. */
  const attempted = (direction: Direction) =>
    `direction = '${direction}' AND EXISTS (SELECT 1 FROM ${itemTable[direction]} item JOIN attempts ON subject = item.id
       WHERE item.conversation = lanes.conversation AND attempts.token = lanes.token AND outcome IS NULL)`;
  const idle = which === "all" ? "" : ` AND NOT (${attempted("in")}) AND NOT (${attempted("out")})`;
  // A later statement than the one that locks the lanes: it sees an attempt that was recorded before.
  const released = await q.all<{ direction: Direction; channel: string }>(
    `UPDATE lanes SET holder = NULL, lease_until = 0 WHERE ${isListed("id")}${idle} RETURNING direction, channel`,
    listOf(held.map(({ id }) => id)),
  );
  for (const { direction, channel } of released) touch(q, itemTable[direction], channel);
  return released.length;
}

/** SQL: true while a question of another conversation is asked in the same conversation of the platform: threads of one
 *  customer may share it. */
export const isAskedElsewhere = (conversation: string): string =>
  `EXISTS (SELECT 1 FROM conversations own JOIN conversations other ON other.platform_id = own.platform_id AND other.id <> own.id
     JOIN turns ON turns.conversation = other.id AND turns.open = 1
     WHERE own.id = ${conversation} AND turns.state IN ('asking', 'unknown'))`;

/** Leases one inbound lane when it is free, no question waits or runs in it, and none is asked elsewhere
 *  (`isAskedElsewhere`); else returns null. Call with the lane's row locked (`tryLane`). Turns behind a failed question that
 *  blocks the lane do not count as waiting. Used by stage poll. */
export async function leaseIdleLane(
  q: Query,
  conversation: string,
  holder: string,
  leaseMs: number,
): Promise<Lease | null> {
  const lane = `${conversation}/in`;
  const isIdle = `COALESCE((SELECT state FROM turns WHERE turns.conversation = lanes.conversation AND turns.open = 1
       ORDER BY seq LIMIT 1), 'failed') = 'failed' AND (node IS NULL OR node = $2) AND NOT ${isAskedElsewhere("lanes.conversation")}`;
  if (q.leases !== null) {
    if (!q.leases.isFree(lane, holder)) return null;
    const row = await q.one<{ channel: string }>(`SELECT channel FROM lanes WHERE id = $1 AND ${isIdle}`, lane, holder);
    if (!row) return null;
    const token = q.leases.take(q, lane, row.channel, holder, leaseMs);
    return { lane, conversation, channel: row.channel, token, sender: "" };
  }
  const row = await q.one<{ channel: string; token: number }>(
    `UPDATE lanes SET holder = $2, token = nextval('lane_tokens'), lease_until = now_ms() + $3
     WHERE id = $1 AND lease_until <= now_ms() AND (holder IS NULL OR holder <> $2) AND ${isIdle}
     RETURNING channel, token`,
    lane,
    holder,
    leaseMs,
  );
  return row ? { lane, conversation, channel: row.channel, token: row.token, sender: "" } : null;
}

/** Revokes the lease on a lane: its holder can no longer write, and the lane may be leased at once. */
export async function revokeLease(q: Query, conversation: string, direction: Direction): Promise<void> {
  const lane = `${conversation}/${direction}`;
  if (q.leases !== null) {
    q.leases.release(q, lane);
    return;
  }
  await q.write("UPDATE lanes SET holder = NULL, token = token + 1, lease_until = 0 WHERE id = $1", lane);
}

/** Ends all leases and claims. Called at start on a store that only one process may use. */
export async function endLeases(q: Query): Promise<void> {
  if (q.leases !== null) q.leases.clear();
  else await q.write("UPDATE lanes SET holder = NULL, token = token + 1, lease_until = 0 WHERE lease_until > 0");
  await q.write("UPDATE leases SET holder = NULL, token = token + 1, until = 0 WHERE until > 0");
  await q.write(`${freeDownloads} holder IS NOT NULL`);
  await q.write(`${freeProbes} probe IS NOT NULL`);
}
