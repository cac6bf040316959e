// Escalations: incidents that a human must know of, with all their triggers. At most one unclosed
// escalation exists per subject (`about`).

import { fromListed, isListed, listOf, ManyRows, type Query, touch } from "../driver.ts";
import { moves } from "../transitions.ts";

export interface EscalationRow {
  readonly id: string;
  /** Number for commands such as "ok 417". Increasing, with possible gaps. */
  readonly number: number;
  /** `conversation:<id>`, `channel:<id>:<cause>`, `channel:<id>:warning:<code>`, `agent:<name>:<what it named>` or
   *  `store`. */
  readonly about: string;
  readonly conversation: string | null;
  readonly channel: string;
  readonly agent: string;
  readonly state: "open" | "acknowledged" | "closed";
  readonly cause: string;
  readonly topic: string | null;
  readonly reason: string;
  readonly tier: number;
  readonly entered_at: number;
  readonly notified_at: number | null;
  readonly due_at: number | null;
  /** The name of the responder who acknowledged it. */
  readonly acknowledged_by: string | null;
  /** Contact of that responder; null when it was acknowledged by a command. */
  readonly acknowledged_target: string | null;
  readonly acknowledged_at: number | null;
  readonly opened_at: number;
  /** Turns of its conversation with this sequence number or a higher one came after it. Sequence numbers
   *  are used because the clock may step backward. */
  readonly from_seq: number;
  readonly closed_at: number | null;
  readonly closed_by: string | null;
}

export const escalationColumns =
  "id, number, about, conversation, channel, agent, state, cause, topic, reason, tier, entered_at, notified_at, due_at, acknowledged_by, acknowledged_target, acknowledged_at, opened_at, from_seq, closed_at, closed_by";

export async function readEscalation(q: Query, id: string): Promise<EscalationRow> {
  const row = await q.one<EscalationRow>(`SELECT ${escalationColumns} FROM escalations WHERE id = $1`, id);
  if (!row) throw new Error(`reading escalation ${id}: there is none`);
  return row;
}

/** Locks the escalations with these ids for this transaction and returns their current rows. `free`
 *  skips rows locked by other transactions instead of waiting. The rows are locked in a fixed order, so
 *  that concurrent callers cannot deadlock. */
export async function lockEscalations(
  q: Query,
  ids: Iterable<string>,
  which: "all" | "free" = "all",
): Promise<ReadonlyMap<string, EscalationRow>> {
  const rows = await q.all<EscalationRow>(
    `SELECT ${escalationColumns} FROM escalations WHERE ${isListed("id")} ORDER BY id
     FOR UPDATE${which === "free" ? " SKIP LOCKED" : ""} -- only: postgres`,
    listOf(ids),
  );
  return new Map(rows.map((row) => [row.id, row]));
}

export async function escalationByNumber(q: Query, number: number): Promise<EscalationRow | null> {
  return (await q.one<EscalationRow>(`SELECT ${escalationColumns} FROM escalations WHERE number = $1`, number)) ?? null;
}

/** Returns the unclosed escalation about that subject, locked for this transaction. A concurrent close
 *  either commits first, and then nothing is found, or waits for this transaction. */
export async function liveEscalation(q: Query, about: string): Promise<EscalationRow | null> {
  const row = await q.one<EscalationRow>(
    `SELECT ${escalationColumns} FROM escalations WHERE about = $1 AND state <> 'closed'
     FOR UPDATE -- only: postgres`,
    about,
  );
  return row ?? null;
}

/** An escalation to open, with the key of its first trigger. */
export type NewEscalation = Pick<
  EscalationRow,
  "id" | "about" | "conversation" | "channel" | "agent" | "cause" | "topic" | "reason"
> & { readonly key: string };

// Rows are never deleted, so the numbers of an SQLite store follow from the rows. On PostgreSQL a sequence avoids
// that transactions which open escalations wait for each other.
const newRows = new ManyRows<NewEscalation>(
  "WITH given (id, about, conversation, channel, agent, cause, topic, reason, key) AS (VALUES",
  "(:id, :about, CAST(:conversation AS TEXT), :channel, :agent, :cause, CAST(:topic AS TEXT), :reason, :key)",
  `) INSERT INTO escalations (id, number, about, conversation, channel, agent, state, cause, topic, reason, entered_at, due_at, opened_at, from_seq)
     SELECT id,
       nextval('escalation_numbers'), -- only: postgres
       COALESCE((SELECT MAX(number) FROM escalations), 0) + ROW_NUMBER() OVER (), -- only: sqlite
       about, conversation, channel, agent, 'open', cause, topic, reason, now_ms(), now_ms(), now_ms(),
       COALESCE((SELECT next_seq FROM lanes WHERE lanes.id = given.conversation || '/in'), 0)
     FROM given WHERE NOT EXISTS (SELECT 1 FROM triggers WHERE triggers.key = given.key)
     ON CONFLICT (about) WHERE state <> 'closed' DO NOTHING RETURNING ${escalationColumns}`,
);

/** Opens escalations that are due at once; returns their rows. Leaves out those about a subject with an unclosed
 *  escalation: when two nodes open one at the same time, the second insert conflicts with the first. Also leaves out
 *  those whose trigger was recorded, for another transaction may have recorded it since it was looked up. */
export async function insertEscalations(q: Query, opened: readonly NewEscalation[]): Promise<EscalationRow[]> {
  const made = await newRows.all<EscalationRow>(q, opened);
  if (made.length > 0) touch(q, "escalations");
  return made;
}

/** Must match the expression of the index. */
const lastStep = "(CASE WHEN notified_at > entered_at THEN notified_at ELSE entered_at END)";

export interface DueEscalation extends EscalationRow {
  /** The database's clock, in milliseconds. */
  readonly now: number;
}

/** Returns escalations whose next policy step is due, longest due first, and acknowledged ones to reconsider. Includes
 *  rows whose last step is dated in the future, which exist after a backward clock step. Locked for this transaction. There
 *  are two statements because a combined one would read all open escalations at every sweep. */
export async function dueEscalations(q: Query, limit: number): Promise<DueEscalation[]> {
  const due = await q.all<DueEscalation>(
    `SELECT ${escalationColumns}, now_ms() AS now FROM escalations WHERE due_at <= now_ms() ORDER BY due_at LIMIT $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    limit,
  );
  if (due.length === limit) return due;
  const ahead = await q.all<DueEscalation>(
    `SELECT ${escalationColumns}, now_ms() AS now FROM escalations WHERE due_at IS NOT NULL AND ${lastStep} > now_ms() AND due_at > now_ms()
     ORDER BY ${lastStep} LIMIT $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    limit - due.length,
  );
  return [...due, ...ahead];
}

/** The position in the policy. */
export type EscalationStep = Pick<EscalationRow, "id" | "tier" | "entered_at" | "notified_at" | "due_at">;

const stepRows = new ManyRows<EscalationStep>(
  "WITH given (id, tier, entered_at, notified_at, due_at) AS (VALUES",
  "(:id, CAST(:tier AS BIGINT), CAST(:entered_at AS BIGINT), CAST(:notified_at AS BIGINT), CAST(:due_at AS BIGINT))",
  `) UPDATE escalations SET tier = given.tier, entered_at = given.entered_at, notified_at = given.notified_at,
     due_at = given.due_at FROM given WHERE escalations.id = given.id AND escalations.state = 'open'`,
);

/** Updates the positions in the policy. Changes nothing in an escalation that was acknowledged or closed
 *  since it was read. */
export const moveEscalations = (q: Query, to: readonly EscalationStep[]): Promise<number> => stepRows.run(q, to);

/** Postpones a failed step by `ms`, so that it does not delay other escalations. */
export async function postponeEscalation(q: Query, id: string, ms: number): Promise<void> {
  await q.write("UPDATE escalations SET due_at = now_ms() + $2 WHERE id = $1 AND due_at IS NOT NULL", id, ms);
}

/** Ends the current tiers after notifications failed. Where no step was scheduled, the last one is repeated
 *  after `againMs` milliseconds, because it has just failed. */
export async function hastenEscalations(q: Query, ids: readonly string[], againMs: number): Promise<void> {
  if (ids.length === 0) return;
  const changed = await q.run(
    `UPDATE escalations SET entered_at = 0,
       notified_at = CASE WHEN due_at IS NULL THEN NULL ELSE notified_at END,
       due_at = CASE WHEN due_at IS NULL THEN now_ms() + $2 ELSE now_ms() END
     WHERE ${isListed("id")} AND state = 'open'`,
    listOf(ids),
    againMs,
  );
  if (changed > 0) touch(q, "escalations");
}

/** Makes all escalations due that are not closed, after a change of the policy or of the notification channels. Each
 *  next step is then scheduled again by the current configuration, and targets of acknowledged ones leave removed
 *  channels. */
export async function reconsiderEscalations(q: Query): Promise<void> {
  const changed = await q.run("UPDATE escalations SET due_at = now_ms() WHERE state IN ('open', 'acknowledged')");
  if (changed > 0) touch(q, "escalations");
}

/** Ends the reconsideration of acknowledged escalations: no step of the policy is due. */
export async function endReconsideration(q: Query, ids: readonly string[]): Promise<void> {
  await q.run(`UPDATE escalations SET due_at = NULL WHERE ${isListed("id")} AND state = 'acknowledged'`, listOf(ids));
}

const ownerRows = new ManyRows<{ readonly id: string; readonly target: string }>(
  "WITH given (id, target) AS (VALUES",
  "(:id, :target)",
  `) UPDATE escalations SET acknowledged_target = given.target FROM given
     WHERE escalations.id = given.id AND escalations.state = 'acknowledged'`,
);

/** Replaces the targets of the responders who acknowledged these escalations by others of theirs. */
export const changeOwnerTargets = (
  q: Query,
  owners: readonly { readonly id: string; readonly target: string }[],
): Promise<number> => ownerRows.run(q, owners);

/** Reopens the escalation when the responder who acknowledged it is unreachable; the policy starts again. Returns false
 *  when it was not acknowledged. */
export async function reopenEscalation(q: Query, id: string): Promise<boolean> {
  const changed = await q.run(
    moves("escalations", "open", {
      set: `acknowledged_by = NULL, acknowledged_target = NULL, acknowledged_at = NULL, tier = 0, entered_at = now_ms(),
       notified_at = NULL, due_at = now_ms()`,
      where: "id = $1",
    }),
    id,
  );
  if (changed > 0) touch(q, "escalations");
  return changed > 0;
}

/** Closes the escalation. Returns false when it was closed before. */
export async function closeEscalation(q: Query, id: string, by: string): Promise<boolean> {
  const changed = await q.run(
    moves("escalations", "closed", {
      set: "closed_at = now_ms(), closed_by = $2, due_at = NULL",
      where: "id = $1",
    }),
    id,
    by,
  );
  return changed === 1;
}

/** Newest first. */
export async function listEscalations(
  q: Query,
  filter: {
    readonly state?: string;
    readonly channel?: string;
    /** Only escalations opened since then (epoch milliseconds). */
    readonly since?: number;
    readonly limit: number;
  },
): Promise<EscalationRow[]> {
  return q.all<EscalationRow>(
    `SELECT ${escalationColumns} FROM escalations WHERE ($1 = '' OR state = $1) AND ($2 = '' OR channel = $2)
       AND opened_at >= $3 ORDER BY number DESC LIMIT $4`,
    filter.state ?? "",
    filter.channel ?? "",
    filter.since ?? 0,
    filter.limit,
  );
}

export interface UnclosedEscalations {
  /** Number of escalations that no responder has acknowledged, and of acknowledged ones. */
  readonly open: number;
  readonly acknowledged: number;
  /** The oldest ones, unacknowledged first. */
  readonly rows: readonly EscalationRow[];
}

/** Reads the escalations that are not closed, and at most `limit` of their rows. */
export async function unclosedEscalations(q: Query, limit: number): Promise<UnclosedEscalations> {
  const inState = async (state: "open" | "acknowledged") => {
    const counted = await q.one<{ count: number }>("SELECT COUNT(*) AS count FROM escalations WHERE state = $1", state);
    const rows = await q.all<EscalationRow>(
      `SELECT ${escalationColumns} FROM escalations WHERE state = $1 ORDER BY number LIMIT $2`,
      state,
      limit,
    );
    return { count: counted?.count ?? 0, rows };
  };
  const [open, acknowledged] = [await inState("open"), await inState("acknowledged")];
  return {
    open: open.count,
    acknowledged: acknowledged.count,
    rows: [...open.rows, ...acknowledged.rows].slice(0, limit),
  };
}

export interface NewTrigger {
  readonly key: string;
  readonly escalation: string;
  readonly source: string;
  readonly detail: string | null;
}

const triggerRows = new ManyRows<NewTrigger>(
  "INSERT INTO triggers (key, escalation, source, detail, recorded_at) VALUES",
  "(:key, :escalation, :source, :detail, now_ms())",
  "ON CONFLICT (key) DO NOTHING",
);

/** Records triggers. Returns how many were not recorded before. */
export const addTriggers = (q: Query, triggers: readonly NewTrigger[]): Promise<number> => triggerRows.run(q, triggers);

export async function isTriggered(q: Query, key: string): Promise<boolean> {
  return (await q.one("SELECT 1 FROM triggers WHERE key = $1", key)) !== undefined;
}

/** Returns whether the same detail from that source was recorded within the last `withinMs`. */
export async function hasNote(
  q: Query,
  { escalation, source, detail }: { escalation: string; source: string; detail: string },
  withinMs: number,
): Promise<boolean> {
  const row = await q.one(
    "SELECT 1 FROM triggers WHERE escalation = $1 AND source = $2 AND detail = $3 AND recorded_at > now_ms() - $4 LIMIT 1",
    escalation,
    source,
    detail,
    withinMs,
  );
  return row !== undefined;
}

export interface TriggerRow {
  readonly source: string;
  readonly detail: string | null;
  readonly recorded_at: number;
}

/** Returns the newest `most` triggers of each escalation, and as many of its notes, in the order of their recording. In a
 *  flood every message that a cap holds is a trigger. */
export async function triggersOf(
  q: Query,
  escalations: Iterable<string>,
  most = 100,
): Promise<ReadonlyMap<string, readonly TriggerRow[]>> {
  const rows = await q.all<TriggerRow & { readonly escalation: string }>(
    `SELECT escalation, source, detail, recorded_at FROM (
       SELECT escalation, source, detail, recorded_at, key, ROW_NUMBER() OVER (
         PARTITION BY escalation, CASE WHEN source = 'note' THEN 1 ELSE 0 END ORDER BY recorded_at DESC, key DESC) AS place
       ${fromListed("triggers", "escalation")}) AS numbered
     WHERE place <= $2 ORDER BY recorded_at, key`,
    listOf(escalations),
    most,
  );
  const byEscalation = Map.groupBy(rows, ({ escalation }) => escalation);
  return new Map(
    [...byEscalation].map(([escalation, own]) => [
      escalation,
      own.map(({ source, detail, recorded_at }) => ({ source, detail, recorded_at })),
    ]),
  );
}
