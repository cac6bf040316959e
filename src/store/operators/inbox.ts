// Operator commands for events: list unanswered events, release one, drop one.

import { traceOf } from "../../ops/hops.ts";
import { listOf, type Query, touch } from "../driver.ts";
import { recordAction, someOperator } from "../tables/actions.ts";
import { cappedCode, type EventRow, recordOutcomesOf, releasedCode } from "../tables/events.ts";
import { askTurnNow, reviveTurn, unblockTurn } from "../tables/turns.ts";
import { moves } from "../transitions.ts";
import { droppedBecause, operatorCode, type RowFilter } from "./outbox.ts";

export interface EventSummary
  extends Pick<EventRow, "id" | "channel" | "kind" | "state" | "code" | "reason" | "attempts" | "received_at"> {
  readonly external_id: string;
  /** The id that answers cite (a Message-ID), when it differs from `external_id`. */
  readonly cited: string | null;
  readonly sender: string | null;
  readonly subject: string | null;
  readonly sent_at: number | null;
  readonly conversation: string | null;
}

export const eventColumns =
  "id, channel, external_id, cited, kind, state, code, reason, sender, subject, attempts, sent_at, received_at, conversation";

/** `waiting`: to be routed, or with an open question. `answered`: routed, and the question is closed. */
export type ListedState = "ignored" | "held" | "failed" | "stored" | "waiting" | "answered" | "all";

const isOpen = `COALESCE((SELECT turns.state FROM turns WHERE turns.id = events.turn), '')
  IN ('waiting', 'asking', 'unknown')`;
/** The state by which `--state` selects a message. */
const listedState = `CASE WHEN state = 'stored' OR state = 'routed' AND ${isOpen} THEN 'waiting'
  WHEN state = 'routed' THEN 'answered' ELSE state END`;
/** A message that waits has the reason for which its question was not answered yet. */
const listedReason = `COALESCE(reason, (SELECT turns.reason FROM turns WHERE turns.id = events.turn AND turns.open = 1))`;
const listedColumns = eventColumns
  .replace(" state,", ` ${listedState} AS state,`)
  .replace(" reason,", ` ${listedReason} AS reason,`);

// The first three repeat the condition of the partial index; without it the databases would scan all events.
const stopped = "state IN ('ignored', 'held', 'failed') AND state =";
const conditions: Readonly<Record<ListedState, string>> = {
  ignored: `${stopped} 'ignored'`,
  held: `${stopped} 'held'`,
  failed: `${stopped} 'failed'`,
  stored: "state = 'stored'",
  waiting: `id IN (SELECT id FROM events WHERE state = 'stored'
     UNION ALL SELECT asked.id FROM turns JOIN events AS asked ON asked.turn = turns.id WHERE turns.open = 1)`,
  // A subquery per row: the planner of PostgreSQL would join all turns.
  answered: `state = 'routed' AND NOT ${isOpen}`,
  all: "state <> ''",
};

export interface EventFilter extends RowFilter {
  readonly state: ListedState;
  readonly code?: string;
  /** Without delivery receipts and changes of calls. */
  readonly kind?: "message";
  /** Continues after this event (its number), with older ones. */
  readonly after?: number;
}

export interface EventPage {
  readonly events: readonly EventSummary[];
  /** The last event that was read, when the page is not full and older events were not read; else null. */
  readonly readTo: Pick<EventSummary, "id" | "received_at"> | null;
}

/** Events that are read for each one of the page. */
const readForEach = 100;

/** Lists events, newest first; their `state` is one of `ListedState`. A page reads a bounded number of them, except of those that wait, which are few. */
export async function listEvents(q: Query, wanted: EventFilter): Promise<EventPage> {
  const { state, since = 0, limit } = wanted;
  const last = state === "waiting" || state === "stored" ? null : await lastRead(q, wanted);
  const events = await q.all<EventSummary>(
    `SELECT ${listedColumns} FROM events WHERE ${conditions[state]} AND (code = $1 OR $1 = '')
       AND (channel = $2 OR $2 = '') AND (kind = $3 OR $3 = '') AND received_at >= $4 AND id < $5 AND id >= $6
     ORDER BY id DESC LIMIT $7`,
    wanted.code ?? "",
    wanted.channel ?? "",
    wanted.kind ?? "",
    since,
    wanted.after ?? endOfNumbers,
    last?.id ?? 0,
    limit,
  );
  const isComplete = events.length === limit || (last?.received_at ?? 0) < since;
  return { events, readTo: isComplete ? null : last };
}

/** After every number. */
const endOfNumbers = Number.MAX_SAFE_INTEGER;

/** Returns the last of the events that a page reads; null when there are fewer. Reads the index of stopped events, or all
 *  events. */
async function lastRead(q: Query, { state, after = endOfNumbers, limit }: EventFilter): Promise<EventPage["readTo"]> {
  const last = await q.one<NonNullable<EventPage["readTo"]>>(
    `SELECT id, received_at FROM events WHERE ${state === "answered" ? conditions.all : conditions[state]} AND id < $1
     ORDER BY id DESC LIMIT 1 OFFSET $2`,
    after,
    readForEach * limit - 1,
  );
  return last ?? null;
}

/** Returns the state of an event as the lists show it; undefined when it does not exist. */
export const readListedState = async (q: Query, id: number): Promise<string | undefined> =>
  (await q.one<{ state: string }>(`SELECT ${listedState} AS state FROM events WHERE id = $1`, id))?.state;

export async function readEvents(q: Query, ids: Iterable<number>): Promise<ReadonlyMap<number, EventSummary>> {
  const rows = await q.all<EventSummary>(
    `SELECT ${eventColumns} FROM events
     WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each($1)) -- only: sqlite
     WHERE id = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS json)) AS BIGINT))) -- only: postgres
    `,
    listOf([...ids].map(String)),
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Routes a message that was ignored, held or failed, or that waits under its channel's cap; the guards
 *  do not apply to it. A question that waits for its next attempt is asked now. Throws when the id is unknown, when the
 *  event is not a message or is a duplicate, and when retention has erased its text. */
export async function releaseEvent(q: Query, id: number, actor: string = someOperator): Promise<void> {
  await recordAction(q, { action: "answer", actor }, { event: id });
  if (await reviveAsked(q, id)) return;
  const changed = await q.run(
    moves("events", "stored", {
      set: `code = '${releasedCode}', reason = NULL, attempts = 0, due_at = now_ms(), postponed = 1`,
      where: `id = $1 AND kind = 'message' AND (state <> 'stored' OR code = '${cappedCode}') AND body <> '{}'
       AND COALESCE(code, '') NOT IN ('duplicate', 'opt-out', 'opt-in', 'help')`,
      again: true,
    }),
    id,
  );
  const event = await q.one<
    Pick<EventRow, "channel" | "kind" | "state" | "code" | "body"> & {
      conversation: string | null;
      turn: string | null;
    }
  >("SELECT channel, conversation, turn, kind, state, code, body FROM events WHERE id = $1", id);
  if (changed === 1 && event) {
    touch(q, "events");
    return reportEvent(q, "released", { id, ...event });
  }
  if (!event) throw new Error(`releasing event ${id}: there is none (see inbox list)`);
  if (event.turn !== null && (await askTurnNow(q, event.turn))) return reportEvent(q, "released", { id, ...event });
  if (event.kind !== "message") throw new Error(`releasing event ${id}: it is no message but a ${event.kind}`);
  if (event.code === "duplicate") throw new Error(`releasing event ${id}: it is a copy of another message`);
  if (["opt-out", "opt-in", "help"].includes(event.code ?? ""))
    throw new Error(`releasing event ${id}: it is an opt-out, opt-in or help word, which no agent answers`);
  if (event.body === "{}") throw new Error(wordsErased(id));
  const listed = await readListedState(q, id);
  const hint = listed === "waiting" ? `, and due now (see conversation show ${id})` : "";
  throw new Error(`releasing event ${id}: it is ${listed}${hint}`);
}

const wordsErased = (id: number): string => `releasing event ${id}: its text was erased (retention)`;

/** Closes a held or failed message without an answer, with the other messages of its question. It keeps the code for
 *  which it was held. `why` is the operator's reason. Throws when the id is unknown, or when the message is in another
 *  state. */
export async function dropEvent(q: Query, id: number, actor: string, why?: string): Promise<void> {
  await recordAction(q, { action: "drop", actor, detail: why ?? null }, { event: id });
  const event = await q.one<{ state: string; turn: string | null }>("SELECT state, turn FROM events WHERE id = $1", id);
  if (!event) throw new Error(`dropping message ${id}: there is none (see inbox list)`);
  const changed = await q.all<ReportedEvent>(
    `${dropped} RETURNING id, channel, conversation`,
    id,
    event.turn ?? "",
    droppedBecause(why),
  );
  if (changed.length === 0)
    throw new Error(`dropping message ${id}: it is ${await readListedState(q, id)}, not held or failed`);
  for (const one of changed) reportEvent(q, "refused", one, operatorCode);
  if (event.turn !== null) await unblockTurn(q, event.turn);
}

interface ReportedEvent {
  readonly id: number;
  readonly channel: string;
  readonly conversation: string | null;
}

function reportEvent(
  q: Query,
  name: "released" | "refused",
  { id, channel, conversation }: ReportedEvent,
  code: string | null = null,
): void {
  q.hop({ name, channel, trace: traceOf(id), event: id, conversation, code });
}

const dropped = moves("events", "ignored", {
  set: "reason = $3",
  where: "(id = $1 OR turn = $2) AND kind = 'message'",
  from: ["held", "failed"],
});

/** Resumes a message at the stage where it stopped: its question failed or got no answer, or its reply
 *  could not be composed. Returns false for a message that never reached those stages, or whose text is erased. Throws when
 *  retention has erased its question or its reply, in an earlier batch than the message: the agent or the customer would
 *  get an empty text. */
async function reviveAsked(q: Query, id: number): Promise<boolean> {
  const event = await q.one<ReportedEvent & { turn: string | null; erased: number }>(
    `SELECT id, channel, conversation, turn, CASE
         WHEN EXISTS (SELECT 1 FROM turns WHERE turns.id = events.turn AND question = '' AND address = '{}') THEN 1
         WHEN EXISTS (SELECT 1 FROM replies WHERE replies.turn = events.turn AND kept = 0) THEN 1 ELSE 0 END AS erased
     FROM events WHERE id = $1 AND state IN ('ignored', 'held', 'failed') AND body <> '{}'`,
    id,
  );
  if (!event?.turn) return false;
  if (event.erased === 1) throw new Error(wordsErased(id));
  const composed = await q.run(moves("replies", "ready", { set: "reason = NULL", where: "turn = $1" }), event.turn);
  if (composed === 0 && !(await reviveTurn(q, event.turn))) return false;
  if (composed > 0) touch(q, "replies");
  // Messages that were debounced into one turn are asked and released together.
  await recordOutcomesOf(q, event.turn, { state: "routed", code: releasedCode, reason: null });
  reportEvent(q, "released", event);
  return true;
}

/** Returns the raw message from the provider; null when the channel stored none, or retention has erased it. */
export async function readRaw(q: Query, event: number): Promise<Uint8Array | null> {
  const row = await q.one<{ bytes: Uint8Array }>(
    "SELECT bytes FROM events JOIN raw_messages USING (channel) WHERE events.id = $1 AND event = $1",
    event,
  );
  return row?.bytes ?? null;
}

/** Result of a message so far. `reason` says why there is no answer; null when there is one, or may still be. */
export interface Fate {
  readonly state: "pending" | "answered" | "unanswered";
  readonly reason: string | null;
}

/** Derives the result of a message from its question, its reply and the drafts that carry the answer. */
export async function messageFate(q: Query, id: number): Promise<Fate> {
  const event = await q.one<Pick<EventRow, "state" | "code" | "reason"> & { turn: string | null }>(
    "SELECT state, code, reason, turn FROM events WHERE id = $1",
    id,
  );
  if (!event || event.state === "stored") return pending;
  if (event.state !== "routed") return unanswered(event.reason ?? event.code ?? event.state);
  if (event.turn === null) return unanswered("it belongs to an escalation");
  const turn = await q.one<{ state: string; reason: string | null }>(
    "SELECT state, reason FROM turns WHERE id = $1",
    event.turn,
  );
  if (!turn || ["waiting", "asking", "unknown"].includes(turn.state)) return pending;
  if (turn.state !== "answered") return unanswered(turn.reason ?? `the agent is ${turn.state}`);
  const reply = await q.one<{ id: string; state: string; reason: string | null }>(
    "SELECT id, state, reason FROM replies WHERE turn = $1",
    event.turn,
  );
  if (reply?.state === "failed") return unanswered(reply.reason ?? "its answer could not be composed");
  if (reply?.state !== "composed") return pending;
  const drafts = await q.all<{ state: string; reason: string | null }>(
    "SELECT state, reason FROM drafts WHERE reply = $1",
    reply.id,
  );
  if (drafts.some(({ state }) => ["queued", "sending", "unknown"].includes(state))) return pending;
  const unsent = drafts.find(({ state }) => !["sent", "delivered"].includes(state));
  if (unsent) return unanswered(unsent.reason ?? `its answer is ${unsent.state}`);
  return { state: "answered", reason: null };
}

const pending: Fate = { state: "pending", reason: null };
const unanswered = (reason: string): Fate => ({ state: "unanswered", reason });
