// The complete history of one conversation, or of one message without a conversation, as rows. The number of statements
// does not depend on the number of rows, and each list is limited to its newest rows.

import { fromListed, listOf, type Query } from "../driver.ts";
import { type ActionRow, actionColumns } from "../tables/actions.ts";
import type { ConversationRow } from "../tables/conversations.ts";
import type { ReplyRow } from "../tables/drafts.ts";
import { type EscalationRow, escalationColumns, type TriggerRow } from "../tables/escalations.ts";
import type { AttachmentRow } from "../tables/files.ts";
import type { NotificationStateRow } from "../tables/responders.ts";
import { suppressionReason } from "../tables/suppressions.ts";
import type { TurnRow } from "../tables/turns.ts";
import { type EventSummary, eventColumns } from "./inbox.ts";
import { type AttemptRow, type DraftSummary, draftColumns } from "./outbox.ts";

export interface EventHistory extends EventSummary {
  /** The adapter's event as JSON; `{}` after retention has erased it. */
  readonly body: string;
  readonly turn: string | null;
  /** Bytes of the message as received; null when they are not stored. */
  readonly raw_size: number | null;
  readonly attachments: readonly AttachmentRow[];
}

export interface TurnHistory
  extends Pick<TurnRow, "id" | "seq" | "kind" | "event" | "session" | "state" | "question" | "context" | "opening">,
    Pick<TurnRow, "lookups" | "question_id" | "reason" | "received_at"> {
  readonly due_at: number;
  readonly made_at: number;
  readonly updated_at: number;
  readonly attempts: readonly AttemptRow[];
}

interface ReplyHistory extends Pick<ReplyRow, "id" | "turn" | "kind" | "text" | "created_at"> {
  readonly state: string;
  readonly platform_id: string | null;
  readonly reason: string | null;
}

export interface DraftHistory extends Omit<DraftSummary, "attempts"> {
  readonly reply: string;
  readonly lookups: number;
  readonly heard: string | null;
  readonly attempts: readonly AttemptRow[];
}

/** A notification of a responder, with the delivery of the draft that carries it. */
interface NotificationHistory extends Omit<NotificationStateRow, "target" | "text"> {
  readonly id: string;
  readonly channel: string;
  readonly due_at: number | null;
  readonly finished_at: number | null;
}

export interface EscalationHistory extends EscalationRow {
  readonly triggers: readonly TriggerRow[];
  readonly notifications: readonly NotificationHistory[];
}

interface ConversationHeader extends Omit<ConversationRow, "token"> {
  readonly opened_at: number;
  /** Who answers at the platform, `ai` or `manual`; null when it was never polled. */
  readonly mode: string | null;
  /** Why nothing may be sent to the person; null when it may. */
  readonly suppressed: string | null;
}

export interface History {
  /** Null for a message without a conversation. */
  readonly conversation: ConversationHeader | null;
  readonly events: readonly EventHistory[];
  readonly turns: readonly TurnHistory[];
  readonly replies: readonly ReplyHistory[];
  readonly drafts: readonly DraftHistory[];
  readonly escalations: readonly EscalationHistory[];
  readonly actions: readonly ActionRow[];
  /** True when a list has reached the limit: older rows are missing. */
  readonly cut: boolean;
}

/** Longer than any text. */
const wholeText = 2 ** 30;

/** Returns the history of a conversation, each list oldest first and limited to its newest `limit` rows. Null when the
 *  conversation does not exist. `mostText`: most characters of each text of the customer and the agent; the body of a longer
 *  message then has only the fields that `timelineOf` shows. */
export async function conversationHistory(
  q: Query,
  id: string,
  limit: number,
  mostText = wholeText,
): Promise<History | null> {
  const conversation = await q.one<ConversationHeader>(
    `SELECT conversations.id, conversations.channel, agent, person, person_name, via, subject, platform_id, opened_at,
       (SELECT mode FROM polls WHERE polls.conversation = conversations.id) AS mode,
       ${suppressionReason("conversations.channel", "person", "via")} AS suppressed
     FROM conversations WHERE conversations.id = $1`,
    id,
  );
  if (!conversation) return null;
  const events = await q.all<Omit<EventHistory, "attachments">>(
    `SELECT ${historyColumns(boundedBody("$3"))} FROM events WHERE conversation = $1 ORDER BY id DESC LIMIT $2`,
    id,
    limit,
    mostText,
  );
  const turns = await q.all<Omit<TurnHistory, "attempts">>(
    `SELECT id, seq, kind, event, session, state, substr(question, 1, $3) AS question, substr(context, 1, $3) AS context,
       opening, lookups, due_at, question_id, reason, received_at, made_at, updated_at FROM turns
     WHERE conversation = $1 ORDER BY seq DESC LIMIT $2`,
    id,
    limit,
    mostText,
  );
  const replies = await q.all<ReplyHistory>(
    `SELECT id, turn, kind, state, substr(text, 1, $3) AS text, platform_id, reason, created_at FROM replies
     WHERE conversation = $1 ORDER BY created_at DESC, id DESC LIMIT $2`,
    id,
    limit,
    mostText,
  );
  // Drafts before all others have low sequence numbers; their ids follow the time.
  const drafts = await q.all<Omit<DraftHistory, "attempts">>(
    `SELECT ${draftColumns.replace(" attempts,", "")}, reply, lookups, heard FROM drafts
     WHERE conversation = $1 ORDER BY id DESC LIMIT $2`,
    id,
    limit,
  );
  const attempts = await attemptsOf(
    q,
    [...turns, ...drafts].map((one) => one.id),
  );
  const actions = await q.all<ActionRow>(
    `SELECT ${actionColumns} FROM actions WHERE conversation = $1 ORDER BY id DESC LIMIT $2`,
    id,
    limit,
  );
  const escalations = await escalationsOf(q, id, limit);
  const lists = [events, turns, replies, drafts, actions, escalations];
  return {
    conversation,
    events: await withAttachments(q, events.reverse()),
    turns: turns.reverse().map((one) => ({ ...one, attempts: attempts.get(one.id) ?? [] })),
    replies: replies.reverse(),
    drafts: drafts.reverse().map((one) => ({ ...one, attempts: attempts.get(one.id) ?? [] })),
    escalations,
    actions: actions.reverse(),
    cut: lists.some(({ length }) => length === limit),
  };
}

/** Returns the history of one message. Its turn, reply and drafts are part of the history of its conversation. Null
 *  when the message does not exist. */
export async function eventHistory(q: Query, id: number): Promise<History | null> {
  const event = await q.one<Omit<EventHistory, "attachments">>(
    `SELECT ${historyColumns("body")} FROM events WHERE id = $1`,
    id,
  );
  if (!event) return null;
  const actions = await q.all<ActionRow>(
    `SELECT ${actionColumns} FROM actions WHERE event = $1 ORDER BY id LIMIT 100`,
    id,
  );
  const events = await withAttachments(q, [event]);
  const none = { turns: [], replies: [], drafts: [], escalations: [] };
  return { conversation: null, events, ...none, actions, cut: false };
}

const historyColumns = (body: string): string => `${eventColumns}, turn, ${body},
     (SELECT length(bytes) FROM raw_messages WHERE raw_messages.channel = events.channel AND event = events.id) AS raw_size`;

const boundedBody = (most: string): string => `CASE WHEN kind = 'message' AND length(body) > ${most} THEN
       json_object('text', substr(body ->> '$.text', 1, ${most}), 'from', json_object('name', body ->> '$.from.name')) -- only: sqlite
       CAST(json_build_object('text', substr(CAST(body AS json) ->> 'text', 1, ${most}), 'from', json_build_object('name', CAST(body AS json) #>> '{from,name}')) AS TEXT) -- only: postgres
       ELSE body END AS body`;

async function withAttachments(
  q: Query,
  events: readonly Omit<EventHistory, "attachments">[],
): Promise<EventHistory[]> {
  const rows = await q.all<AttachmentRow & { readonly event: number }>(
    `SELECT event, name, media_type, size FROM attachments
     WHERE event IN (SELECT CAST(value AS BIGINT) FROM json_each($1)) -- only: sqlite
     WHERE event = ANY (ARRAY(SELECT CAST(json_array_elements_text(CAST($1 AS json)) AS BIGINT))) -- only: postgres
     ORDER BY event, position`,
    listOf(events.map((one) => String(one.id))),
  );
  const byEvent = Map.groupBy(rows, ({ event }) => event);
  return events.map((one) => ({
    ...one,
    attachments: (byEvent.get(one.id) ?? []).map(({ event: _event, ...file }) => file),
  }));
}

/** Returns the attempts on these drafts and turns, by draft or turn, oldest first. */
export async function attemptsOf(
  q: Query,
  subjects: readonly string[],
): Promise<ReadonlyMap<string, readonly AttemptRow[]>> {
  const rows = await q.all<AttemptRow & { readonly subject: string }>(
    `SELECT subject, number, kind, node, outcome, detail, started_at, ended_at ${fromListed("attempts", "subject")}
     ORDER BY subject, number`,
    listOf(subjects),
  );
  return Map.groupBy(rows, ({ subject }) => subject);
}

async function escalationsOf(q: Query, conversation: string, limit: number): Promise<EscalationHistory[]> {
  const rows = await q.all<EscalationRow>(
    `SELECT ${escalationColumns} FROM escalations WHERE conversation = $1 ORDER BY number DESC LIMIT $2`,
    conversation,
    limit,
  );
  if (rows.length === 0) return [];
  const ids = listOf(rows.map(({ id }) => id));
  const triggers = await q.all<TriggerRow & { readonly escalation: string }>(
    `SELECT escalation, source, detail, recorded_at ${fromListed("triggers", "escalation")}
     ORDER BY recorded_at, key LIMIT $2`,
    ids,
    limit,
  );
  const notifications = await q.all<NotificationHistory & { readonly escalation: string }>(
    `SELECT notification_targets.escalation, notifications.id, notifications.kind, notification_targets.name, notification_targets.way, notification_targets.address, notification_targets.channel,
       notifications.made_at, notifications.due_at, drafts.id AS draft, drafts.state, drafts.reason, drafts.updated_at AS finished_at
     ${fromListed("notification_targets", "escalation")} JOIN notifications ON notifications.target = notification_targets.id
     LEFT JOIN drafts ON drafts.reply = notifications.reply ORDER BY notifications.made_at, notifications.id LIMIT $2`,
    ids,
    limit,
  );
  return rows.reverse().map((row) => ({
    ...row,
    triggers: triggers.filter(({ escalation }) => escalation === row.id),
    notifications: notifications.filter(({ escalation }) => escalation === row.id),
  }));
}
