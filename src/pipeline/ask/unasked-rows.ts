// Turns that wait while the agent of their channel is not asked. No claim decides about them, so that those older than
// `max_age` are ended here, without a lease.

import type { Query } from "../../store/driver.ts";
import { refreshLane, tryLane } from "../../store/lanes.ts";
import { isPaused } from "../../store/tables/pauses.ts";
import { readTurn, type TurnRow } from "../../store/tables/turns.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";
import { afterWaiting } from "./decide.ts";
import { refuse, suppressedPerson, suppressionOf } from "./rows.ts";

type Deps = Parameters<typeof refuse>[4] & { readonly node: string };

/** Ends the customers' questions of the channel that have waited longer than `max_age`: they are held. At most `most`; the
 *  next sweep continues. Those of a paused channel wait for the end of the pause. */
export async function endOldTurns(q: Query, line: ChannelRuntime, most: number, deps: Deps): Promise<void> {
  const find = () => unaskedTurns(q, line, most, deps.node);
  const found = await find();
  if (found.length === 0) return;
  for (const { conversation, ...one } of await lockedOf(q, found, find)) {
    const row = await readTurn(q, one.id);
    const turn: TurnRow & { suppressed: string | null } = { ...row, suppressed: one.suppressed };
    const suppressed = await suppressionOf(q, turn);
    await refuse(q, line, turn, afterWaiting({ turn, suppressed, waited: one.waited }, line.rules.max_age), deps);
    await refreshLane(q, conversation, "in");
  }
}

interface UnaskedTurn {
  readonly id: string;
  readonly conversation: string;
  /** Milliseconds since the turn was made. */
  readonly waited: number;
  /** Why nothing may be sent to the turn's person. */
  readonly suppressed: string | null;
}

/** Returns those whose lanes could be locked. Another transaction may have changed them before, so they are read again. */
async function lockedOf(
  q: Query,
  found: readonly UnaskedTurn[],
  find: () => Promise<readonly UnaskedTurn[]>,
): Promise<readonly UnaskedTurn[]> {
  if (q.leases !== null) return found;
  const locked = new Set<string>();
  for (const { conversation } of found) if (await tryLane(q, conversation, "in")) locked.add(conversation);
  return (await find()).filter(({ conversation }) => locked.has(conversation));
}

/** Returns the questions that were certainly not asked and that wait for longer than `max_age`, oldest first. A turn with
 *  refused attempts counts from the first one of its round; one that an operator has released since is not among them. */
function unaskedTurns(
  q: Query,
  { channel, rules }: ChannelRuntime,
  most: number,
  node: string,
): Promise<readonly UnaskedTurn[]> {
  const leased = q.leases === null ? [] : [JSON.stringify(q.leases.busy(node, channel))];
  return q.all<UnaskedTurn>(
    `SELECT turns.id, turns.conversation, now_ms() - turns.made_at AS waited,
       ${suppressedPerson}
     FROM turns JOIN lanes ON lanes.id = turns.conversation || '/in'
     WHERE turns.channel = $1 AND turns.open = 1 AND turns.state = 'waiting' AND turns.received_at < now_ms() - $2
       AND turns.made_at < now_ms() - $2 AND turns.kind = 'question' AND turns.session IS NULL AND turns.event IS NOT NULL
       AND CASE WHEN turns.attempts = 0 THEN turns.reason IS NULL ELSE turns.tried_at < now_ms() - $2 END
       AND NOT ${isPaused("$1")}
       AND lanes.id NOT IN (SELECT value FROM json_each($4)) -- only: sqlite
       AND lanes.lease_until <= now_ms() -- only: postgres
     ORDER BY turns.received_at LIMIT $3`,
    channel,
    rules.max_age,
    most,
    ...leased,
  );
}
