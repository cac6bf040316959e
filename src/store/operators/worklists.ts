// The lists of the console: refused and held messages, held and failed replies, and what waits. Every list is a page, newest
// first, and every statement reads a bounded number of rows, whatever the history.

import type { Query } from "../driver.ts";

/** Most rows that a filter looks through. */
const mostScanned = 20_000;
/** Most rows that a summary counts. */
export const mostCounted = 5000;

export interface ListFilter {
  readonly channel?: string | undefined;
  /** `ListedItem.group`. */
  readonly reason?: string | undefined;
  /** Part of the sender or the subject. */
  readonly text?: string | undefined;
  /** Continues after this row (`ListedItem.position`). */
  readonly after?: string | undefined;
  readonly limit: number;
}

export interface ListedItem {
  readonly id: string;
  readonly channel: string;
  readonly state: string;
  /** What the items of one group share: the code, or the state of an item without one. */
  readonly group: string;
  readonly reason: string | null;
  readonly person: string | null;
  readonly subject: string | null;
  readonly conversation: string | null;
  readonly attempts: number;
  /** When it arrived, or was written, epoch milliseconds. */
  readonly at: number;
  /** When it is due; null for an item that waits for an operator. */
  readonly due: number | null;
  readonly position: string;
}

export interface ListedGroup {
  readonly channel: string;
  readonly group: string;
  /** One of the reasons, in words. */
  readonly reason: string | null;
  readonly count: number;
}

export type MessageState = "ignored" | "held" | "failed";

interface EventItem {
  readonly id: number;
  readonly channel: string;
  readonly state: string;
  readonly code: string | null;
  readonly reason: string | null;
  readonly sender: string | null;
  readonly subject: string | null;
  readonly conversation: string | null;
  readonly attempts: number;
  readonly received_at: number;
  readonly due_at: number;
}

const eventColumns =
  "id, channel, kind, state, code, reason, sender, subject, conversation, attempts, received_at, due_at";

const itemOfEvent = (row: EventItem, isWaiting: boolean): ListedItem => ({
  id: String(row.id),
  channel: row.channel,
  state: row.state,
  group: row.code ?? row.state,
  reason: row.reason,
  person: row.sender,
  subject: row.subject,
  conversation: row.conversation,
  attempts: row.attempts,
  at: row.received_at,
  due: isWaiting ? row.due_at : null,
  position: String(row.id),
});

/** `%text%` for LIKE, in lower case, with `!` as the escape character. Empty for no text. */
const pattern = (text = ""): string =>
  text.trim() === "" ? "" : `%${text.trim().toLowerCase().replace(/[!%_]/g, "!$&")}%`;

/** Lists messages in these states, newest first. */
export async function listMessages(
  q: Query,
  states: readonly MessageState[],
  { channel = "", reason, text, after, limit }: ListFilter,
): Promise<ListedItem[]> {
  const before = after === undefined ? Number.MAX_SAFE_INTEGER : Number(after);
  const lists: ListedItem[][] = [];
  for (const state of states) {
    // The inner query keeps its order: without an ORDER BY outside, both databases stop at the limit.
    const rows = await q.all<EventItem>(
      `SELECT * FROM (SELECT ${eventColumns} FROM events
         WHERE state IN ('ignored', 'held', 'failed') AND state = $1 AND id < $2 ORDER BY id DESC LIMIT ${mostScanned}) AS newest
       WHERE kind = 'message' AND (channel = $3 OR $3 = '') AND (COALESCE(code, state) = $4 OR $5 = 1)
         AND ($6 = '' OR LOWER(sender) LIKE $6 ESCAPE '!' OR LOWER(subject) LIKE $6 ESCAPE '!') LIMIT $7`,
      state,
      before,
      channel,
      reason ?? "",
      reason === undefined ? 1 : 0,
      pattern(text),
      limit,
    );
    lists.push(rows.map((row) => itemOfEvent(row, false)));
  }
  return lists
    .flat()
    .toSorted((a, b) => Number(b.id) - Number(a.id))
    .slice(0, limit);
}

/** Counts the newest messages in these states by channel and code, most frequent first. */
export async function groupMessages(q: Query, states: readonly MessageState[]): Promise<ListedGroup[]> {
  const groups: ListedGroup[] = [];
  for (const state of states)
    groups.push(
      ...(await q.all<ListedGroup>(
        `SELECT channel, COALESCE(code, state) AS "group", MIN(reason) AS reason, COUNT(*) AS count
         FROM (SELECT channel, state, code, reason, kind FROM events
           WHERE state IN ('ignored', 'held', 'failed') AND state = $1 ORDER BY id DESC LIMIT ${mostCounted}) AS newest
         WHERE kind = 'message' GROUP BY channel, COALESCE(code, state)`,
        state,
      )),
    );
  return groups.toSorted((a, b) => b.count - a.count);
}

export type ReplyState = "held" | "failed";

interface DraftItem {
  readonly id: string;
  readonly channel: string;
  readonly state: string;
  readonly code: string | null;
  readonly reason: string | null;
  readonly recipient: string;
  readonly subject: string | null;
  readonly conversation: string;
  readonly attempts: number;
  readonly updated_at: number;
  readonly due_at: number;
}

const draftColumns =
  "drafts.id, drafts.channel, drafts.state, drafts.code, drafts.reason, drafts.recipient, drafts.conversation, drafts.attempts, drafts.updated_at, drafts.due_at, (SELECT subject FROM conversations WHERE conversations.id = drafts.conversation) AS subject";

const itemOfDraft = (row: DraftItem, isWaiting: boolean): ListedItem => ({
  id: row.id,
  channel: row.channel,
  state: row.state,
  group: row.code ?? row.state,
  reason: row.reason,
  person: row.recipient,
  subject: row.subject,
  conversation: row.conversation,
  attempts: row.attempts,
  at: row.updated_at,
  due: isWaiting ? row.due_at : null,
  position: `${row.updated_at}.${row.id}`,
});

/** Lists replies in this state, the last changed first. */
export async function listReplies(
  q: Query,
  state: ReplyState,
  { channel = "", reason, text, after, limit }: ListFilter,
): Promise<ListedItem[]> {
  const [, time = String(Number.MAX_SAFE_INTEGER), id = ""] = /^(\d+)\.(\w+)$/.exec(after ?? "") ?? [];
  const rows = await q.all<DraftItem>(
    `SELECT * FROM (SELECT ${draftColumns} FROM drafts
       WHERE drafts.state = $1 AND drafts.updated_at <= $2 ORDER BY drafts.updated_at DESC, drafts.id DESC LIMIT ${mostScanned}) AS newest
     WHERE (updated_at < $2 OR id < $3) AND (channel = $4 OR $4 = '') AND (COALESCE(code, state) = $5 OR $6 = 1)
       AND ($7 = '' OR LOWER(recipient) LIKE $7 ESCAPE '!' OR LOWER(subject) LIKE $7 ESCAPE '!') LIMIT $8`,
    state,
    Number(time),
    id,
    channel,
    reason ?? "",
    reason === undefined ? 1 : 0,
    pattern(text),
    limit,
  );
  return rows.map((row) => itemOfDraft(row, false));
}

/** Counts the last changed replies in this state by channel and code, most frequent first. */
export async function groupReplies(q: Query, state: ReplyState): Promise<ListedGroup[]> {
  return q.all<ListedGroup>(
    `SELECT channel, COALESCE(code, state) AS "group", MIN(reason) AS reason, COUNT(*) AS count
     FROM (SELECT channel, state, code, reason FROM drafts WHERE state = $1 ORDER BY updated_at DESC LIMIT ${mostCounted}) AS newest
     GROUP BY channel, COALESCE(code, state) ORDER BY count DESC`,
    state,
  );
}

/** Lists the messages, questions and replies that the daemon has yet to process, the oldest due first. Of a large backlog
 *  the first `mostCounted` of each kind are considered. */
export async function listWaiting(
  q: Query,
  kind: "messages" | "questions" | "replies",
  { channel = "", limit }: ListFilter,
): Promise<ListedItem[]> {
  const items = await waitingOf(q, kind, channel);
  return items.toSorted((a, b) => (a.due ?? 0) - (b.due ?? 0)).slice(0, limit);
}

async function waitingOf(
  q: Query,
  kind: "messages" | "questions" | "replies",
  channel: string,
): Promise<ListedItem[]> {
  const within = channel === "" ? "$1 = ''" : "channel = $1";
  if (kind === "messages") {
    const rows = await q.all<EventItem>(
      `SELECT ${eventColumns} FROM events WHERE state = 'stored' AND ${within} LIMIT ${mostCounted}`,
      channel,
    );
    return rows.map((row) => itemOfEvent(row, true));
  }
  if (kind === "questions") {
    const rows = await q.all<Omit<EventItem, "sender" | "code"> & { person: string; conversation: string }>(
      `SELECT id, channel, state, reason, person, conversation, attempts, received_at, due_at,
         (SELECT subject FROM conversations WHERE conversations.id = turns.conversation) AS subject
       FROM turns WHERE open = 1 AND state IN ('waiting', 'asking', 'unknown', 'failed') AND ${within} LIMIT ${mostCounted}`,
      channel,
    );
    return rows.map((row) => itemOfEvent({ ...row, sender: row.person, code: null }, true));
  }
  const rows = await q.all<DraftItem>(
    `SELECT ${draftColumns} FROM drafts
     WHERE open = 1 AND state IN ('queued', 'sending', 'unknown', 'failed') AND ${within.replace("channel", "drafts.channel")} LIMIT ${mostCounted}`,
    channel,
  );
  return rows.map((row) => itemOfDraft(row, true));
}
