// Search for conversations and messages by any id, address or subject, and the list of conversations. Exact ids are
// looked up in indexes. Parts of addresses and words of subjects are compared with the search index of the events
// (newest first) and with the conversations; neither contains the text of a message.

import { setImmediate } from "node:timers/promises";
import { fromListed, listOf, type Query, type Value } from "../driver.ts";
import type { ConversationRow } from "../tables/conversations.ts";
import { stoppedDrafts } from "../tables/drafts.ts";
import { type EventSummary, readEvents } from "./inbox.ts";
import type { RowFilter } from "./outbox.ts";

export interface Found {
  /** Null for a message that belongs to no conversation, such as a refused one. */
  readonly conversation: string | null;
  /** Number of the newest matching message; null when no message matches. */
  readonly event: number | null;
  /** Time of the match in epoch milliseconds. */
  readonly at: number;
  /** What matches: `conversation`, `draft`, `Message-ID or provider id`, `address`, `subject or address` ... */
  readonly what: string;
}

/** A match with its conversation, or with its message when it belongs to none. */
export interface FoundMatch extends Found {
  readonly summary: ConversationSummary | null;
  readonly message: EventSummary | null;
}

/** Returns what `find` returns, with what the lists show of it. */
export async function findMatches(q: Query, text: string, options: FindOptions): Promise<FoundMatch[]> {
  const found = await find(q, text, options);
  const summaries = await summariesOf(
    q,
    found.flatMap(({ conversation }) => conversation ?? []),
  );
  const messages = await readEvents(
    q,
    found.flatMap(({ event }) => event ?? []),
  );
  return found.map((one) => ({
    ...one,
    summary: summaries.get(one.conversation ?? "") ?? null,
    message: messages.get(one.event ?? 0) ?? null,
  }));
}

type FindOptions = Omit<RowFilter, "channel">;

/** Longest query that is compared; the search columns are not longer. */
const longestQuery = 250;
const mostWords = 8;
/** Ids of the platform that no index has are searched only for a query of this form. */
const looksLikeId = /^(?=.*[\d_])[\w-]{8,}$/;
/** A longer number may also be a part of a telephone number or of a subject. */
const longestNumber = 4;

/** Returns what matches the query, newest first, at most `limit` conversations and messages. An exact id excludes
 *  partial matches. `since` (epoch milliseconds) excludes older ones. */
export async function find(q: Query, text: string, { limit, since = 0 }: FindOptions): Promise<Found[]> {
  const query = text.trim().slice(0, longestQuery);
  if (query === "") return [];
  const exact = await q.all<Found>(idSearch, query, `<${query.replace(/^<|>$/g, "")}>`, limit);
  if (exact.length > 0) return merged(exact, since, limit);
  const numbered = await byNumber(q, query);
  if (numbered.length > 0 && query.length <= longestNumber) return merged(numbered, since, limit);
  const words = query.toLowerCase().split(/\s+/).slice(0, mostWords);
  const found = [
    ...numbered,
    ...(await byAddress(q, query.toLowerCase(), limit)),
    ...(await byEvents(q, words, since, limit)),
    ...(await byConversations(q, words, since, limit)),
  ];
  if (found.length > 0 || !looksLikeId.test(query)) return merged(found, since, limit);
  return merged(await byPlatformMessage(q, query), since, limit);
}

/** One entry for each conversation and each message without one, newest first. */
function merged(found: readonly Found[], since: number, limit: number): Found[] {
  const byKey = new Map<string, Found>();
  for (const one of found) {
    const key = one.conversation ?? `event ${one.event}`;
    const known = byKey.get(key);
    if (one.at >= since && (known === undefined || known.at < one.at))
      byKey.set(key, { ...one, event: one.event ?? known?.event ?? null });
  }
  return [...byKey.values()].sort((left, right) => right.at - left.at).slice(0, limit);
}

/** Ids are unique, or unique for a channel: then every channel is looked up. $2 is a Message-ID in angle brackets. */
const idColumns = "conversation, event, CAST(at AS BIGINT) AS at, what";
const idSearch = `SELECT ${idColumns} FROM (
  SELECT id AS conversation, CAST(NULL AS BIGINT) AS event, opened_at AS at, 'conversation' AS what
    FROM conversations WHERE id = $1
  UNION ALL SELECT id, NULL, opened_at, 'platform conversation' FROM conversations WHERE platform_id = $1
  UNION ALL SELECT id, NULL, opened_at, 'thread token' FROM conversations WHERE token = $1
  UNION ALL SELECT conversation, events.id, received_at, 'provider id'
    FROM channels CROSS JOIN events WHERE events.channel = channels.id AND events.external_id IN ($1, $2)
  UNION ALL SELECT citations.conversation, NULL, opened_at, 'Message-ID or provider id'
    FROM channels CROSS JOIN citations JOIN conversations ON conversations.id = citations.conversation
    WHERE citations.channel = channels.id AND citations.external_id IN ($1, $2)
  UNION ALL SELECT sessions.conversation, NULL, sessions.opened_at, 'call'
    FROM channels CROSS JOIN sessions WHERE sessions.channel = channels.id AND sessions.id = $1
  UNION ALL SELECT conversation, event, made_at, 'question' FROM turns WHERE id = $1
  UNION ALL SELECT conversation, NULL, created_at, 'reply' FROM replies WHERE id = $1
  UNION ALL SELECT conversation, NULL, created_at, 'draft' FROM drafts WHERE id = $1
  UNION ALL SELECT conversation, NULL, opened_at, 'escalation' FROM escalations WHERE id = $1 AND conversation IS NOT NULL
) AS hits ORDER BY at DESC LIMIT $3`;

/** Numbers of messages and escalations. They are short, so a telephone number may contain them. */
async function byNumber(q: Query, query: string): Promise<Found[]> {
  const [, sign, digits] = /^(#?)(\d{1,15})$/.exec(query) ?? [];
  if (digits === undefined) return [];
  return q.all<Found>(
    `SELECT conversation, id AS event, received_at AS at, 'message number' AS what FROM events WHERE id = $1 AND $2 = ''
     UNION ALL SELECT conversation, NULL, opened_at, 'escalation number' FROM escalations
       WHERE number = $1 AND conversation IS NOT NULL`,
    Number(digits),
    sign ?? "",
  );
}

const byAddress = (q: Query, address: string, limit: number): Promise<Found[]> =>
  q.all<Found>(
    `SELECT conversation, event, CAST(at AS BIGINT) AS at, what FROM (
       SELECT conversations.id AS conversation, CAST(NULL AS BIGINT) AS event, opened_at AS at, 'address' AS what
         FROM channels CROSS JOIN conversations WHERE conversations.channel = channels.id AND person = $1
       UNION ALL SELECT drafts.conversation, NULL, drafts.created_at, 'recipient'
         FROM channels CROSS JOIN conversations CROSS JOIN drafts WHERE conversations.channel = channels.id AND person = $1
           AND drafts.conversation = conversations.id AND recipient = $1
       UNION ALL SELECT drafts.conversation, NULL, drafts.created_at, 'recipient'
         FROM channels CROSS JOIN drafts WHERE drafts.channel = channels.id AND recipient = $1 AND elsewhere = 1
     ) AS hits ORDER BY at DESC LIMIT $2`,
    address,
    limit * 20,
  );

const likely = (column: string, place: string): string => `
  ${column} LIKE ${place} ESCAPE '\\' -- only: sqlite
  ${column} ILIKE ${place} ESCAPE '\\' -- only: postgres
`;

/** Returns a condition that every word occurs in one of the columns, with its values from `$first` on. SQLite compares
 *  ASCII letters only without their case, so other words are compared in three spellings. */
function contains(
  columns: readonly string[],
  words: readonly string[],
  first: number,
): { readonly sql: string; readonly values: Value[] } {
  const values: Value[] = [];
  const conditions = words.map((word) => {
    const spellings = /^[\x20-\x7e]*$/.test(word)
      ? [word]
      : [...new Set([word, word.toUpperCase(), word.slice(0, 1).toUpperCase() + word.slice(1)])];
    const each = spellings.flatMap((spelling) => {
      values.push(`%${spelling.replace(/[\\%_]/g, "\\$&")}%`);
      const place = `$${first + values.length - 1}`;
      return columns.map((column) => likely(column, place));
    });
    return `(${each.join("\n OR ")}\n)`;
  });
  return { sql: conditions.join(" AND "), values };
}

/** Rows that one statement compares. SQLite reads on the thread that serves sockets, so other work runs in between. */
const chunk = 20_000;

interface Chunk {
  readonly rows: readonly Found[];
  /** Where the next chunk begins; undefined at the end. */
  readonly next: Value | undefined;
}

/** Reads chunks, newest first, until `most` rows are found or all are read. */
async function inChunks(first: Value, most: number, read: (from: Value) => Promise<Chunk>): Promise<readonly Found[]> {
  const found: Found[] = [];
  for (let from = first; ; ) {
    const { rows, next } = await read(from);
    found.push(...rows);
    if (next === undefined || found.length >= most) return found;
    from = next;
    await setImmediate();
  }
}

const inTime = "kind = 'message' AND received_at >= $1 AND received_at < $2 ORDER BY received_at DESC";

async function byEvents(q: Query, words: readonly string[], since: number, limit: number): Promise<readonly Found[]> {
  const matches = contains(["sender", "subject", "cited"], words, 4);
  return inChunks(Number.MAX_SAFE_INTEGER, limit * 20, async (before) => {
    const rows = await q.all<Found>(
      `SELECT events.conversation, events.id AS event, events.received_at AS at, 'subject or sender' AS what FROM (
         SELECT id FROM (
           SELECT id, sender, subject, cited FROM events WHERE ${inTime} LIMIT ${chunk}
         ) AS part WHERE ${matches.sql} LIMIT $3
       ) AS hits JOIN events ON events.id = hits.id`,
      since,
      before,
      limit * 20,
      ...matches.values,
    );
    // The last row of the chunk is read again with its neighbours of the same millisecond.
    const last = await q.one<{ at: number }>(
      `SELECT received_at AS at FROM events WHERE ${inTime} LIMIT 1 OFFSET ${chunk - 1}`,
      since,
      before,
    );
    return { rows, next: last && (last.at + 1 < Number(before) ? last.at + 1 : last.at) };
  });
}

/** Conversations in the order of their ids, below the id $2; an empty one stands for all. */
const inOrder = (before: Value): string =>
  `opened_at >= $1 AND ${before === "" ? "CAST($2 AS TEXT) = ''" : "id < $2"} ORDER BY id DESC`;

async function byConversations(
  q: Query,
  words: readonly string[],
  since: number,
  limit: number,
): Promise<readonly Found[]> {
  const matches = contains(["person", "person_name", "subject"], words, 4);
  return inChunks("", limit, async (before) => {
    const rows = await q.all<Found>(
      `SELECT id AS conversation, CAST(NULL AS BIGINT) AS event, opened_at AS at, 'person or subject' AS what FROM (
         SELECT id, opened_at, person, person_name, subject FROM conversations WHERE ${inOrder(before)} LIMIT ${chunk}
       ) AS part WHERE ${matches.sql} LIMIT $3`,
      since,
      before,
      limit,
      ...matches.values,
    );
    const last = await q.one<{ id: string }>(
      `SELECT id FROM conversations WHERE ${inOrder(before)} LIMIT 1 OFFSET ${chunk - 1}`,
      since,
      before,
    );
    return { rows, next: last?.id };
  });
}

/** Messages of the platform, by their ids there. Reads through all questions and replies, so it is tried last. */
async function byPlatformMessage(q: Query, id: string): Promise<readonly Found[]> {
  // Their texts are read with the rows.
  const rowsAtOnce = chunk / 5;
  const search = (select: string, table: string) =>
    inChunks("", Number.POSITIVE_INFINITY, async (before) => {
      const part = `FROM ${table} WHERE ${before === "" ? "CAST($1 AS TEXT) = ''" : "id < $1"} ORDER BY id DESC LIMIT`;
      const rows = await q.all<Found>(
        `SELECT conversation, event, at, 'platform message' AS what FROM (
           SELECT conversation, ${select} ${part} ${rowsAtOnce}) AS part WHERE message = $2`,
        before,
        id,
      );
      const last = await q.one<{ id: string }>(`SELECT id ${part} 1 OFFSET ${rowsAtOnce - 1}`, before);
      return { rows, next: last?.id };
    });
  return [
    ...(await search("event, made_at AS at, question_id AS message", "turns")),
    ...(await search("CAST(NULL AS BIGINT) AS event, created_at AS at, platform_id AS message", "replies")),
  ];
}

export type SummaryState = "held" | "failed" | "waiting" | "ignored" | "silent" | "dropped" | "answered" | "empty";

export interface ConversationSummary extends Omit<ConversationRow, "via" | "token"> {
  readonly opened_at: number;
  /** State of its newest message and of the answer to it. */
  readonly state: SummaryState;
  readonly reason: string | null;
  /** Number of the unclosed escalation; null without one. */
  readonly escalation: number | null;
  /** Number of the newest message; null for an outbound conversation without an answer. */
  readonly message: number | null;
  /** Time of the newest message, question or draft. */
  readonly at: number;
}

type SummaryRow = Omit<ConversationSummary, "state" | "reason" | "at"> &
  Readonly<Record<`${"event" | "turn" | "reply" | "draft"}_${"state" | "reason"}` | "event_code", string | null>> &
  Readonly<Record<`${"event" | "turn" | "draft"}_at`, number | null>>;

const newest = (column: string, table: "events" | "turns" | "replies" | "drafts"): string => {
  const order = { events: "id", turns: "seq", replies: "created_at", drafts: "seq" }[table];
  const messages = table === "events" ? "AND kind = 'message'" : "";
  return `(SELECT ${column} FROM ${table} WHERE ${table}.conversation = conversations.id ${messages} ORDER BY ${order} DESC LIMIT 1)`;
};

/** Returns the conversations with these ids, by id. */
export async function summariesOf(q: Query, ids: Iterable<string>): Promise<ReadonlyMap<string, ConversationSummary>> {
  const rows = await q.all<SummaryRow>(
    `SELECT id, channel, agent, person, person_name, subject, platform_id, opened_at,
       (SELECT number FROM escalations WHERE escalations.conversation = conversations.id AND state <> 'closed'
        ORDER BY number DESC LIMIT 1) AS escalation,
       ${newest("id", "events")} AS message, ${newest("state", "events")} AS event_state,
       ${newest("code", "events")} AS event_code, ${newest("reason", "events")} AS event_reason,
       ${newest("received_at", "events")} AS event_at,
       ${newest("state", "turns")} AS turn_state, ${newest("reason", "turns")} AS turn_reason,
       ${newest("made_at", "turns")} AS turn_at,
       ${newest("state", "replies")} AS reply_state, ${newest("reason", "replies")} AS reply_reason,
       ${newest("state", "drafts")} AS draft_state, ${newest("reason", "drafts")} AS draft_reason,
       ${newest("created_at", "drafts")} AS draft_at
     ${fromListed("conversations", "id")}`,
    listOf(ids),
  );
  return new Map(rows.map((row) => [row.id, summaryOf(row)]));
}

function summaryOf(row: SummaryRow): ConversationSummary {
  const { id, channel, agent, person, person_name, subject, platform_id, opened_at, escalation, message } = row;
  const at = Math.max(opened_at, row.event_at ?? 0, row.turn_at ?? 0, row.draft_at ?? 0);
  const about = { id, channel, agent, person, person_name, subject, platform_id, opened_at };
  return { ...about, escalation, message, at, ...standingOf(row) };
}

function standingOf(row: SummaryRow): Pick<ConversationSummary, "state" | "reason"> {
  const { event_state: event, turn_state: turn, reply_state: reply, draft_state: draft } = row;
  if (event === "held" || event === "failed" || event === "ignored")
    return { state: event, reason: [row.event_code, row.event_reason].filter(Boolean).join(": ") || null };
  if (event === "stored") return { state: "waiting", reason: row.event_reason };
  if (turn === "waiting" || turn === "asking" || turn === "unknown")
    return { state: "waiting", reason: row.turn_reason };
  if (turn === "failed" || turn === "silent" || (turn === "dropped" && draft === null))
    return { state: turn, reason: row.turn_reason };
  if (reply === "failed") return { state: "failed", reason: row.reply_reason };
  if (draft === "held" || draft === "failed" || draft === "dropped") return { state: draft, reason: row.draft_reason };
  if (reply === "ready" || draft === "queued" || draft === "sending" || draft === "unknown")
    return { state: "waiting", reason: row.draft_reason };
  return { state: draft === null && turn === null ? "empty" : "answered", reason: null };
}

export interface FoundFilter extends RowFilter {
  /** `attention`: held, failed or escalated; `waiting`: open work. Default: all. */
  readonly state?: "attention" | "waiting";
}

/** Returns conversations, those with the newest activity first. */
export async function listConversations(q: Query, filter: FoundFilter): Promise<ConversationSummary[]> {
  const { channel = "", since = 0, state, limit } = filter;
  const from = state === undefined ? recent : { attention, waiting }[state];
  const rows = await q.all<{ conversation: string }>(
    `SELECT conversation, MAX(at) AS at FROM (${from}) AS found
     WHERE conversation IS NOT NULL AND ($1 = '' OR channel = $1) AND at >= $2
     GROUP BY conversation ORDER BY at DESC LIMIT $3`,
    channel,
    since,
    limit,
  );
  const summaries = await summariesOf(
    q,
    rows.map(({ conversation }) => conversation),
  );
  return [...summaries.values()].sort((left, right) => right.at - left.at);
}

/** The newest messages and the newest conversations. Twenty messages per conversation are enough for all but a burst in
 *  few conversations. */
const recent = `
  SELECT conversation, channel, at FROM (
    SELECT events.conversation, events.channel, events.received_at AS at FROM (
      SELECT id FROM events WHERE kind = 'message' AND ($1 = '' OR channel = $1) AND received_at >= $2
      ORDER BY received_at DESC LIMIT CAST($3 AS BIGINT) * 20
    ) AS hits JOIN events ON events.id = hits.id
  ) AS messages
  UNION ALL SELECT id, channel, at FROM (
    SELECT id, channel, opened_at AS at FROM conversations WHERE ($1 = '' OR channel = $1) ORDER BY id DESC LIMIT $3
  ) AS opened`;

const attention = `
  SELECT conversation, channel, received_at AS at FROM events WHERE state IN ('held', 'failed')
  UNION ALL SELECT conversation, channel, updated_at FROM drafts WHERE ${stoppedDrafts} AND state = 'held'
  UNION ALL SELECT conversation, channel, updated_at FROM (
    SELECT conversation, channel, updated_at FROM drafts WHERE ${stoppedDrafts} AND state = 'failed' ORDER BY updated_at DESC LIMIT $3) AS failed
  UNION ALL SELECT conversation, channel, opened_at FROM escalations WHERE state = 'open'
  UNION ALL SELECT conversation, channel, opened_at FROM escalations WHERE state = 'acknowledged'`;

const waiting = `
  SELECT conversation, channel, received_at AS at FROM events WHERE state = 'stored'
  UNION ALL SELECT conversation, channel, received_at FROM turns WHERE open = 1
  UNION ALL SELECT conversation, channel, created_at FROM replies WHERE state = 'ready'
  UNION ALL SELECT conversation, channel, created_at FROM drafts WHERE open = 1`;
