// Finds and claims due work: the channels that have some, and the due lanes of a channel with their heads. The scheduler
// searches for what no commit has announced. Moves due times when the clock went back.

import type { Clock } from "bridgehead/contract";
import { clockAhead, tooOldCode } from "../domain/guards.ts";
import { joinEach, type Query, type Value, type Work } from "./driver.ts";
import { type Direction, itemTable, type Lease, type LeaseDeadline, leaseDeadline } from "./lanes.ts";
import { reconsiderEscalations } from "./tables/escalations.ts";
import { cappedCode } from "./tables/events.ts";
import { isPaused } from "./tables/pauses.ts";
import { moves } from "./transitions.ts";

/** A choice of the due lanes of a channel: the condition on `lanes`, and their number, which is 0 while the choice does not
 *  apply. `channel`: an SQL expression. */
type Which = (
  direction: Direction,
  channel: string,
) => { readonly condition: string; readonly limit: (most: string) => string };

/** All due lanes, unless the channel is paused. */
const allLanes: Which = (direction, channel) => ({
  condition: `lanes.direction = '${direction}' AND lanes.channel = ${channel} AND lanes.due_at <= now_ms()`,
  limit: (most) => `CASE WHEN ${isPaused(channel)} THEN 0 ELSE ${most} END`,
});

/** The lanes of a paused channel whose work may start. A new question and an unsent draft to a customer wait, unless they
 *  belong to a call (`session`). Lookups of an earlier attempt and notifications of responders do not. The attempts check
 *  the same (`recordAsking`, `recordSending`): a lane whose attempt is refused would be claimed over and over. The lanes
 *  are found by the items that do not wait, so the cost does not grow with what waits. */
const exemptLanes: Which = (direction, channel) => {
  const table = itemTable[direction];
  const lane = `SELECT conversation || '/${direction}' FROM ${table} WHERE ${table}.channel = ${channel} AND open = 1`;
  return {
    // The sum keeps the databases from searching the index of due lanes.
    condition: `lanes.due_at + 0 <= now_ms() AND lanes.id IN (${lane} AND ${begun[direction]} UNION ALL ${lane} AND ${exempt[direction]})
       AND ${isExempt(direction)}`,
    limit: (most) => `CASE WHEN ${isPaused(channel)} THEN ${most} ELSE 0 END`,
  };
};

/** Those of the listed lanes that are due and may start. `ids`: an SQL expression, the list as JSON. */
const listedLanes = (direction: Direction, channel: string, ids: string): string =>
  `lanes.due_at + 0 <= now_ms() AND lanes.id IN (SELECT value FROM json_each(${ids}))
       AND (NOT ${isPaused(channel)} OR ${isExempt(direction)})`;

/** A condition on lanes: the head does not wait for the end of a pause. */
const isExempt = (direction: Direction): string => `(
       SELECT CASE WHEN ${waits[direction]} THEN 0 ELSE 1 END FROM ${itemTable[direction]} head
       WHERE head.conversation = lanes.conversation AND head.open = 1 ORDER BY head.seq LIMIT 1) = 1`;
const waits = {
  in: "head.state = 'waiting' AND head.kind = 'question' AND head.session IS NULL",
  out: "head.state = 'queued' AND head.internal = 0 AND head.session IS NULL",
} as const;
const begun = { in: "state IN ('asking', 'unknown')", out: "state IN ('sending', 'unknown')" } as const;
/** The conditions of the indexes `turns_exempt` and `drafts_exempt`. */
const exempt = {
  in: "(kind <> 'question' OR session IS NOT NULL)",
  out: "(internal = 1 OR session IS NOT NULL)",
} as const;

/** Lanes that may not be leased: those of some senders, or all except those of live calls. */
export interface ClosedLanes {
  readonly all: boolean;
  readonly senders: readonly string[];
}

const nothingClosed: ClosedLanes = { all: false, senders: [] };

/** Returns a condition on lanes; its parameters start at $`first`. Lanes of live calls are pinned to a
 *  node and stay available, because pauses concern the placing of calls and the sending of texts only. */
function openOnly({ all, senders }: ClosedLanes, first: number): string {
  if (all) return " AND lanes.node IS NOT NULL";
  if (senders.length === 0) return "";
  return ` AND (lanes.node IS NOT NULL OR lanes.sender NOT IN (${senders.map((_, at) => `$${at + first}`).join(", ")}))`;
}

/** Returns the SQL of the claims of one direction. $1 is the channel, $2 the holder, $3 the highest number of lanes; the
 *  senders that are closed follow after $4. `columns` are those of the head; a turn is read with its `conversations`. */
export function claimsOf(direction: Direction, columns: string) {
  const items = itemTable[direction];
  const withConversation = direction === "in" ? joinEach("conversations", "conversations.id = lanes.conversation") : "";
  const isMine = "(lanes.node IS NULL OR lanes.node = $2)";
  const read = (where: string, limit: string) =>
    `SELECT lanes.id AS lane, lanes.conversation AS lane_conversation, lanes.sender AS lane_sender, ${columns}
     FROM lanes LEFT JOIN ${items} ON ${items}.conversation = lanes.conversation AND ${items}.open = 1 AND ${items}.seq = (
       SELECT MIN(seq) FROM ${items} head WHERE head.conversation = lanes.conversation AND head.open = 1)
     ${withConversation}
     WHERE ${where} AND ${isMine} ORDER BY lanes.due_at LIMIT ${limit}`;
  const searched = (which: Which, closed: ClosedLanes) => {
    const { condition, limit } = which(direction, "$1");
    const isFree = "lanes.id NOT IN (SELECT value FROM json_each($4))";
    return `SELECT * FROM (${read(`${condition} AND ${isFree}${openOnly(closed, 5)}`, limit("$3"))})`;
  };
  const locked = (which: Which, closed: ClosedLanes) => {
    const { condition, limit } = which(direction, "$1");
    return `AS MATERIALIZED (
       SELECT id FROM lanes
       WHERE ${condition} AND lease_until <= now_ms()
         AND (holder IS NULL OR holder <> $2) AND ${isMine}${openOnly(closed, 5)}
       ORDER BY due_at LIMIT ${limit("$3")}
       FOR UPDATE SKIP LOCKED
     )`;
  };
  return {
    /** Reads the lanes that may be leased, on SQLite: $4 is the list of those that are leased in memory. */
    search: (closed: ClosedLanes) => `${searched(allLanes, closed)} UNION ALL ${searched(exemptLanes, closed)}`,
    /** Like `search` without closed senders: $4 is the list of the lanes to choose from. */
    listed: read(listedLanes(direction, "$1", "$4"), "$3"),
    /** Leases lanes on PostgreSQL: $4 is the length of the leases in milliseconds. */
    lease: (closed: ClosedLanes) =>
      `WITH free ${locked(allLanes, closed)}, exempted ${locked(exemptLanes, closed)}
     , leased AS (
       UPDATE lanes SET holder = $2, token = nextval('lane_tokens'), lease_until = now_ms() + $4
       WHERE id = ANY (ARRAY(SELECT id FROM free UNION ALL SELECT id FROM exempted)) RETURNING id AS lane, conversation, channel, token, sender
     )
     SELECT leased.*, noted FROM leased RIGHT JOIN (
       SELECT set_config('bridgehead.leased', COALESCE((SELECT json_agg(conversation) FROM leased)::text, '[]'), true) AS noted
     ) AS claim ON true`,
    /** Reads the heads of the lanes that `lease` has leased in this transaction. Without LATERAL PostgreSQL would scan the
     *  tables while they are small, and go on with that plan while they grow. */
    heads: `SELECT ${columns} FROM json_array_elements_text(current_setting('bridgehead.leased')::json) AS lanes (conversation)
     CROSS JOIN LATERAL (SELECT * FROM ${items} WHERE ${items}.conversation = lanes.conversation AND ${items}.open = 1
       ORDER BY ${items}.seq LIMIT 1) AS ${items}
     ${withConversation}`,
  };
}

/** Which lanes are leased: at most `limit` due ones of the channel, for `holder`. */
export interface Claim {
  readonly channel: string;
  readonly holder: string;
  readonly leaseMs: number;
  readonly limit: number;
  /** Measures the deadline of the leases. */
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** Default: none. */
  readonly closed?: ClosedLanes;
  /** SQLite reads only the lanes that became due since the last such claim, where these are known (`LaneLeases`). For
   *  claims that follow `findDue`. */
  readonly announced?: boolean;
}

/** A leased lane with its head; null when it has none. */
export interface Held<T> {
  readonly lease: Lease;
  readonly deadline: LeaseDeadline;
  readonly head: T | null;
}

/** Claims of the lanes of one direction, with what they read of the head of each (`turns` or `drafts`). */
export class LaneHeads<T extends { readonly conversation: string }> {
  readonly #direction: Direction;
  readonly #sql: ReturnType<typeof claimsOf>;
  /** The statements of a claim without closed lanes. */
  readonly #usual: { readonly search: string; readonly lease: string };

  /** `columns`: see `claimsOf`. */
  constructor(direction: Direction, columns: string) {
    this.#direction = direction;
    this.#sql = claimsOf(direction, columns);
    this.#usual = { search: this.#sql.search(nothingClosed), lease: this.#sql.lease(nothingClosed) };
  }

  /** Leases due lanes of a channel, longest due first, and reads their heads. Lanes pinned to another node are
   *  skipped. Lanes that `holder` itself still holds are skipped even when that lease has expired by the
   *  clock, because the work continues after a clock step. PostgreSQL reads the heads in a later statement:
   *  one that claims and reads at once sees stale heads under READ COMMITTED. */
  async lease(q: Query, claim: Claim): Promise<readonly Held<T>[]> {
    const { leases: memory } = q;
    const { channel, holder, leaseMs, limit, clock, closed = nothingClosed } = claim;
    const deadline = leaseDeadline(clock, leaseMs);
    const isUsual = !closed.all && closed.senders.length === 0;
    if (memory === null) {
      const sql = isUsual ? this.#usual.lease : this.#sql.lease(closed);
      return this.#leaseRows(q, sql, [channel, holder, limit, leaseMs, ...closed.senders], deadline);
    }
    const work = itemTable[this.#direction];
    const follows = isUsual && claim.announced === true;
    const lanes = follows ? memory.announced(work, channel, holder) : null;
    const sql = lanes ? this.#sql.listed : isUsual ? this.#usual.search : this.#sql.search(closed);
    const list = JSON.stringify(lanes ?? memory.busy(holder, channel));
    const rows = await q.all<LaneColumns & T>(sql, channel, holder, limit, list, ...closed.senders);
    if (follows) memory.claimed(q, work, channel, rows.length < limit);
    return rows.map((row) => {
      const { lane, lane_conversation: conversation, lane_sender: sender } = row;
      const token = memory.take(q, lane, channel, holder, leaseMs);
      const lease = { lane, conversation, channel, token, sender };
      return { lease, deadline, head: row.conversation === null ? null : row };
    });
  }

  /** The statement for the heads finds the leased lanes in a setting of the transaction, so that both share a round trip. */
  async #leaseRows(
    q: Query,
    sql: string,
    values: readonly Value[],
    deadline: LeaseDeadline,
  ): Promise<readonly Held<T>[]> {
    const leases: Lease[] = [];
    const use = (rows: readonly (Lease | { readonly lane: null })[]) => {
      for (const row of rows) if (row.lane !== null) leases.push(row);
    };
    await q.defer({ use }, sql, ...values);
    const heads = new Map((await q.all<T>(this.#sql.heads)).map((row) => [row.conversation, row]));
    return leases.map((lease) => ({ lease, deadline, head: heads.get(lease.conversation) ?? null }));
  }
}

interface LaneColumns {
  readonly lane: string;
  readonly lane_conversation: string;
  readonly lane_sender: string;
}

/** Returns SQL that lists the channels with rows that satisfy `open`, and `due` if given. It iterates over the channels
 *  through the index on (channel, ...) WHERE `open`; a plain DISTINCT would read the whole backlog at every commit. */
export function channelsIn(
  table:
    | "events"
    | "turns"
    | "replies"
    | "drafts"
    | "attachments"
    | "polls"
    | "conversations"
    | "escalations"
    | "actions"
    | "lanes"
    | "raw_messages"
    | "platform_webhooks",
  open: string,
  due?: string,
): string {
  // Webhooks of the platform belong to an agent.
  const column = table === "platform_webhooks" ? "agent" : "channel";
  return `WITH RECURSIVE found (channel) AS (
     SELECT MIN(${column}) FROM ${table} WHERE ${open}
     UNION ALL
     SELECT (SELECT MIN(${column}) FROM ${table} WHERE ${open} AND ${column} > found.channel)
     FROM found WHERE found.channel IS NOT NULL
   )
   SELECT channel FROM found WHERE channel IS NOT NULL ${due === undefined ? "" : `AND ${due}`}`;
}

/** `also`: further conditions on `found`. */
const dueRows = (
  table: "events" | "attachments" | "polls",
  open: string,
  due: readonly string[],
  also: readonly string[] = [],
): string => {
  const some = due.map(
    (when) => `EXISTS (SELECT 1 FROM ${table} WHERE ${open} AND ${table}.channel = found.channel AND ${when})`,
  );
  return channelsIn(table, open, `(${[...some, ...also].join(" OR ")})`);
};

/** Channels whose messages wait under the cap, when it is time to look at them. CASE keeps the databases from reading what
 *  waits before that. */
const cappedDue = ["others_until", "preferred_until"].map(
  (until, preferred) => `CASE WHEN (SELECT ${until} FROM channels WHERE id = found.channel) <= now_ms() THEN EXISTS (
       SELECT 1 FROM events WHERE state = 'stored' AND code = '${cappedCode}' AND channel = found.channel
         AND preferred = ${preferred}) ELSE false END`,
);

/** Lanes that are not leased, and not pinned to another node than $1. */
const dueLanes = (direction: Direction): string => {
  const some = (which: Which) => `EXISTS (
       SELECT 1 FROM lanes WHERE ${which(direction, "found.channel").condition} AND (node IS NULL OR node = $1)
         AND id NOT IN (SELECT value FROM json_each($2)) -- only: sqlite
         AND lease_until <= now_ms() -- only: postgres
     )`;
  const either = `CASE WHEN ${isPaused("found.channel")} THEN ${some(exemptLanes)} ELSE ${some(allLanes)} END`;
  return channelsIn("lanes", `direction = '${direction}' AND due_at IS NOT NULL`, either);
};

const searches: Partial<Record<Work, string>> = {
  events: dueRows(
    "events",
    "state = 'stored'",
    ["postponed = 0 AND due_at <= now_ms()", "postponed = 1 AND due_at <= now_ms()"],
    cappedDue,
  ),
  turns: dueLanes("in"),
  replies: channelsIn("replies", "state = 'ready'"),
  drafts: dueLanes("out"),
  attachments: dueRows("attachments", "due_at IS NOT NULL", ["due_at <= now_ms()"]),
  polls: dueRows("polls", "due_at IS NOT NULL", ["due_at <= now_ms()"]),
};
const search = Object.entries(searches)
  .map(([work, channels]) => `SELECT '${work}' AS work, channel FROM (${channels}) AS due_${work}`)
  .join("\nUNION ALL\n");

/** Returns the channels with due work of each kind that `node` may do, in one statement. */
export async function dueWork(q: Query, node: string): Promise<ReadonlyMap<Work, ReadonlySet<string>>> {
  const busy = q.leases === null ? [] : [JSON.stringify(q.leases.busy(node))];
  const found = new Map<Work, Set<string>>();
  for (const { work, channel } of await q.all<{ work: Work; channel: string }>(search, node, ...busy))
    found.set(work, (found.get(work) ?? new Set()).add(channel));
  return found;
}

/** Adds the channels with due work to the hints of the transaction: of all kinds of work (`everything`), or of those whose
 *  channels are unknown. */
export async function findDue(q: Query, node: string, everything: boolean): Promise<void> {
  const wanted = Object.keys(searches).filter((work) => everything || q.touched.get(work as Work) === null);
  if (wanted.length === 0) return;
  const found = await dueWork(q, node);
  for (const work of wanted as Work[]) {
    for (const channel of found.get(work) ?? []) q.leases?.search(work, channel);
    const channels = [...(q.touched.get(work) ?? []), ...(found.get(work) ?? [])];
    if (channels.length > 0 || q.touched.has(work)) q.touched.set(work, new Set(channels));
  }
}

/** Lets what waits by rules of the configuration be decided again, because these may have changed: messages under the cap of
 *  their channel and, where there is a policy, escalations. */
export async function reconsiderWaiting(q: Query, hasPolicy: boolean): Promise<void> {
  await q.write("UPDATE channels SET others_until = 0, preferred_until = 0 WHERE others_until > 0");
  if (hasPolicy) await reconsiderEscalations(q);
}

// A clock that was ahead and went back. What is due was scheduled by the wrong clock and would wait until the clock is there
// again, which may take days. SQLite only: PostgreSQL has a clock of its own. Other times at which something happened stay as
// they are, since the clock may also be behind at a start, and data that looks old would be deleted.

/** Returns the milliseconds by which the last writes of the store are ahead of the clock; zero or less when they are not. */
export async function aheadOfClock(q: Query): Promise<number> {
  const row = await q.one<{ ahead: number | null }>(
    `SELECT MAX(written) - now_ms() AS ahead FROM (
       SELECT received_at AS written FROM events WHERE id = (SELECT MAX(id) FROM events)
       UNION ALL SELECT MAX(updated_at) FROM turns WHERE open = 1
       UNION ALL SELECT MAX(updated_at) FROM drafts WHERE open = 1
     ) AS last`,
  );
  return row?.ahead ?? 0;
}

/** Messages that were refused for their age and seem to arrive in the future: their age was measured by the wrong clock, so
 *  they are decided again. None when the clock is behind the first start of the channels: then it is the wrong one. */
const doubtful = moves("events", "stored", {
  set: `code = '${clockAhead}', reason = NULL, attempts = 0, due_at = now_ms(), postponed = 1`,
  from: ["ignored"],
  where: `kind = 'message' AND received_at > now_ms() AND code = '${tooOldCode}' AND body <> '{}'
    AND now_ms() >= (SELECT MIN(since) FROM channels)`,
});

/** Times from which the waits of open work count: for a question that never arrived, for the lifetime of what is deferred, and
 *  for the conversation that a delivery of the platform names. */
const counted = [
  "UPDATE attempts SET ended_at = ended_at - $1 WHERE ended_at > now_ms() AND subject IN (SELECT id FROM turns WHERE open = 1)",
  "UPDATE turns SET tried_at = tried_at - $1 WHERE tried_at > now_ms() AND open = 1",
  "UPDATE drafts SET tried_at = tried_at - $1 WHERE tried_at > now_ms() AND open = 1",
  "UPDATE platform_webhooks SET received_at = received_at - $1 WHERE received_at > now_ms() AND due_at IS NOT NULL",
];

/** Moves what is due in the future by `ms` milliseconds towards now: waiting work, pauses and rate limits. */
export async function hastenDue(q: Query, ms: number): Promise<void> {
  const columns = await q.all<{ owner: string; name: string }>(
    `SELECT tables.name AS owner, columns.name AS name
     FROM sqlite_schema AS tables JOIN pragma_table_info(tables.name) AS columns
     WHERE tables.type = 'table' AND tables.name <> 'leases'
       AND columns.name IN ('due_at', 'until', 'penalty_until', 'reconcile_until', 'preferred_until', 'others_until')`,
  );
  for (const { owner, name } of columns)
    await q.run(`UPDATE ${owner} SET ${name} = ${name} - $1 WHERE ${name} > now_ms()`, ms);
  for (const update of counted) await q.run(update, ms);
  await q.run(doubtful);
  await q.run("UPDATE rates SET arrival = arrival - $1 * 1000 WHERE arrival > now_ms() * 1000", ms);
  q.leases?.hasten(q, ms);
}
