// Stages accept and route: events, their raw bytes, and the order of those that wait for capacity under the rate cap of their
// channel.

import { loopCode } from "../../domain/guards.ts";
import { traceOf } from "../../ops/hops.ts";
import { isRecent, ManyRows, notAhead, type Query } from "../driver.ts";
import { movesToAny, type StateOf, stateWhere, TransitionRefused } from "../transitions.ts";
import { pauseEnd } from "./pauses.ts";
import { allOwn } from "./suppressions.ts";

/** Code of a stored message that waits for capacity under the channel's cap. It has no due time of its own
 *  (`farTime`): its channel has the time at which it is looked at again (`postponeChannel`). */
export const cappedCode = "cap-channel";
/** The last time that a `Date` can hold. */
const farTime = 8.64e15;
/** Code of a stored event that is exempt from the channel's cap. */
export const exempt = "exempt";
/** Code of an event that an operator has released: the guards and caps do not apply to it. */
export const releasedCode = "released";

export interface EventRow {
  readonly id: number;
  readonly channel: string;
  readonly kind: "message" | "delivery" | "session";
  readonly state: string;
  readonly code: string | null;
  readonly reason: string | null;
  readonly body: string;
  readonly attempts: number;
  readonly received_at: number;
  /** 1: the sender is authenticated or known, so it has priority under the channel's cap. */
  readonly preferred: 0 | 1;
  /** Queue key for fair scheduling under the channel's cap: the sender, or the domain of unauthenticated senders. */
  readonly queue: string | null;
}

export interface DueEvent extends EventRow {
  /** 1: messages of its channel wait for capacity under the cap. */
  readonly capped: 0 | 1;
}

const blobRows = new ManyRows<{ readonly id: string; readonly bytes: Uint8Array }>(
  "INSERT INTO blobs (id, bytes, stored_at) VALUES",
  "(:id, :bytes, now_ms())",
  "ON CONFLICT (id) DO NOTHING",
);

/** Stores bytes under their digest; identical bytes are shared. Bytes without a reference are deleted by
 *  the retention. */
export const insertBlobs = (
  q: Query,
  blobs: readonly { readonly id: string; readonly bytes: Uint8Array }[],
): Promise<void> => blobRows.write(q, blobs);

/** Returns the ids that are stored, as ids of events or as provider ids of sent messages. */
export async function knownEvents(q: Query, channel: string, ids: readonly string[]): Promise<Set<string>> {
  const known = new Set<string>();
  for (const id of ids) {
    const row = await q.one(
      `SELECT 1 FROM events WHERE channel = $1 AND external_id = $2
       UNION ALL SELECT 1 FROM citations WHERE channel = $1 AND external_id = $2 AND draft IS NOT NULL LIMIT 1`,
      channel,
      id,
    );
    if (row) known.add(id);
  }
  return known;
}

export async function readCursor(q: Query, channel: string): Promise<string | null> {
  const row = await q.one<{ cursor: string | null }>("SELECT cursor FROM channels WHERE id = $1", channel);
  return row?.cursor ?? null;
}

/** Ensures that a configured channel has a row with the time of its first run on this store. Called at start. */
export async function ensureChannel(q: Query, channel: string): Promise<void> {
  await q.write("INSERT INTO channels (id, since) VALUES ($1, now_ms()) ON CONFLICT (id) DO NOTHING", channel);
}

/** Returns every channel that ever ran on this store, with the time of its first run (epoch milliseconds). */
export async function channelsSince(q: Query): Promise<Map<string, number>> {
  const rows = await q.all<{ id: string; since: number }>("SELECT id, since FROM channels");
  return new Map(rows.map((row) => [row.id, row.since]));
}

/** Serializes the transactional stages of a channel, so that two nodes cannot reorder the messages of
 *  one person. Returns false without waiting when another transaction has the lock, or when the channel
 *  does not exist. Waiting could deadlock, because the caller may hold locks that the other transaction
 *  needs. SQLite has one writer and needs no lock. */
export async function lockChannel(q: Query, channel: string): Promise<boolean> {
  if (q.leases) return true;
  const row = await q.one(
    `SELECT id FROM channels WHERE id = $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    channel,
  );
  return row !== undefined;
}

const eventColumns = `id, channel, kind, state, code, reason, body, attempts, ${notAhead("received_at")} AS received_at, preferred, queue`;

/** Builds a query over the stored events of a channel in two parts, each with an index of its own: those that were never
 *  postponed, which are routed in the transaction that stores them, and the others. */
const storedParts = (part: (where: string) => string): string =>
  [0, 1]
    .map((postponed) => part(`channel = $1 AND state = 'stored' AND postponed = ${postponed}`))
    .map((rows) => `SELECT * FROM (${rows}) AS part`)
    .join(" UNION ALL ");

/** Finds one of the messages that wait for capacity under the cap of channel $1. */
const firstCapped = `SELECT 1 FROM events WHERE channel = $1 AND state = 'stored' AND code = '${cappedCode}' LIMIT 1`;

/** The ids are selected from an index: one in the order of arrival would lead through all that was postponed. */
const oldestStored = `WITH sized AS (
    SELECT id AS event, SUM(size) OVER (ORDER BY id) - size AS earlier FROM (${storedParts(
      (where) => `SELECT id, octet_length(body) AS size FROM events
     WHERE id IN (SELECT id FROM events WHERE ${where} AND due_at <= now_ms()) ORDER BY id LIMIT $2`,
    )} ORDER BY id LIMIT $2) AS due)
  SELECT ${eventColumns}, CASE WHEN EXISTS (${firstCapped}) THEN 1 ELSE 0 END AS capped
  FROM sized CROSS JOIN events WHERE events.id = sized.event AND earlier < 16000000 ORDER BY events.id`;

/** Returns the oldest stored events of a channel that are due, in order of arrival: none after 16 MB, because each may have a
 *  megabyte. Without messages that wait under its cap. */
export async function storedEvents(q: Query, channel: string, limit: number): Promise<DueEvent[]> {
  return q.all<DueEvent>(oldestStored, channel, limit);
}

export interface EventOutcome {
  readonly state: StateOf<"events">;
  readonly code?: string | null;
  readonly reason?: string | null;
  readonly conversation?: string | null;
  /** The turn that asks it; unchanged when absent. */
  readonly turn?: string;
}

const eventMoves = movesToAny("events", {
  set: `code = given.code, reason = given.reason,
     conversation = COALESCE(given.conversation, events.conversation), turn = COALESCE(given.turn, events.turn)
     FROM given`,
  where: "events.id = given.id",
});
const outcomeRows = new Map(
  Object.entries(eventMoves).map(([state, move]) => [
    state,
    new ManyRows<EventOutcome>(
      "WITH given (id, code, reason, conversation, turn) AS (VALUES",
      "(CAST(:id AS BIGINT), :code, :reason, :conversation, :turn)",
      `)
       ${move} RETURNING events.id, events.channel, events.kind`,
    ),
  ]),
);

/** Records the outcomes of events. Throws TransitionRefused. */
export async function recordOutcomes(
  q: Query,
  outcomes: readonly (EventOutcome & { readonly id: number })[],
): Promise<void> {
  for (const state of new Set(outcomes.map((one) => one.state))) {
    const rows = outcomes.filter((one) => one.state === state);
    const changed = (await outcomeRows.get(state)?.all<OutcomeRow>(q, rows)) ?? [];
    if (changed.length !== rows.length)
      throw new TransitionRefused("events", rows.map(({ id }) => id).join(", "), state);
    // The hops of a question and of a receipt are reported by their stages.
    const unasked = new Map(rows.filter(({ turn }) => turn === undefined).map((one) => [one.id, one]));
    for (const row of changed) {
      const outcome = row.kind === "message" ? unasked.get(row.id) : undefined;
      if (outcome !== undefined) reportOutcome(q, row, outcome);
    }
  }
}

interface OutcomeRow {
  readonly id: number;
  readonly channel: string;
  readonly kind: EventRow["kind"];
}

/** Reports what became of a message that is not asked. */
function reportOutcome(q: Query, { id, channel }: OutcomeRow, outcome: EventOutcome): void {
  const { state, code, conversation } = outcome;
  const name = ({ ignored: "refused", held: "held", failed: "failed", routed: "handled" } as const)[state as "ignored"];
  q.hop({
    name,
    channel,
    trace: traceOf(id),
    event: id,
    code: code ?? null,
    conversation: conversation ?? null,
  });
}

/** Reports the outcome of all messages of a turn that gets no answer; called with `recordOutcomesOf`. */
export function reportUnanswered(
  q: Query,
  turn: Readonly<Record<"id" | "channel" | "conversation" | "trace", string>>,
  { state, code }: { readonly state: "ignored" | "held" | "failed"; readonly code: string },
): void {
  const { id, channel, conversation, trace } = turn;
  if (trace === "") return;
  q.hop({ name: state === "ignored" ? "refused" : state, channel, trace, conversation, turn: id, code });
}

/** Records the outcome of one event. Throws TransitionRefused. */
export const recordOutcome = (q: Query, id: number, outcome: EventOutcome): Promise<void> =>
  recordOutcomes(q, [{ ...outcome, id }]);

/** Schedules routing again in `delayMs`, if the event was received within the last `withinMs`; else returns false. */
export async function awaitDraft(q: Query, event: number, delayMs: number, withinMs: number): Promise<boolean> {
  const changed = await q.run(
    `UPDATE events SET due_at = now_ms() + $2, postponed = 1 WHERE id = $1 AND ${isRecent("received_at", "$3")}`,
    event,
    delayMs,
    withinMs,
  );
  return changed === 1;
}

/** Returns whether the person sent the keyword (an event with that code) on the channel after `since`, epoch milliseconds.
 *  `to`: to that own address, null for the default; undefined: to any. */
export async function hasKeywordSince(
  q: Query,
  channel: string,
  person: string,
  {
    code,
    since,
    to,
  }: { readonly code: "opt-out" | "opt-in"; readonly since: number; readonly to: string | null | undefined },
): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM events WHERE channel = $1 AND sender = $2 AND code IN ('opt-out', 'opt-in') AND code = $3
       AND sent_at > $4 AND ($5 = '${allOwn}'
         OR COALESCE(json_extract(body, '$.via'), '') = $5) -- only: sqlite
         OR COALESCE(CAST(body AS json) ->> 'via', '') = $5) -- only: postgres
     LIMIT 1`,
    channel,
    person,
    code,
    since,
    to === undefined ? allOwn : (to ?? ""),
  );
  return row !== undefined;
}

/** Counts the held messages of the channel that were received in the last `perMs`, up to `limit`. */
export async function countHeld(q: Query, channel: string, perMs: number, limit: number): Promise<number> {
  const row = await q.one<{ count: number }>(
    `SELECT count(*) AS count FROM (SELECT 1 AS one FROM events WHERE state IN ('held', 'failed') AND state = 'held'
       AND channel = $1 AND kind = 'message' AND ${isRecent("received_at", "$2")} ORDER BY id DESC LIMIT $3) AS held`,
    channel,
    perMs,
    limit,
  );
  return row?.count ?? 0;
}

/** Counts the senders of the channel whose messages were refused as loops or held by the cap of a sender or a
 *  conversation: in the last `perMs`, and after the end of the channel's last pause. */
export async function loopingSenders(q: Query, channel: string, perMs: number): Promise<number> {
  const row = await q.one<{ count: number }>(
    `SELECT COUNT(DISTINCT sender) AS count FROM events WHERE channel = $1 AND ${isRecent("received_at", "$2")} AND body <> '{}'
       AND received_at >= ${pauseEnd("$1")} AND code IN ('${loopCode}', 'cap-sender', 'cap-conversation')`,
    channel,
    perMs,
  );
  return row?.count ?? 0;
}

/** Records the outcome of every message that the turn asks. A message whose state cannot change to it
 *  stays as it is. */
export async function recordOutcomesOf(
  q: Query,
  turn: string,
  outcome: { state: StateOf<"events">; code: string | null; reason: string | null },
): Promise<void> {
  await q.write(turnsEventMoves[outcome.state], turn, outcome.code, outcome.reason);
}
const turnsEventMoves = movesToAny("events", {
  set: "code = $2, reason = $3",
  where: "turn = $1",
  again: true,
});

/** Schedules a retry after routing threw; after `limit` attempts the event fails. */
export async function postponeEvent(
  q: Query,
  id: number,
  delayMs: number,
  limit: number,
  reason: string,
): Promise<void> {
  await q.write(
    `UPDATE events SET attempts = attempts + 1, due_at = now_ms() + $2, postponed = 1, reason = $4,
       ${stateWhere("events", "failed", "attempts + 1 >= $3")},
       code = CASE WHEN attempts + 1 >= $3 AND code = '${exempt}' OR code = '${cappedCode}' THEN NULL ELSE code END
     WHERE id = $1`,
    id,
    delayMs,
    limit,
    reason,
  );
}

/** Condition for messages that are subject to the cap of the channel. */
const underCap = `kind = 'message' AND COALESCE(code, '') NOT IN ('${releasedCode}', '${exempt}')`;
const dueOrCapped = `(due_at <= now_ms() OR code = '${cappedCode}')`;

/** Returns whether messages of the channel wait for capacity under its cap. */
export async function isCapped(q: Query, channel: string): Promise<boolean> {
  return (await q.one(firstCapped, channel)) !== undefined;
}

const dueStored = storedParts((where) => `SELECT id FROM events WHERE ${where} AND due_at <= now_ms()`);

/** Returns the waiting messages of a channel at its cap, in the order in which they get the available capacity. Preferred
 *  senders come first. Then come the senders with the fewest turns in the last `windowMs`, counting their earlier messages in
 *  this queue; ties are resolved by arrival. With `preferredOnly` only those of preferred senders. Orders the entries of an
 *  index, and reads the first rows: none after 16 MB, because few have room, and each may have megabytes. */
export async function fairEvents(
  q: Query,
  channel: string,
  windowMs: number,
  limit: number,
  preferredOnly: boolean,
): Promise<EventRow[]> {
  return q.all<EventRow>(
    `WITH served AS (
       SELECT queue, COUNT(*) AS turns FROM turns
       WHERE channel = $1 AND ${isRecent("made_at", "$2")} AND kind = 'question' GROUP BY queue
     ), waiting AS (
       SELECT id, preferred, queue, ROW_NUMBER() OVER (PARTITION BY preferred, queue ORDER BY id) AS place FROM (
         SELECT id, preferred, queue FROM events
         WHERE channel = $1 AND state = 'stored' AND code = '${cappedCode}' AND preferred >= $4
         UNION ALL SELECT id, preferred, queue FROM events WHERE id IN (${dueStored}) AND preferred >= $4 AND ${underCap}
       ) AS queued
     ), ranked AS (
       SELECT waiting.id AS event, waiting.preferred AS rank, place + COALESCE(served.turns, 0) AS place
       FROM waiting LEFT JOIN served ON served.queue = waiting.queue ORDER BY rank DESC, place, event LIMIT $3
     ), sized AS (SELECT ranked.*, SUM(octet_length(body)) OVER (ORDER BY rank DESC, place, id) - octet_length(body) AS earlier
       FROM ranked CROSS JOIN events WHERE events.id = ranked.event)
     SELECT ${eventColumns} FROM sized CROSS JOIN events WHERE events.id = sized.event AND earlier < 16000000
     ORDER BY sized.rank DESC, sized.place, events.id`,
    channel,
    windowMs,
    limit,
    preferredOnly ? 1 : 0,
  );
}

/** Returns the first messages that wait under the cap before `id`, from addresses that take part in that
 *  conversation: none after 16 MB. */
export const elderEvents = (q: Query, channel: string, id: number, conversation: string): Promise<EventRow[]> =>
  q.all<EventRow>(firstElders, channel, id, conversation);
const elders = storedParts(
  (where) =>
    `SELECT id, octet_length(body) AS size FROM events
     WHERE ${where} AND id < $2 AND ${underCap} AND ${dueOrCapped} AND sender IN (
       SELECT person FROM conversations WHERE id = $3
       UNION ALL SELECT address FROM participants WHERE conversation = $3)
     ORDER BY id LIMIT 32`,
);
const firstElders = `WITH sized AS (
    SELECT id AS event, SUM(size) OVER (ORDER BY id) - size AS earlier FROM (${elders} ORDER BY id LIMIT 32) AS elder)
  SELECT ${eventColumns} FROM sized CROSS JOIN events WHERE events.id = sized.event AND earlier < 16000000 ORDER BY events.id`;

/** Counts the messages that wait for capacity under the cap of their channel. */
export async function cappedEvents(
  q: Query,
): Promise<{ readonly channel: string; readonly preferred: 0 | 1; readonly count: number }[]> {
  return q.all(
    `SELECT channel, preferred, COUNT(*) AS count FROM events WHERE state = 'stored' AND code = '${cappedCode}'
     GROUP BY channel, preferred ORDER BY channel, preferred`,
  );
}

/** Postpones the waiting messages of a channel at its cap by `delayMs`. Exempt messages and messages released by an
 *  operator are not postponed. With `preferred` false only those of other senders are postponed. Writes the rows of new
 *  messages only: those that wait already have no due time of their own. */
export async function postponeChannel(q: Query, channel: string, delayMs: number, preferred: boolean): Promise<void> {
  const most = preferred ? 1 : 0;
  await q.write(
    `UPDATE channels SET others_until = now_ms() + $2,
       preferred_until = CASE WHEN $3 = 1 THEN now_ms() + $2 ELSE preferred_until END WHERE id = $1`,
    channel,
    delayMs,
    most,
  );
  await q.write(
    `UPDATE events SET due_at = ${farTime}, postponed = 1, code = '${cappedCode}', reason = 'the channel is at its cap'
     WHERE id IN (${dueStored}) AND preferred <= $2 AND ${underCap}`,
    channel,
    most,
  );
}
