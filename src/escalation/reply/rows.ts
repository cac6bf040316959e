// Statements of responder replies.

import type { MessageEvent } from "bridgehead/contract";
import { references } from "../../domain/turn.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import { fromListed, listOf, type Query, type Row, touch } from "../../store/driver.ts";
import { type ConversationRow, conversationByToken, conversationsCiting } from "../../store/tables/conversations.ts";
import { type EscalationRow, escalationColumns, lockEscalations } from "../../store/tables/escalations.ts";
import { ignoreDuplicates, type TargetRow, targetColumns } from "../../store/tables/responders.ts";
import { moves } from "../../store/transitions.ts";
import { numberIn } from "../notify/text.ts";
import type { Candidate, Sender } from "./decide.ts";

/** Returns the notification targets that the message answers, with their locked escalations. A close at
 *  another node thus happens before or after this transaction. No candidate: the sender is a customer.
 *  Where only the sender's address links the message to an escalation, it counts as a reply until `closedMs`
 *  milliseconds after the end of the escalation. */
export async function loadSender(
  q: Query,
  line: ChannelRuntime,
  event: MessageEvent,
  closedMs: number,
): Promise<Sender> {
  const address = event.from.address.toLowerCase();
  const { channel } = line;
  if (line.traits.conversations === "person")
    return { from: "responder", candidates: await candidatesAt(q, channel, address, closedMs) };
  const { answers, tokens } = references(event);
  const conversations = await conversationsCited(q, channel, { answers, tokens, sender: address });
  const cited = await targetsIn(q, conversations);
  const own = cited.filter((target) => target.address.toLowerCase() === address);
  if (own.length > 0) return { from: "responder", candidates: await withEscalations(q, own) };
  const notified = cited.length > 0 || answers.length === 0 ? cited : await targetsNotifiedBy(q, channel, answers);
  if (notified.length > 0) return { from: "stranger", candidates: await withEscalations(q, notified) };
  // Some mail programs drop In-Reply-To and keep the subject.
  const number = conversations.length > 0 ? null : numberIn(event.subject ?? "");
  if (number === null) return { from: "subject", candidates: [] };
  const candidates = await candidatesAt(q, channel, address, closedMs);
  return { from: "subject", candidates: candidates.filter(({ row }) => row.number === number) };
}

async function withEscalations(q: Query, targets: readonly TargetRow[]): Promise<readonly Candidate[]> {
  const rows = await lockEscalations(
    q,
    targets.map(({ escalation }) => escalation),
  );
  return targets.flatMap((target): Candidate[] => {
    const row = rows.get(target.escalation);
    return row ? [{ target, row }] : [];
  });
}

const prefixed = (table: string, columns: string): string =>
  columns
    .split(", ")
    .map((column) => `${table}.${column} AS ${table}_${column}`)
    .join(", ");

const candidateSql = `SELECT ${prefixed("notification_targets", targetColumns)}, ${prefixed("escalations", escalationColumns)}
     FROM notification_targets JOIN escalations ON escalations.id = notification_targets.escalation
     WHERE notification_targets.channel = $1 AND notification_targets.address = $2 AND (escalations.state <> 'closed' OR closed_at > now_ms() - $3)
     ORDER BY escalations.id
     FOR UPDATE OF escalations -- only: postgres`;

/** Returns the targets with that address whose escalations are not closed, or were closed within `withinMs`, newest
 *  first. The escalations are locked in the order of `lockEscalations`. */
export async function candidatesAt(
  q: Query,
  channel: string,
  address: string,
  withinMs: number,
): Promise<readonly Candidate[]> {
  const rows = await q.all(candidateSql, channel, address, withinMs);
  const part = (row: Row, prefix: string) =>
    Object.fromEntries(
      Object.entries(row).flatMap(([name, value]) =>
        name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [],
      ),
    );
  const found = rows.map((row) => ({
    target: part(row, "notification_targets_") as unknown as TargetRow,
    row: part(row, "escalations_") as unknown as EscalationRow,
  }));
  return found.sort((a, b) => (a.target.id < b.target.id ? 1 : -1));
}

/** Returns the conversations with these ids in which `sender` takes part, and those with these tokens, in
 *  the order given. One statement each: PostgreSQL scans the tables for a list of ids. */
async function conversationsCited(
  q: Query,
  channel: string,
  by: { readonly answers: readonly string[]; readonly tokens: readonly string[]; readonly sender: string },
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const id of by.answers) found.push(...(await conversationsCiting(q, channel, id, by.sender)));
  for (const token of by.tokens) {
    const conversation = await conversationByToken(q, channel, token);
    if (conversation !== null) found.push(conversation);
  }
  return found;
}

/** Returns the targets notified in these conversations: in their order, newest first in each. There are
 *  several when one message covers several escalations. */
export async function targetsIn(q: Query, conversations: readonly string[]): Promise<TargetRow[]> {
  const found = new Map<string, TargetRow>();
  for (const conversation of new Set(conversations)) {
    const rows = await q.all<TargetRow>(
      `SELECT ${targetColumns} FROM notification_targets WHERE id IN (
         SELECT id FROM notification_targets WHERE conversation = $1
         UNION SELECT notifications.target FROM replies JOIN notifications ON notifications.reply = replies.id WHERE replies.conversation = $1
       ) ORDER BY id DESC`,
      conversation,
    );
    for (const row of rows) if (!found.has(row.id)) found.set(row.id, row);
  }
  return [...found.values()];
}

/** Returns the targets notified by our messages with these ids, for any sender that references them. In
 *  the order of the ids, newest first for each; empty when none of them is a notification. */
export async function targetsNotifiedBy(
  q: Query,
  channel: string,
  externalIds: readonly string[],
): Promise<TargetRow[]> {
  const found: TargetRow[] = [];
  for (const id of externalIds)
    found.push(
      ...(await q.all<TargetRow>(
        `SELECT ${targetColumns} FROM notification_targets WHERE id IN (
           SELECT notifications.target FROM citations JOIN drafts ON drafts.id = citations.draft
             JOIN notifications ON notifications.reply = drafts.reply
           WHERE citations.channel = $1 AND citations.external_id = $2) ORDER BY id DESC`,
        channel,
        id,
      )),
    );
  return found;
}

/** A customer's conversation, as relaying a human's text needs it. */
export interface Customer extends ConversationRow {
  /** The open call, or null. */
  readonly session: string | null;
  /** The address (JSON) of the newest question; questions of the customer take precedence. Null if none
   *  exists, or retention has erased it. */
  readonly address: string | null;
}

/** Columns of a customer, from `conversations`. */
export const customerColumns = `conversations.id, channel, agent, person, person_name, via, subject, token, platform_id,
       (SELECT sessions.id FROM sessions WHERE sessions.conversation = conversations.id AND state = 'open' LIMIT 1) AS session,
       (SELECT address FROM turns WHERE turns.conversation = conversations.id AND kind = 'question' AND opening IS NULL
          AND address <> '{}'
        ORDER BY CASE WHEN turns.person = conversations.person THEN 0 ELSE 1 END, seq DESC LIMIT 1) AS address`;

/** Returns the customers of these conversations, by conversation. */
export async function readCustomers(q: Query, conversations: Iterable<string>): Promise<ReadonlyMap<string, Customer>> {
  const rows = await q.all<Customer>(
    `SELECT ${customerColumns} ${fromListed("conversations", "id")}`,
    listOf(conversations),
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** Acknowledges the escalation. Returns false when it is closed, or already acknowledged by that target. */
export async function acknowledgeEscalation(
  q: Query,
  id: string,
  by: { readonly name: string; readonly target: string | null },
): Promise<boolean> {
  const changed = await q.run(
    moves("escalations", "acknowledged", {
      set: "acknowledged_by = $2, acknowledged_target = $3, acknowledged_at = now_ms(), due_at = NULL",
      where:
        "id = $1 AND (state = 'open' OR acknowledged_by <> $2 OR COALESCE(acknowledged_target, '') <> COALESCE($3, ''))",
    }),
    id,
    by.name,
    by.target,
  );
  return changed === 1;
}

/** Enqueues the notification of an acknowledgement for the other responders that were notified before.
 *  `id` is the prefix of the new ids. A target that got the same notification before, because another
 *  responder had the escalation in between, gets it again. */
export async function notifyOthers(
  q: Query,
  escalation: string,
  by: { readonly name: string; readonly target: string | null },
  { id, text }: { readonly id: string; readonly text: string },
): Promise<void> {
  const added = await q.run(
    `INSERT INTO notifications (id, target, kind, subject, text, due_at, made_at)
     SELECT $2 || '/' || notification_targets.id, notification_targets.id, 'acknowledged', CASE WHEN EXISTS (
         SELECT 1 FROM notifications WHERE notifications.target = notification_targets.id AND kind = 'acknowledged' AND subject = $3
       ) THEN $3 || ' ' || $2 ELSE $3 END, $4, now_ms(), now_ms()
     FROM notification_targets WHERE escalation = $1
       AND NOT EXISTS (SELECT 1 FROM notification_targets own WHERE own.id = $5 AND (own.id = notification_targets.id OR own.person = notification_targets.person))
       AND EXISTS (SELECT 1 FROM notifications JOIN drafts ON drafts.reply = notifications.reply WHERE notifications.target = notification_targets.id)`,
    escalation,
    id,
    by.name,
    text,
    by.target ?? "",
  );
  if (added > 0) touch(q, "escalations");
}

/** Enqueues our answer to a message of the target, once per `subject`. Returns false when it was
 *  enqueued before, or when `most` answers were made to that address within the last `withinMs`. */
export async function enqueueAnswer(
  q: Query,
  target: TargetRow,
  answer: { readonly id: string; readonly subject: string; readonly text: string },
  { most, withinMs }: { readonly most: number; readonly withinMs: number },
): Promise<boolean> {
  const added = await q.run(
    `INSERT INTO notifications (id, target, kind, subject, text, due_at, made_at)
     SELECT $1, $2, 'message', $3, $4, now_ms(), now_ms() WHERE (
       SELECT COUNT(*) FROM notifications JOIN notification_targets ON notification_targets.id = notifications.target
       WHERE notification_targets.channel = $5 AND notification_targets.address = $6 AND notifications.kind = 'message' AND made_at > now_ms() - $7
     ) < $8 ${ignoreDuplicates}`,
    answer.id,
    target.id,
    answer.subject,
    answer.text,
    target.channel,
    target.address,
    withinMs,
    most,
  );
  if (added === 1) touch(q, "escalations");
  return added === 1;
}
