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

export const waitingKinds = ["messages", "questions", "replies"] as const;
export type WaitingKind = (typeof waitingKinds)[number];

/** How each kind is read: by channel and state, in the order of an index. */
const waiting: Readonly<
  Record<
    WaitingKind,
    { from: string; columns: string; states: readonly string[]; sort: "due_at" | "received_at" }
  >
> = {
  messages: { from: "events WHERE", columns: eventColumns, states: ["stored"], sort: "due_at" },
  questions: {
    from: "turns WHERE open = 1 AND",
    columns: `id, channel, state, NULL AS code, reason, conversation, attempts, received_at, due_at, person AS sender,
       (SELECT subject FROM conversations WHERE conversations.id = turns.conversation) AS subject`,
    states: ["waiting", "asking", "unknown", "failed"],
    sort: "received_at",
  },
  replies: {
    from: "drafts WHERE open = 1 AND",
    columns: draftColumns,
    states: ["queued", "sending", "unknown", "failed"],
    sort: "due_at",
  },
};

/** Lists what the daemon has yet to process: messages and replies by their due time, questions by their arrival. */
export async function listWaiting(
  q: Query,
  kind: WaitingKind,
  { channel, after, limit }: Pick<ListFilter, "channel" | "after" | "limit">,
): Promise<ListedItem[]> {
  const { from, columns, states, sort } = waiting[kind];
  const [, time = "0", id = "0"] = /^(\d+)\.(\w+)$/.exec(after ?? "") ?? [];
  const channels =
    channel === undefined ? await q.all<{ id: string }>("SELECT id FROM channels") : [{ id: channel }];
  const found: (ListedItem & { readonly sort: number })[] = [];
  for (const one of channels)
    for (const state of states) {
      const rows = await q.all<EventItem | DraftItem>(
        `SELECT ${columns} FROM ${from} channel = $1 AND state = '${state}' AND ${sort} >= $2 AND (${sort} > $2 OR id > $3)
         ORDER BY ${sort}, id LIMIT $4`,
        one.id,
        Number(time),
        kind === "messages" ? Number(id) || 0 : id,
        limit,
      );
      for (const row of rows) {
        const item = "recipient" in row ? itemOfDraft(row, true) : itemOfEvent(row, true);
        const at = sort === "due_at" ? row.due_at : item.at;
        found.push({ ...item, sort: at, position: `${at}.${item.id}` });
      }
    }
  const isBefore = (a: string, b: string) => (kind === "messages" ? Number(a) < Number(b) : a < b);
  return found.toSorted((a, b) => a.sort - b.sort || (isBefore(a.id, b.id) ? -1 : 1)).slice(0, limit);
}

/** Counts what waits, up to `mostCounted`. */
export async function countWaiting(q: Query, kind: WaitingKind, channel = ""): Promise<number> {
  const { from, states } = waiting[kind];
  const row = await q.one<{ count: number }>(
    `SELECT COUNT(*) AS count FROM (SELECT 1 FROM ${from} (${states.map((one) => `state = '${one}'`).join(" OR ")})
       AND (channel = $1 OR $1 = '') LIMIT ${mostCounted}) AS counted`,
    channel,
  );
  return row?.count ?? 0;
}
