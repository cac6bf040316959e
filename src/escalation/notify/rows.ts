// Statements of stage notify. Each works for all due escalations or notifications at once.

import type { Query } from "../../store/driver.ts";
import { lockLane, refreshLane } from "../../store/lanes.ts";
import { fromListed, isListed, listOf, manyRows } from "../../store/many.ts";
import { type EscalationRow, triggersOf } from "../../store/tables/escalations.ts";
import { type TargetRow, targetColumns } from "../../store/tables/responders.ts";
import { acquaintancesOf, type Said, transcriptsOf } from "../../store/tables/transcript.ts";
import { type NotificationAddress, placeKey, type TargetState } from "./decide.ts";
import type { Details } from "./text.ts";

/** Returns the notification targets of these escalations with the state of their notifications. Drafts on
 *  a channel that no longer serves the target do not count as waiting. Call with the escalations locked. */
export async function targetStates(
  q: Query,
  escalations: Iterable<string>,
): Promise<ReadonlyMap<string, readonly TargetState[]>> {
  // LIMIT 1: PostgreSQL would read all notices for an EXISTS.
  const has = (condition: string, join = "") =>
    `COALESCE((SELECT 1 FROM notices ${join} WHERE notices.contact = contacts.id AND ${condition} LIMIT 1), 0)`;
  const telling = "notices.kind IN ('opened', 'again')";
  const draft = (condition: string) =>
    has(`${telling} AND ${condition}`, "JOIN drafts ON drafts.reply = notices.reply");
  const found = await q.all<TargetRow & { told: number; due: number; waiting: number; reached: number }>(
    `SELECT ${targetColumns}, ${has("notices.kind = 'opened'")} AS told, ${has(`${telling} AND notices.due_at IS NOT NULL`)} AS due,
       ${draft("drafts.channel = contacts.channel AND drafts.state IN ('queued', 'sending', 'unknown')")} AS waiting,
       ${draft("drafts.state IN ('sent', 'delivered')")} AS reached
     ${fromListed("contacts", "escalation")} ORDER BY id`,
    listOf(escalations),
  );
  const states = found.map(({ told, due, waiting, reached, ...contact }) => ({
    contact,
    told: told === 1,
    due: due === 1,
    waiting: waiting === 1,
    reached: reached === 1,
  }));
  return Map.groupBy(states, ({ contact }) => contact.escalation);
}

/** Returns the contacts with these ids. Call with their escalations locked: another node may bind a contact
 *  to a conversation. */
export async function readTargets(q: Query, ids: Iterable<string>): Promise<ReadonlyMap<string, TargetRow>> {
  const found = await q.all<TargetRow>(
    `SELECT ${targetColumns} ${fromListed("contacts", "id")}`,
    listOf(ids),
  );
  return new Map(found.map((row) => [row.id, row]));
}

interface PersonOfConversation {
  readonly id: string;
  readonly person: string;
  readonly person_name: string | null;
  readonly subject: string | null;
  readonly platform_id: string | null;
}

/** Returns the data of headlines, which contain no triggers and no transcript, by escalation. */
export async function headlinesOf(
  q: Query,
  rows: readonly EscalationRow[],
): Promise<ReadonlyMap<string, Details>> {
  const found = await q.all<PersonOfConversation>(
    `SELECT id, person, person_name, subject, platform_id ${fromListed("conversations", "id")}`,
    listOf(rows.flatMap(({ conversation }) => conversation ?? [])),
  );
  const persons = new Map(found.map((one) => [one.id, one]));
  return new Map(
    rows.map((row) => {
      const own = persons.get(row.conversation ?? "");
      const person = own ? { address: own.person, name: own.person_name, known: null } : null;
      const { subject = null, platform_id: platformId = null } = own ?? {};
      return [row.id, { row, sources: [], person, platformId, subject, said: [], cut: false }];
    }),
  );
}

/** Bounds of the transcript in a notification: messages, characters of each, characters of all. The whole
 *  transcript is in `bridgehead escalation show` and on the platform. */
const mostMessages = 200;
const mostPerMessage = 4000;
const mostCharacters = 40_000;

/** Returns the escalations with all details, by escalation. `transcript`: bounded for a notification, or the
 *  newest messages in full length. */
export async function detailsOf(
  q: Query,
  rows: readonly EscalationRow[],
  transcript: "bounded" | "whole" = "bounded",
): Promise<ReadonlyMap<string, Details>> {
  const headlines = await headlinesOf(q, rows);
  const ids = rows.map(({ id }) => id);
  const sources = await triggersOf(q, ids);
  const known = await acquaintancesOf(q, ids);
  const [each, total] = transcript === "whole" ? [2 ** 30, 2 ** 40] : [mostPerMessage, mostCharacters];
  const conversations = rows.flatMap(({ conversation }) => conversation ?? []);
  const messages = await transcriptsOf(q, conversations, mostMessages + 1, each, total);
  return new Map(
    [...headlines].map(([id, one]) => [
      id,
      {
        ...one,
        sources: sources.get(id) ?? [],
        person: one.person && { ...one.person, known: known.get(id) ?? null },
        ...newest(messages.get(one.row.conversation ?? "") ?? [], total),
      },
    ]),
  );
}

/** Returns the newest messages that fit, oldest first. `cut` is true when older ones were left out. */
function newest(
  all: readonly Said[],
  total: number,
): { readonly said: readonly Said[]; readonly cut: boolean } {
  let left = total;
  const first = all.findLastIndex(({ text }, at) => {
    left -= text.length;
    return left < 0 || all.length - at > mostMessages;
  });
  return { said: all.slice(first + 1), cut: first >= 0 };
}

const placesOf = (places: Iterable<NotificationAddress>): readonly NotificationAddress[] => [
  ...new Map([...places].map((one) => [placeKey(one), one])).values(),
];

// Scans from the newest (a CROSS JOIN keeps its order in SQLite), so an address with thousands of
// notifications is found at once.
const recencyRows = manyRows(
  "WITH given (channel, address, ms) AS (VALUES",
  "(?, ?, CAST(? AS BIGINT))",
  `) SELECT channel, address, (
       SELECT now_ms() - notices.written_at FROM notices CROSS JOIN contacts
       WHERE notices.written_at > now_ms() - given.ms AND notices.kind IN ('opened', 'again')
         AND notices.reply IS NOT NULL AND contacts.id = notices.contact
         AND contacts.channel = given.channel AND contacts.address = given.address
       ORDER BY notices.written_at DESC LIMIT 1) AS ago FROM given`,
);

/** Returns the milliseconds since each address was last notified, by `placeKey`. Contains no address whose
 *  last notification is older than `withinMs`. */
export async function lastNotified(
  q: Query,
  places: Iterable<NotificationAddress>,
  withinMs: number,
): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  const rows = placesOf(places).map(({ channel, address }) => [channel, address, withinMs]);
  for (const [sql, values] of recencyRows(rows))
    for (const row of await q.all<NotificationAddress & { ago: number | null }>(sql, ...values))
      if (row.ago !== null) found.set(placeKey(row), row.ago);
  return found;
}

const placeRows = manyRows(
  "WITH given (channel, address) AS (VALUES",
  "(?, ?)",
  `) SELECT channel, address, (
       SELECT id FROM conversations WHERE channel = given.channel AND person = given.address
       ORDER BY id DESC LIMIT 1) AS id FROM given`,
);

/** Returns the newest conversation with each address on its channel, by `placeKey`. */
export async function conversationsWith(
  q: Query,
  places: Iterable<NotificationAddress>,
): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  const rows = placesOf(places).map(({ channel, address }) => [channel, address]);
  for (const [sql, values] of placeRows(rows))
    for (const row of await q.all<NotificationAddress & { id: string | null }>(sql, ...values))
      if (row.id !== null) found.set(placeKey(row), row.id);
  return found;
}

/** Locks these channels, without waiting for another transaction (see `lockChannel`). Returns those that
 *  are locked. */
export async function lockChannels(q: Query, channels: Iterable<string>): Promise<ReadonlySet<string>> {
  const rows = await q.all<{ id: string }>(
    `SELECT id FROM channels WHERE ${isListed("id")} ORDER BY id
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    listOf(channels),
  );
  return new Set(rows.map(({ id }) => id));
}

const movedRows = manyRows(
  "WITH given (id, channel) AS (VALUES",
  "(?, ?)",
  ") UPDATE contacts SET channel = given.channel, conversation = NULL FROM given WHERE contacts.id = given.id",
);

/** Moves contacts to another channel, in a separate conversation. */
export async function moveTargets(
  q: Query,
  contacts: readonly Pick<TargetRow, "id" | "channel">[],
): Promise<void> {
  for (const [sql, values] of movedRows(contacts.map(({ id, channel }) => [id, channel])))
    await q.run(sql, ...values);
}

/** Binds contacts without a conversation to the conversation that later notifications use. */
export const bindTargets = (q: Query, ids: Iterable<string>, conversation: string): Promise<void> =>
  bindAll(
    q,
    [...ids].map((contact) => ({ contact, conversation })),
  );

const boundRows = manyRows(
  "WITH given (id, conversation) AS (VALUES",
  "(?, ?)",
  `) UPDATE contacts SET conversation = given.conversation FROM given
     WHERE contacts.id = given.id AND contacts.conversation IS NULL`,
);

/** Binds each contact without a conversation to one. */
export async function bindAll(
  q: Query,
  bindings: readonly { readonly contact: string; readonly conversation: string }[],
): Promise<void> {
  const rows = bindings.map(({ contact, conversation }) => [contact, conversation]);
  for (const [sql, values] of boundRows(rows)) await q.run(sql, ...values);
}

/** Marks the notifications as written with that reply; null when they are no longer needed. */
export const endNotifications = (q: Query, ids: Iterable<string>, reply: string | null): Promise<void> =>
  endAll(
    q,
    [...ids].map((notice) => ({ notice, reply })),
  );

const endedRows = manyRows(
  "WITH given (id, reply) AS (VALUES",
  "(?, CAST(? AS TEXT))",
  `) UPDATE notices SET due_at = NULL, reply = given.reply, written_at = now_ms() FROM given
     WHERE notices.id = given.id`,
);

/** Marks each notification as written with its reply; null when it is no longer needed. */
export async function endAll(
  q: Query,
  ended: readonly { readonly notice: string; readonly reply: string | null }[],
): Promise<void> {
  const rows = ended.map(({ notice, reply }) => [notice, reply]);
  for (const [sql, values] of endedRows(rows)) await q.run(sql, ...values);
}

/** Postpones notifications that could not be written by `ms`, so that they do not delay the others. */
export async function postponeNotifications(q: Query, ids: Iterable<string>, ms: number): Promise<void> {
  await q.run(`UPDATE notices SET due_at = now_ms() + $2 WHERE ${isListed("id")}`, listOf(ids), ms);
}

/** Makes drafts of these conversations that wait for a retry due now. A pause of the channel still applies. */
export async function retryNow(q: Query, conversations: Iterable<string>): Promise<void> {
  const waiting = "open = 1 AND state = 'queued' AND attempts > 0 AND due_at > now_ms()";
  const found = await q.all<{ conversation: string }>(
    `SELECT DISTINCT conversation ${fromListed("drafts", "conversation")} WHERE ${waiting} ORDER BY conversation`,
    listOf(conversations),
  );
  for (const { conversation } of found) {
    await lockLane(q, conversation, "out");
    await q.run(`UPDATE drafts SET due_at = now_ms() WHERE conversation = $1 AND ${waiting}`, conversation);
    await refreshLane(q, conversation, "out");
  }
}
