// Retention of closed escalations. The rows stay for the counts of `bridgehead escalation`, and because a
// new escalation about the same subject looks for the newest one. Keys of triggers and ids of deliveries
// stay too, so that duplicates are still detected. Texts, names and addresses are erased.

import type { Query } from "./driver.ts";

/** Rows per batch. A small batch hardly delays other transactions. */
const batch = 200;

/** Erases escalations closed longer than `ageMs` (milliseconds), at most one batch, and returns their
 *  number. `closed_by` marks those that remain to be erased. */
export async function forgetEscalations(q: Query, ageMs: number): Promise<number> {
  const rows = await q.all<{ id: string }>(
    `UPDATE escalations SET reason = '', taken_by = NULL, closed_by = NULL WHERE id IN (
       SELECT id FROM escalations WHERE closed_by IS NOT NULL AND state = 'closed' AND closed_at < now_ms() - $1
       ORDER BY closed_at LIMIT ${batch}) RETURNING id`,
    ageMs,
  );
  for (const { id } of rows) await forgetContacts(q, id);
  return rows.length;
}

/** Contacts and notifications keep their channel and conversation, so a reply to a notification is never
 *  routed as a customer message, even after years. */
async function forgetContacts(q: Query, escalation: string): Promise<void> {
  await q.run("UPDATE sources SET detail = NULL WHERE escalation = $1", escalation);
  await q.run(
    `UPDATE notices SET text = NULL, due_at = NULL, subject = CASE WHEN kind = 'taken' THEN id ELSE subject END
     WHERE contact IN (SELECT id FROM contacts WHERE escalation = $1)`,
    escalation,
  );
  await q.run(
    `UPDATE contacts SET person = '', name = '', address = id, link = NULL, link_until = NULL, link_used_at = NULL
     WHERE escalation = $1`,
    escalation,
  );
}

/** Erases bodies of platform webhooks received longer ago than `ageMs`. */
export async function forgetIntakes(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `UPDATE intakes SET body = '' WHERE body <> '' AND state <> 'stored' AND (agent, id) IN (
       SELECT agent, id FROM intakes WHERE body <> '' AND state <> 'stored' AND received_at < now_ms() - $1
       ORDER BY received_at LIMIT ${batch})`,
    ageMs,
  );
}
