// The lists of the console: refused and held messages, held and failed replies, and what waits. Every list is a page, newest
// first, and every statement reads a bounded number of rows, however long the history is.

import type { Query } from "../driver.ts";
import { stoppedDrafts } from "../tables/drafts.ts";

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

/** The columns of an item, without its position. `person` and `at`: where a table has them. */
const itemColumns = (person: string, at: string): string =>
  `CAST(id AS TEXT) AS id, channel, state, COALESCE(code, state) AS "group", reason, ${person} AS person, subject, conversation, attempts, ${at} AS at, due_at AS due`;
const eventItem = itemColumns("sender", "received_at");
const draftItem = itemColumns("recipient", "updated_at");
type ItemRow = Omit<ListedItem, "position">;

const eventColumns =
  "id, channel, kind, state, code, reason, sender, subject, conversation, attempts, received_at, due_at";
const subjectOf = (table: string): string =>
  `(SELECT subject FROM conversations WHERE conversations.id = ${table}.conversation) AS subject`;
const draftColumns = `id, channel, state, code, reason, recipient, conversation, attempts, updated_at, due_at, ${subjectOf("drafts")}`;

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
    const rows = await q.all<ItemRow>(
      `SELECT ${eventItem} FROM (SELECT ${eventColumns} FROM events
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
    lists.push(rows.map((row) => ({ ...row, due: null, position: row.id })));
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

/** Lists replies in this state, the last changed first. */
export async function listReplies(
  q: Query,
  state: ReplyState,
  { channel = "", reason, text, after, limit }: ListFilter,
): Promise<ListedItem[]> {
  const [, time = String(Number.MAX_SAFE_INTEGER), id = ""] = /^(\d+)\.(\w+)$/.exec(after ?? "") ?? [];
  const rows = await q.all<ItemRow>(
    `SELECT ${draftItem} FROM (SELECT ${draftColumns} FROM drafts
       WHERE ${stoppedDrafts} AND state = $1 AND updated_at <= $2 ORDER BY updated_at DESC, id DESC LIMIT ${mostScanned}) AS newest
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
  return rows.map((row) => ({ ...row, due: null, position: `${row.at}.${row.id}` }));
}

/** Counts the last changed replies in this state by channel and code, most frequent first. */
export async function groupReplies(q: Query, state: ReplyState): Promise<ListedGroup[]> {
  return q.all<ListedGroup>(
    `SELECT channel, COALESCE(code, state) AS "group", MIN(reason) AS reason, COUNT(*) AS count
     FROM (SELECT channel, state, code, reason FROM drafts WHERE ${stoppedDrafts} AND state = $1 ORDER BY updated_at DESC LIMIT ${mostCounted}) AS newest
     GROUP BY channel, COALESCE(code, state) ORDER BY count DESC`,
    state,
  );
}

export const waitingKinds = ["messages", "questions", "replies"] as const;
export type WaitingKind = (typeof waitingKinds)[number];

/** Rows in one state that an index has in the order of `time`. */
interface Waiting {
  readonly rows: string;
  readonly time: "due_at" | "received_at" | "id";
}
const inStates = (time: Waiting["time"], ...states: readonly string[]): readonly Waiting[] =>
  states.map((state) => ({ rows: `state = '${state}'`, time }));

/** How each kind is read: by channel and state, in the order of an index. A message that was never postponed is due at
 *  its arrival. */
const waiting: Readonly<
  Record<WaitingKind, { from: string; columns: string; item: string; states: readonly Waiting[]; sort: "due" | "at" }>
> = {
  messages: {
    from: "events WHERE",
    columns: eventColumns,
    item: eventItem,
    states: [
      { rows: "state = 'stored' AND postponed = 0", time: "id" },
      { rows: "state = 'stored' AND postponed = 1", time: "due_at" },
    ],
    sort: "due",
  },
  questions: {
    from: "turns WHERE open = 1 AND",
    columns: `id, channel, state, NULL AS code, reason, conversation, attempts, received_at, due_at, person AS sender, ${subjectOf("turns")}`,
    item: eventItem,
    states: inStates("received_at", "waiting", "asking", "unknown", "failed"),
    sort: "at",
  },
  replies: {
    from: "drafts WHERE open = 1 AND",
    columns: draftColumns,
    item: draftItem,
    states: inStates("due_at", "queued", "sending", "unknown", "failed"),
    sort: "due",
  },
};

/** Lists what the daemon has yet to process: messages and replies by their due time, questions by their arrival. */
export async function listWaiting(
  q: Query,
  kind: WaitingKind,
  { channel, after, limit }: Pick<ListFilter, "channel" | "after" | "limit">,
): Promise<ListedItem[]> {
  const { from, columns, item, states, sort } = waiting[kind];
  const column = sort === "due" ? "due_at" : "received_at";
  const [, time = "0", id = "0"] = /^(\d+)\.(\w+)$/.exec(after ?? "") ?? [];
  const channels = channel === undefined ? await q.all<{ id: string }>("SELECT id FROM channels") : [{ id: channel }];
  const found: ItemRow[] = [];
  for (const one of channels)
    for (const { rows, time: order } of states)
      found.push(
        ...(await q.all<ItemRow>(
          `SELECT ${item} FROM (SELECT ${columns} FROM ${from} channel = $1 AND ${rows}
             AND ${column} >= $2 AND (${column} > $2 OR id > $3) ORDER BY ${order === "id" ? "id" : `${order}, id`} LIMIT $4) AS rows`,
          one.id,
          Number(time),
          kind === "messages" ? Number(id) || 0 : id,
          limit,
        )),
      );
  const at = (row: ItemRow): number => row[sort] ?? 0;
  const isBefore = (a: string, b: string) => (kind === "messages" ? Number(a) < Number(b) : a < b);
  return found
    .toSorted((a, b) => at(a) - at(b) || (isBefore(a.id, b.id) ? -1 : 1))
    .slice(0, limit)
    .map((row) => ({ ...row, position: `${at(row)}.${row.id}` }));
}

/** Counts what waits, up to `mostCounted`. */
export async function countWaiting(q: Query, kind: WaitingKind): Promise<number> {
  const { from, states } = waiting[kind];
  const row = await q.one<{ count: number }>(
    `SELECT COUNT(*) AS count FROM (SELECT 1 FROM ${from} (${states.map(({ rows }) => rows).join(" OR ")})
       LIMIT ${mostCounted}) AS counted`,
  );
  return row?.count ?? 0;
}
