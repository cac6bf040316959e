// Escalations: what a human must know of, and every way in which it was noticed. At most one that is not closed for
// whatever it is about.

import type { Query } from "./driver.ts";

export interface EscalationRow {
  readonly id: string;
  /** What people type: "ok 417". Rising, not without gaps. */
  readonly number: number;
  /** `conversation:<id>`, `channel:<id>:<cause>` or `agent:<name>:<what it named>`. */
  readonly about: string;
  readonly conversation: string | null;
  readonly channel: string;
  readonly agent: string;
  readonly state: "open" | "taken" | "closed";
  readonly cause: string;
  readonly topic: string | null;
  readonly reason: string;
  readonly tier: number;
  readonly entered_at: number;
  readonly told_at: number | null;
  readonly due_at: number | null;
  /** The name of the person who has acknowledged it. */
  readonly taken_by: string | null;
  /** How that person is reached; null when it was taken by a command. */
  readonly taken_contact: string | null;
  readonly taken_at: number | null;
  readonly opened_at: number;
  /** Turns of its conversation with this number, or a higher one, are later. Clocks are put back; numbers grow. */
  readonly from_seq: number;
  readonly closed_at: number | null;
  readonly closed_by: string | null;
}

const columns =
  "id, number, about, conversation, channel, agent, state, cause, topic, reason, tier, entered_at, told_at, due_at, taken_by, taken_contact, taken_at, opened_at, from_seq, closed_at, closed_by";

/** After which time the policy's last step is taken again when it has failed. */
const againMs = 300_000;

/** The database's clock, in milliseconds. */
export async function nowMs(q: Query): Promise<number> {
  const row = await q.one<{ now: number }>("SELECT now_ms() AS now");
  return row?.now ?? 0;
}

export async function readEscalation(q: Query, id: string): Promise<EscalationRow> {
  const row = await q.one<EscalationRow>(`SELECT ${columns} FROM escalations WHERE id = $1`, id);
  if (!row) throw new Error(`reading escalation ${id}: there is none`);
  return row;
}

/** So many are read by one statement, which is always the same. */
const chunk = 50;
const places = Array.from({ length: chunk }, (_, index) => `$${index + 1}`).join(", ");

/** Those with these ids, as they are when nobody else is at them; locked for this transaction. `free`: without those that
 *  somebody is at, which is not waited for. In one order, so that two who want the same wait for each other in turn. */
export async function lockEscalations(
  q: Query,
  ids: Iterable<string>,
  which: "all" | "free" = "all",
): Promise<ReadonlyMap<string, EscalationRow>> {
  const sorted = [...new Set(ids)].toSorted();
  const rows = new Map<string, EscalationRow>();
  for (let at = 0; at < sorted.length; at += chunk) {
    const found = await q.all<EscalationRow>(
      `SELECT ${columns} FROM escalations WHERE id IN (${places}) ORDER BY id
       FOR UPDATE${which === "free" ? " SKIP LOCKED" : ""} -- only: postgres`,
      ...Array.from({ length: chunk }, (_, index) => sorted[at + index] ?? null),
    );
    for (const row of found) rows.set(row.id, row);
  }
  return rows;
}

export async function escalationByNumber(q: Query, number: number): Promise<EscalationRow | null> {
  return (await q.one<EscalationRow>(`SELECT ${columns} FROM escalations WHERE number = $1`, number)) ?? null;
}

/** The newest about that, whatever its state. */
export async function newestEscalation(q: Query, about: string): Promise<EscalationRow | null> {
  const row = await q.one<EscalationRow>(
    `SELECT ${columns} FROM escalations WHERE about = $1 ORDER BY number DESC LIMIT 1`,
    about,
  );
  return row ?? null;
}

/** The one about that which is not closed. Locked for this transaction: whoever closes it does so before, and then it is
 *  not found, or after. */
export async function liveEscalation(q: Query, about: string): Promise<EscalationRow | null> {
  const row = await q.one<EscalationRow>(
    `SELECT ${columns} FROM escalations WHERE about = $1 AND state <> 'closed'
     FOR UPDATE -- only: postgres`,
    about,
  );
  return row ?? null;
}

/** Opens it, due at once. Two nodes may notice at the same time: the second one finds the first one's, and null. */
export async function insertEscalation(
  q: Query,
  row: Pick<
    EscalationRow,
    "id" | "about" | "conversation" | "channel" | "agent" | "cause" | "topic" | "reason"
  >,
): Promise<EscalationRow | null> {
  // A row that counts would be locked until the commit: whoever raises would wait for all who do so before.
  const counter = await q.one<{ value: number }>(
    `SELECT nextval('escalation_numbers') AS value -- only: postgres
     INSERT INTO counters (name, value) VALUES ('escalation', 1) -- only: sqlite
     ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value -- only: sqlite`,
  );
  const made = await q.one<EscalationRow>(
    `INSERT INTO escalations (id, number, about, conversation, channel, agent, state, cause, topic, reason, entered_at, due_at, opened_at, from_seq)
     VALUES ($1, $2, $3, $4, $5, $6, 'open', $7, $8, $9, now_ms(), now_ms(), now_ms(),
       COALESCE((SELECT next_seq FROM lanes WHERE id = $10), 0))
     ON CONFLICT (about) WHERE state <> 'closed' DO NOTHING RETURNING ${columns}`,
    row.id,
    counter?.value ?? 0,
    row.about,
    row.conversation,
    row.channel,
    row.agent,
    row.cause,
    row.topic,
    row.reason,
    `${row.conversation}/in`,
  );
  if (made) q.touched.add("escalations");
  return made ?? null;
}

/** As its index has it. */
const lastStep = "(CASE WHEN told_at > entered_at THEN told_at ELSE entered_at END)";

/** Those that want a step of the policy now, longest due first; also what was told in a time that lies ahead now, for the
 *  clock was put back. Locked for this transaction. Two statements: one would read all that are open, at every sweep. */
export async function dueEscalations(q: Query, limit: number): Promise<EscalationRow[]> {
  const due = await q.all<EscalationRow>(
    `SELECT ${columns} FROM escalations WHERE due_at <= now_ms() ORDER BY due_at LIMIT $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    limit,
  );
  if (due.length === limit) return due;
  const ahead = await q.all<EscalationRow>(
    `SELECT ${columns} FROM escalations WHERE due_at IS NOT NULL AND ${lastStep} > now_ms() AND due_at > now_ms()
     ORDER BY ${lastStep} LIMIT $1
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    limit - due.length,
  );
  return [...due, ...ahead];
}

/** Where it stands in the policy. Nothing changes when it was taken or closed meanwhile. */
export async function moveEscalation(
  q: Query,
  id: string,
  to: Pick<EscalationRow, "tier" | "entered_at" | "told_at" | "due_at">,
): Promise<void> {
  await q.run(
    "UPDATE escalations SET tier = $2, entered_at = $3, told_at = $4, due_at = $5 WHERE id = $1 AND state = 'open'",
    id,
    to.tier,
    to.entered_at,
    to.told_at,
    to.due_at,
  );
}

/** Its step could not be taken: again in `ms`, so that it does not keep the others from theirs. */
export async function postponeEscalation(q: Query, id: string, ms: number): Promise<void> {
  await q.run("UPDATE escalations SET due_at = now_ms() + $2 WHERE id = $1 AND due_at IS NOT NULL", id, ms);
}

/** A notice reaches nobody: its tier has had its time. Where no step was to follow, the last one is taken again, but not
 *  at once: it has just failed. */
export async function hastenEscalation(q: Query, id: string): Promise<void> {
  const changed = await q.run(
    `UPDATE escalations SET entered_at = 0,
       told_at = CASE WHEN due_at IS NULL THEN NULL ELSE told_at END,
       due_at = CASE WHEN due_at IS NULL THEN now_ms() + $2 ELSE now_ms() END
     WHERE id = $1 AND state = 'open'`,
    id,
    againMs,
  );
  if (changed > 0) q.touched.add("escalations");
}

/** The policy, or what carries notices, may be another: every step is decided anew, sooner or later as it says now. */
export async function reconsiderEscalations(q: Query): Promise<void> {
  const changed = await q.run("UPDATE escalations SET due_at = now_ms() WHERE state = 'open'");
  if (changed > 0) q.touched.add("escalations");
}

/** Somebody answers for it. False when it is closed, or that contact has it already. */
export async function takeEscalation(
  q: Query,
  id: string,
  by: { readonly name: string; readonly contact: string | null },
): Promise<boolean> {
  const changed = await q.run(
    `UPDATE escalations SET state = 'taken', taken_by = $2, taken_contact = $3, taken_at = now_ms(), due_at = NULL
     WHERE id = $1 AND state <> 'closed' AND (state = 'open' OR taken_by <> $2 OR COALESCE(taken_contact, '') <> COALESCE($3, ''))`,
    id,
    by.name,
    by.contact,
  );
  return changed === 1;
}

/** Whoever has it cannot be reached: the policy begins again. */
export async function reopenEscalation(q: Query, id: string): Promise<boolean> {
  const changed = await q.run(
    `UPDATE escalations SET state = 'open', taken_by = NULL, taken_contact = NULL, taken_at = NULL, tier = 0,
       entered_at = now_ms(), told_at = NULL, due_at = now_ms() WHERE id = $1 AND state = 'taken'`,
    id,
  );
  if (changed > 0) q.touched.add("escalations");
  return changed > 0;
}

/** False when it was closed before. */
export async function closeEscalation(q: Query, id: string, by: string): Promise<boolean> {
  const changed = await q.run(
    "UPDATE escalations SET state = 'closed', closed_at = now_ms(), closed_by = $2, due_at = NULL WHERE id = $1 AND state <> 'closed'",
    id,
    by,
  );
  return changed === 1;
}

/** Newest first. */
export async function listEscalations(
  q: Query,
  filter: { readonly state?: string; readonly channel?: string; readonly limit: number },
): Promise<EscalationRow[]> {
  return q.all<EscalationRow>(
    `SELECT ${columns} FROM escalations WHERE ($1 = '' OR state = $1) AND ($2 = '' OR channel = $2) ORDER BY number DESC LIMIT $3`,
    filter.state ?? "",
    filter.channel ?? "",
    filter.limit,
  );
}
