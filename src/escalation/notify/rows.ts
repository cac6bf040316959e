// Statements of stage notify.

import type { Query } from "../../store/driver.ts";
import { lockLane, refreshLane } from "../../store/lanes.ts";
import { type ContactRow, contactColumns } from "../../store/tables/contacts.ts";
import type { TargetState } from "./decide.ts";

/** Number of ids per statement. A fixed number keeps the SQL text constant. */
const chunk = 50;
const places = (from: number) => Array.from({ length: chunk }, (_, at) => `$${from + at}`).join(", ");

/** Runs `work` for the ids in chunks, padded with nulls. */
async function inChunks<T>(
  ids: Iterable<string>,
  work: (padded: readonly (string | null)[]) => Promise<T>,
): Promise<T[]> {
  const unique = [...new Set(ids)];
  const results: T[] = [];
  for (let at = 0; at < unique.length; at += chunk)
    results.push(await work(Array.from({ length: chunk }, (_, index) => unique[at + index] ?? null)));
  return results;
}

/** Returns the notification targets of these escalations with the state of their notifications. Drafts on
 *  a channel that no longer serves the target do not count as waiting. */
export async function targetStates(
  q: Query,
  escalations: Iterable<string>,
): Promise<ReadonlyMap<string, TargetState[]>> {
  const found: (ContactRow & { told: number; due: number; waiting: number; reached: number })[] = [];
  // One statement each: PostgreSQL scans the tables for a list of ids.
  for (const escalation of escalations) {
    const rows = await q.all<(typeof found)[number]>(
      `SELECT ${contactColumns},
         CASE WHEN EXISTS (SELECT 1 FROM notices WHERE notices.contact = contacts.id AND kind = 'told') THEN 1 ELSE 0 END AS told,
         CASE WHEN EXISTS (SELECT 1 FROM notices WHERE notices.contact = contacts.id AND kind IN ('told', 'again')
           AND due_at IS NOT NULL) THEN 1 ELSE 0 END AS due,
         CASE WHEN EXISTS (
           SELECT 1 FROM notices JOIN drafts ON drafts.reply = notices.reply AND drafts.channel = contacts.channel
           WHERE notices.contact = contacts.id AND notices.kind IN ('told', 'again')
             AND drafts.state IN ('queued', 'sending', 'unknown')) THEN 1 ELSE 0 END AS waiting,
         CASE WHEN EXISTS (
           SELECT 1 FROM notices JOIN drafts ON drafts.reply = notices.reply
           WHERE notices.contact = contacts.id AND notices.kind IN ('told', 'again')
             AND drafts.state IN ('sent', 'delivered')) THEN 1 ELSE 0 END AS reached
       FROM contacts WHERE escalation = $1 ORDER BY id`,
      escalation,
    );
    found.push(...rows);
  }
  const states = found.map(({ told, due, waiting, reached, ...contact }) => ({
    contact,
    told: told === 1,
    due: due === 1,
    waiting: waiting === 1,
    reached: reached === 1,
  }));
  return Map.groupBy(states, ({ contact }) => contact.escalation);
}

/** Returns the contacts with these ids. */
export async function readContacts(
  q: Query,
  ids: Iterable<string>,
): Promise<ReadonlyMap<string, ContactRow>> {
  const found = await inChunks(ids, (padded) =>
    q.all<ContactRow>(`SELECT ${contactColumns} FROM contacts WHERE id IN (${places(1)})`, ...padded),
  );
  return new Map(found.flat().map((row) => [row.id, row]));
}

/** Returns the customers of these conversations. */
export async function readPersons(
  q: Query,
  conversations: Iterable<string>,
): Promise<ReadonlyMap<string, Person>> {
  const found = await inChunks(conversations, (padded) =>
    q.all<Person>(
      `SELECT id, person, person_name, subject, platform_id FROM conversations WHERE id IN (${places(1)})`,
      ...padded,
    ),
  );
  return new Map(found.flat().map((row) => [row.id, row]));
}

interface Person {
  readonly id: string;
  readonly person: string;
  readonly person_name: string | null;
  readonly subject: string | null;
  readonly platform_id: string | null;
}

/** Binds contacts without a conversation to the conversation that later notifications use. */
export async function bindContacts(q: Query, ids: Iterable<string>, conversation: string): Promise<void> {
  await inChunks(ids, (padded) =>
    q.run(
      `UPDATE contacts SET conversation = $1 WHERE conversation IS NULL AND id IN (${places(2)})`,
      conversation,
      ...padded,
    ),
  );
}

/** Marks the notifications as written with that reply; null when they are no longer needed. */
export async function endNotices(q: Query, ids: Iterable<string>, reply: string | null): Promise<void> {
  await inChunks(ids, (padded) =>
    q.run(
      `UPDATE notices SET due_at = NULL, reply = $1, written_at = now_ms() WHERE id IN (${places(2)})`,
      reply,
      ...padded,
    ),
  );
}

/** Returns the milliseconds since the address was last notified; null when that was not within
 *  `withinMs`. Scans from the newest (a CROSS JOIN keeps its order in SQLite), so an address with
 *  thousands of notifications is found at once. */
export async function lastTold(
  q: Query,
  { channel, address }: Pick<ContactRow, "channel" | "address">,
  withinMs: number,
): Promise<number | null> {
  const row = await q.one<{ ago: number }>(
    `SELECT now_ms() - notices.written_at AS ago FROM notices CROSS JOIN contacts
     WHERE notices.written_at > now_ms() - $3 AND notices.kind IN ('told', 'again') AND notices.reply IS NOT NULL
       AND contacts.id = notices.contact AND contacts.channel = $1 AND contacts.address = $2
     ORDER BY notices.written_at DESC LIMIT 1`,
    channel,
    address,
    withinMs,
  );
  return row?.ago ?? null;
}

/** Makes drafts of the conversation that wait for a retry due now. A pause of the channel still applies. */
export async function tryNow(q: Query, conversation: string): Promise<void> {
  await lockLane(q, conversation, "out");
  const changed = await q.run(
    `UPDATE drafts SET due_at = now_ms() WHERE conversation = $1 AND open = 1 AND state = 'queued' AND attempts > 0
       AND due_at > now_ms()`,
    conversation,
  );
  if (changed > 0) await refreshLane(q, conversation, "out");
}
