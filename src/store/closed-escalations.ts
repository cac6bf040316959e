// Forgetting escalations that are closed. The rows stay, for `bridgehead escalation` to count and because one about the
// same trouble looks for the newest; so do the keys of what was noticed, and the ids of deliveries, so that what turns up
// again is still known. Words, names and addresses go.

import type { Query } from "./driver.ts";

/** So few that other transactions hardly wait. */
const batch = 200;

/** Those closed for that long (milliseconds): at most one batch, how many it was. `closed_by` says which are left. */
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

/** Contacts and notices keep where they were told: whoever cites a notice is no customer, not even after years. */
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

/** What the platform's webhooks said, that long ago. */
export async function forgetIntakes(q: Query, ageMs: number): Promise<number> {
  return q.run(
    `UPDATE intakes SET body = '' WHERE body <> '' AND state <> 'stored' AND (agent, id) IN (
       SELECT agent, id FROM intakes WHERE body <> '' AND state <> 'stored' AND received_at < now_ms() - $1
       ORDER BY received_at LIMIT ${batch})`,
    ageMs,
  );
}
