// Statements of stage notify. Each works for all due escalations or notifications at once.

import { fromListed, isListed, listOf, ManyRows, type Query } from "../../store/driver.ts";
import { lockLane, refreshLane } from "../../store/lanes.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import { type EscalationRow, triggersOf } from "../../store/tables/escalations.ts";
import { type TargetRow, targetColumns } from "../../store/tables/responders.ts";
import { customerHistories, type TranscriptMessage, transcriptsOf } from "../../store/tables/transcript.ts";
import { addressKey, type ConversationsByAddress, type NotificationAddress, type TargetState } from "./decide.ts";
import type { Details } from "./text.ts";

/** Returns the notification targets of these escalations with the state of their notifications. Drafts on
 *  a channel that no longer serves the target do not count as waiting. Call with the escalations locked. */
export async function targetStates(
  q: Query,
  escalations: Iterable<string>,
): Promise<ReadonlyMap<string, readonly TargetState[]>> {
  // LIMIT 1: PostgreSQL would read all notifications for an EXISTS.
  const has = (condition: string, join = "") =>
    `COALESCE((SELECT 1 FROM notifications ${join} WHERE notifications.target = notification_targets.id AND ${condition} LIMIT 1), 0)`;
  const asksAck = "notifications.kind IN ('opened', 'reminder')";
  const draft = (condition: string) =>
    has(`${asksAck} AND ${condition}`, "JOIN drafts ON drafts.reply = notifications.reply");
  const found = await q.all<TargetRow & { notified: number; due: number; waiting: number; reached: number }>(
    `SELECT ${targetColumns}, ${has("notifications.kind = 'opened'")} AS notified, ${has(`${asksAck} AND notifications.due_at IS NOT NULL`)} AS due,
       ${draft("drafts.channel = notification_targets.channel AND drafts.state IN ('queued', 'sending', 'unknown')")} AS waiting,
       ${draft("drafts.state IN ('sent', 'delivered')")} AS reached
     ${fromListed("notification_targets", "escalation")} ORDER BY id`,
    listOf(escalations),
  );
  const states = found.map(({ notified, due, waiting, reached, ...target }) => ({
    target,
    notified: notified === 1,
    due: due === 1,
    waiting: waiting === 1,
    reached: reached === 1,
  }));
  return Map.groupBy(states, ({ target }) => target.escalation);
}

/** Returns the targets with these ids. Call with their escalations locked: another node may bind a target
 *  to a conversation. */
export async function readTargets(q: Query, ids: Iterable<string>): Promise<ReadonlyMap<string, TargetRow>> {
  const found = await q.all<TargetRow>(
    `SELECT ${targetColumns} ${fromListed("notification_targets", "id")}`,
    listOf(ids),
  );
  return new Map(found.map((row) => [row.id, row]));
}

type PersonOfConversation = Pick<ConversationRow, "id" | "person" | "person_name" | "subject" | "platform_id">;

/** Returns the data of headlines, which contain no triggers and no transcript, by escalation. */
export async function headlinesOf(q: Query, rows: readonly EscalationRow[]): Promise<ReadonlyMap<string, Details>> {
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
      return [row.id, { row, triggers: [], person, platformId, subject, said: [], cut: false }];
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
  const triggers = await triggersOf(q, ids, transcript === "whole" ? 2 ** 30 : undefined);
  const known = await customerHistories(q, ids);
  const [each, total] = transcript === "whole" ? [2 ** 30, 2 ** 40] : [mostPerMessage, mostCharacters];
  const conversations = rows.flatMap(({ conversation }) => conversation ?? []);
  const messages = await transcriptsOf(q, conversations, mostMessages + 1, each, total);
  return new Map(
    [...headlines].map(([id, one]) => [
      id,
      {
        ...one,
        triggers: triggers.get(id) ?? [],
        person: one.person && { ...one.person, known: known.get(id) ?? null },
        ...newest(messages.get(one.row.conversation ?? "") ?? [], total),
      },
    ]),
  );
}

/** Returns the newest messages that fit, oldest first. `cut` is true when older ones were left out. */
function newest(
  all: readonly TranscriptMessage[],
  total: number,
): { readonly said: readonly TranscriptMessage[]; readonly cut: boolean } {
  let left = total;
  const first = all.findLastIndex(({ text }, at) => {
    left -= text.length;
    return left < 0 || all.length - at > mostMessages;
  });
  return { said: all.slice(first + 1), cut: first >= 0 };
}

const distinctAddresses = (addresses: Iterable<NotificationAddress>): readonly NotificationAddress[] => [
  ...new Map([...addresses].map((one) => [addressKey(one), one])).values(),
];

// Scans from the newest (a CROSS JOIN keeps its order in SQLite), so an address with thousands of
// notifications is found at once.
const recencyRows = new ManyRows<NotificationAddress & { readonly ms: number }>(
  "WITH given (channel, address, ms) AS (VALUES",
  "(:channel, :address, CAST(:ms AS BIGINT))",
  `) SELECT channel, address, (
       SELECT now_ms() - notifications.written_at FROM notifications CROSS JOIN notification_targets
       WHERE notifications.written_at > now_ms() - given.ms AND notifications.kind IN ('opened', 'reminder')
         AND notifications.reply IS NOT NULL AND notification_targets.id = notifications.target
         AND notification_targets.channel = given.channel AND notification_targets.address = given.address
       ORDER BY notifications.written_at DESC LIMIT 1) AS ago FROM given`,
);

/** Returns the milliseconds since each address was last notified, by `addressKey`. Contains no address whose
 *  last notification is older than `withinMs`. */
export async function lastNotified(
  q: Query,
  addresses: Iterable<NotificationAddress>,
  withinMs: number,
): Promise<ReadonlyMap<string, number>> {
  const given = distinctAddresses(addresses).map((one) => ({ ...one, ms: withinMs }));
  const rows = await recencyRows.all<NotificationAddress & { ago: number | null }>(q, given);
  return new Map(rows.flatMap((row) => (row.ago === null ? [] : [[addressKey(row), row.ago]])));
}

const conversationRows = new ManyRows<NotificationAddress>(
  "WITH given (channel, address) AS (VALUES",
  "(:channel, :address)",
  `) SELECT channel, address, (
       SELECT id FROM conversations WHERE channel = given.channel AND person = given.address
       ORDER BY id DESC LIMIT 1) AS id FROM given`,
);

/** Returns the newest conversation with each address on its channel, by `addressKey`. */
export async function conversationsWith(
  q: Query,
  addresses: Iterable<NotificationAddress>,
): Promise<ReadonlyMap<string, string>> {
  const rows = await conversationRows.all<NotificationAddress & { id: string | null }>(q, distinctAddresses(addresses));
  return new Map(rows.flatMap((row) => (row.id === null ? [] : [[addressKey(row), row.id]])));
}

/** Locks these channels, without waiting for another transaction (see `lockChannel`). Returns those that are locked. */
async function lockChannels(q: Query, channels: Iterable<string>): Promise<ReadonlySet<string>> {
  const rows = await q.all<{ id: string }>(
    `SELECT id FROM channels WHERE ${isListed("id")} ORDER BY id
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    listOf(channels),
  );
  return new Set(rows.map(({ id }) => id));
}

/** Returns the conversations with these targets on channels with one conversation per person. Locks the channels of those
 *  that have none, for this transaction. */
export async function loadConversations(q: Query, targets: readonly TargetRow[]): Promise<ConversationsByAddress> {
  const known = targets.length > 0 ? await conversationsWith(q, targets) : new Map<string, string>();
  const missing = targets.filter((one) => one.conversation === null && !known.has(addressKey(one)));
  if (missing.length === 0) return { known, channels: new Set() };
  const channels = await lockChannels(
    q,
    missing.map(({ channel }) => channel),
  );
  // Another node may have opened one between the read and the lock.
  const opened = await conversationsWith(
    q,
    missing.filter(({ channel }) => channels.has(channel)),
  );
  return { known: new Map([...known, ...opened]), channels };
}

const movedRows = new ManyRows<Pick<TargetRow, "id" | "channel">>(
  "WITH given (id, channel) AS (VALUES",
  "(:id, :channel)",
  ") UPDATE notification_targets SET channel = given.channel, conversation = NULL FROM given WHERE notification_targets.id = given.id",
);

/** Moves targets to another channel, in a separate conversation. */
export const moveTargets = (q: Query, targets: readonly Pick<TargetRow, "id" | "channel">[]): Promise<number> =>
  movedRows.run(q, targets);

interface TargetBinding {
  readonly target: string;
  readonly conversation: string;
}

const boundRows = new ManyRows<TargetBinding>(
  "WITH given (id, conversation) AS (VALUES",
  "(:target, :conversation)",
  `) UPDATE notification_targets SET conversation = given.conversation FROM given
     WHERE notification_targets.id = given.id AND notification_targets.conversation IS NULL`,
);

/** Binds each target without a conversation to the conversation that later notifications use. */
export const bindTargets = (q: Query, bindings: readonly TargetBinding[]): Promise<number> =>
  boundRows.run(q, bindings);

/** Marks the notifications as written with that reply; null when they are no longer needed. */
export const endNotifications = (q: Query, ids: Iterable<string>, reply: string | null): Promise<number> =>
  endAll(
    q,
    [...ids].map((notification) => ({ notification, reply })),
  );

interface EndedNotification {
  readonly notification: string;
  readonly reply: string | null;
}

const endedRows = new ManyRows<EndedNotification>(
  "WITH given (id, reply) AS (VALUES",
  "(:notification, CAST(:reply AS TEXT))",
  `) UPDATE notifications SET due_at = NULL, reply = given.reply, written_at = now_ms() FROM given
     WHERE notifications.id = given.id`,
);

/** Marks each notification as written with its reply; null when it is no longer needed. */
export const endAll = (q: Query, ended: readonly EndedNotification[]): Promise<number> => endedRows.run(q, ended);

/** Postpones notifications that could not be written by `ms`, so that they do not delay the others. */
export async function postponeNotifications(q: Query, ids: Iterable<string>, ms: number): Promise<void> {
  await q.run(`UPDATE notifications SET due_at = now_ms() + $2 WHERE ${isListed("id")}`, listOf(ids), ms);
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
