// Statements of responder replies.

import type { MessageEvent } from "bridgehead/contract";
import { readInstructions } from "../../domain/instructions.ts";
import { referenceLimit, references } from "../../domain/turn.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import { fromListed, joinEach, listOf, type Query, type Row, touch } from "../../store/driver.ts";
import { type ConversationRow, takesPart } from "../../store/tables/conversations.ts";
import {
  type EscalationRow,
  escalationByNumber,
  escalationColumns,
  lockEscalations,
} from "../../store/tables/escalations.ts";
import { type EventRow, releasedCode } from "../../store/tables/events.ts";
import { attachedFiles } from "../../store/tables/files.ts";
import { ignoreDuplicates, type TargetRow, targetColumns } from "../../store/tables/responders.ts";
import { moves } from "../../store/transitions.ts";
import type { EscalationCore } from "../actions.ts";
import { numberIn } from "../notify/text.ts";
import {
  type Candidate,
  foreignNumber,
  type Link,
  type Links,
  perEscalation,
  type ReplyInput,
  type Sender,
  senderOf,
} from "./decide.ts";

/** Loads what the decisions about a message need. The links select the sender's escalations, and the text another one that it
 *  names. Returns null when the sender is a customer. */
export async function loadReply(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: MessageEvent,
  { lines, timing }: Pick<EscalationCore, "lines" | "timing">,
): Promise<{ readonly sender: Sender; readonly first: Candidate; readonly input: ReplyInput } | null> {
  const links = await loadLinks(q, line, event, timing.escalation.replyAfterEnd);
  const sender = senderOf(event.from.address.toLowerCase(), links);
  const [first] = sender.candidates;
  if (!first) return null;
  const { traits } = line;
  const known = perEscalation(sender.candidates);
  const files = await attachedFiles(q, row.id);
  // A message with files and no text of the sender contains only our notification or a signature.
  const text = event.wordless && files.length > 0 ? "" : event.text;
  const names = traits.platform === null ? [] : [first.target.name, event.from.name ?? ""];
  const words = readInstructions(text, names, known.length > 1);
  const number = foreignNumber(traits.conversations, known, words);
  const needsCustomer = words.whole !== "" || words.text !== "" || words.resume || files.length > 0;
  const conversations = known.flatMap(({ row: { conversation } }) => conversation ?? []);
  const input = {
    traits,
    event,
    released: row.code === releasedCode,
    text,
    words,
    known,
    files,
    other: number === null ? null : await escalationByNumber(q, number),
    customers: needsCustomer && conversations.length > 0 ? await readCustomers(q, conversations) : new Map(),
    lineOf: (channel: string) => lines().get(channel),
  };
  return { sender, first, input };
}

/** Returns what links the message to notification targets, with their locked escalations: a close at another node
 *  happens before or after this transaction. A message that cites nothing on a channel with threads takes no statement. An
 *  escalation that the message does not cite counts until `closedMs` milliseconds after its end. */
async function loadLinks(q: Query, line: ChannelRuntime, event: MessageEvent, closedMs: number): Promise<Links> {
  const address = event.from.address.toLowerCase();
  if (line.traits.conversations === "person") {
    const candidates = await candidatesAt(q, line.channel, address, closedMs);
    return { inConversation: false, links: candidates.map((one) => ({ by: "address", ...one })) };
  }
  const { answers, tokens } = references(event);
  const number = numberIn(event.subject ?? "");
  if (answers.length + tokens.length === 0 && number === null) return { inConversation: false, links: [] };
  const found = await citedTargets(q, line.channel, { answers, tokens, number, sender: address, closedMs });
  if (found.targets.length === 0) return { inConversation: found.inConversation, links: [] };
  const rows = await lockEscalations(
    q,
    found.targets.map(({ target }) => target.escalation),
  );
  const links = found.targets.flatMap(({ by, target }): Link[] => {
    const row = rows.get(target.escalation);
    return row ? [{ by, target, row }] : [];
  });
  return { inConversation: found.inConversation, links };
}

const prefixed = (table: string, columns: string): string =>
  columns
    .split(", ")
    .map((column) => `${table}.${column} AS ${table}_${column}`)
    .join(", ");

/** Returns the columns of `prefixed`. */
const part = (row: Row, prefix: string): unknown =>
  Object.fromEntries(
    Object.entries(row).flatMap(([name, value]) =>
      name.startsWith(prefix) ? [[name.slice(prefix.length), value]] : [],
    ),
  );

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
  const found = rows.map((row) => ({
    target: part(row, "notification_targets_") as TargetRow,
    row: part(row, "escalations_") as EscalationRow,
  }));
  return found.sort((a, b) => (a.target.id < b.target.id ? 1 : -1));
}

/** Most conversations with one id that count: the newest ones in which the sender takes part. */
const mostConversations = 5;

// Places: the ids in their order, then the tokens. Unrelated senders that reference an id have conversations of their own
// with it.
const citedSql = `WITH answers (place, value) AS (
    SELECT key, value FROM json_each($2) -- only: sqlite
    SELECT place, value FROM json_array_elements_text(CAST($2 AS json)) WITH ORDINALITY AS given (value, place) -- only: postgres
  ), tokens (value) AS (
    SELECT value FROM json_each($3) -- only: sqlite
    SELECT value FROM json_array_elements_text(CAST($3 AS json)) AS given (value) -- only: postgres
  ), known (place, conversation) AS (
    SELECT place, conversation FROM (
      SELECT answers.place, citations.conversation,
        ROW_NUMBER() OVER (PARTITION BY answers.place ORDER BY citations.conversation DESC) AS nth
      FROM answers ${joinEach("citations", "citations.channel = $1 AND citations.external_id = answers.value")}
      WHERE ${takesPart("citations.conversation", "$4")}) AS numbered
    WHERE nth <= ${mostConversations}
    UNION ALL
    SELECT ${referenceLimit + 1}, conversations.id
    FROM tokens ${joinEach("conversations", "conversations.channel = $1 AND conversations.token = tokens.value")}
  ), found (kind, place, conversation, target) AS (
    SELECT 'conversation', place, conversation, CAST(NULL AS TEXT) FROM known
    UNION SELECT 'thread', place, known.conversation, notification_targets.id
      FROM known ${joinEach("notification_targets", "notification_targets.conversation = known.conversation")}
    UNION SELECT 'thread', place, known.conversation, notifications.target
      FROM known ${joinEach("replies", "replies.conversation = known.conversation")}
      ${joinEach("notifications", "notifications.reply = replies.id")}
    UNION SELECT 'notification', answers.place, '', notifications.target
      FROM answers ${joinEach("citations", "citations.channel = $1 AND citations.external_id = answers.value")}
      ${joinEach("drafts", "drafts.id = citations.draft")}
      ${joinEach("notifications", "notifications.reply = drafts.reply")}
    UNION SELECT 'subject', 0, '', notification_targets.id
      FROM notification_targets JOIN escalations ON escalations.id = notification_targets.escalation
      WHERE notification_targets.channel = $1 AND notification_targets.address = $4 AND escalations.number = $5
        AND (escalations.state <> 'closed' OR escalations.closed_at > now_ms() - $6)
  )
  SELECT found.kind AS by, ${prefixed("notification_targets", targetColumns)}
  FROM found
  LEFT JOIN notification_targets ON notification_targets.id = found.target -- only: sqlite
  LEFT JOIN LATERAL (SELECT * FROM notification_targets WHERE notification_targets.id = found.target OFFSET 0) AS notification_targets ON TRUE -- only: postgres
  ORDER BY found.place, found.conversation DESC, found.target DESC`;

/** What a message on a channel with threads is linked by. */
export interface LinkSearch {
  readonly answers: readonly string[];
  readonly tokens: readonly string[];
  /** The number of an escalation in the subject. */
  readonly number: number | null;
  /** In lower case. */
  readonly sender: string;
  readonly closedMs: number;
}

/** Returns the notification targets that are linked to what a message cites: in the order of the ids and tokens, with the
 *  newest conversation and the newest target first. There are several when one message covers several escalations. */
export async function citedTargets(
  q: Query,
  channel: string,
  { answers, tokens, number, sender, closedMs }: LinkSearch,
): Promise<{
  readonly inConversation: boolean;
  readonly targets: readonly { readonly by: Exclude<Link["by"], "address">; readonly target: TargetRow }[];
}> {
  const rows = await q.all<Row & { by: "conversation" | "thread" | "notification" | "subject" }>(
    citedSql,
    channel,
    listOf(answers),
    listOf(tokens),
    sender,
    number,
    closedMs,
  );
  return {
    inConversation: rows.some(({ by }) => by === "conversation"),
    targets: rows.flatMap(({ by, ...row }) =>
      by === "conversation" ? [] : [{ by, target: part(row, "notification_targets_") as TargetRow }],
    ),
  };
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
