// Conversations of one agent with one user over one channel.

import { all, insertInto, type ListPage, one, run, ShelvedList, type Slice, values } from "./lists.ts";
import type { Db } from "./store.ts";

export interface PlatformConversationRow {
  readonly id: string;
  readonly agent_id: string;
  readonly person_id: string;
  /** `api` means opened by POST conversations, without a channel. */
  readonly channel: "email" | "sms" | "voice" | "api";
  readonly mode: "ai" | "manual";
  readonly status: "active" | "inactive" | "archived";
  readonly ai_conversation_id: string;
  readonly title: string | null;
  readonly context: string | null;
  /** Introduction sent to the user when the conversation started. */
  readonly introduction: string | null;
  readonly state_id: string | null;
  readonly metadata: string | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly last_message_at: number;
  /** Time when the dialog ended by inactivity; null while it is active, or before the first message. */
  readonly ended_at: number | null;
  /** Score from 0 to 10 of the dialog that ended last. */
  readonly score: number | null;
  readonly anonymized: 0 | 1;
}

export const prepareConversations = (db: Db) => ({
  ...prepareLookups(db),
  ...prepareChanges(db),
  list: prepareConversationLists(db),
});

const conversation = "SELECT * FROM conversation WHERE";

function prepareLookups(db: Db) {
  const recent = (owner: "person_id" | "agent_id") =>
    all<[string, number, string, number], PlatformConversationRow>(
      db,
      `${conversation} ${owner} = ? AND last_message_at >= ? AND id <> ? AND anonymized = 0
       ORDER BY last_message_at DESC LIMIT ?`,
    );
  const [recentOfPerson, recentOfAgent] = [recent("person_id"), recent("agent_id")];
  return {
    byId: one<[agentId: string, id: string], PlatformConversationRow>(db, `${conversation} agent_id = ? AND id = ?`),
    /** Returns the ids of a user's conversations, oldest first. */
    ofPerson: values<[personId: string], string>(
      db,
      "SELECT id FROM conversation WHERE person_id = ? ORDER BY created_at, rowid",
    ),
    /** Returns the newest open conversation over this channel. */
    current: one<[personId: string, channel: PlatformConversationRow["channel"]], PlatformConversationRow>(
      db,
      `${conversation} person_id = ? AND channel = ? AND status = 'active' ORDER BY rowid DESC LIMIT 1`,
    ),
    /** Returns conversations whose dialog can end: they have messages, none since `before`, and no open question. */
    idle: all<[before: number, limit: number], PlatformConversationRow>(
      db,
      `SELECT * FROM conversation c WHERE last_message_at < ? AND ended_at IS NULL
         AND EXISTS (SELECT 1 FROM message WHERE conversation_id = c.id)
         AND NOT EXISTS (SELECT 1 FROM message WHERE conversation_id = c.id AND open = 1)
       ORDER BY last_message_at LIMIT ?`,
    ),
    /** Returns other conversations of the same agent (and user, if given) with messages since then, newest first. */
    recent: (
      { id, agent_id }: PlatformConversationRow,
      personId: string | null,
      since: number,
      limit: number,
    ): PlatformConversationRow[] =>
      personId === null ? recentOfAgent(agent_id, since, id, limit) : recentOfPerson(personId, since, id, limit),
    /** Returns an agent's conversations without a message since `before` that are not anonymized yet. */
    expired: all<[agentId: string, before: number, limit: number], PlatformConversationRow>(
      db,
      `${conversation} agent_id = ? AND last_message_at < ? AND anonymized = 0 ORDER BY last_message_at LIMIT ?`,
    ),
    /** Returns active conversations without a message since `before`. */
    stale: all<[before: number, limit: number], PlatformConversationRow>(
      db,
      `${conversation} last_message_at < ? AND status = 'active' ORDER BY last_message_at LIMIT ?`,
    ),
  };
}

const stored = (
  "id, agent_id, person_id, channel, mode, status, ai_conversation_id, title, context, " +
  "introduction, state_id, metadata, created_at, updated_at, last_message_at"
).split(", ");

type ConversationChanges = {
  readonly [K in "title" | "context" | "status" | "state_id"]: PlatformConversationRow[K] | null;
};

function prepareChanges(db: Db) {
  const change = run<[ConversationChanges & { readonly id: string; readonly now: number }]>(
    db,
    `UPDATE conversation SET title = coalesce(@title, title), context = coalesce(@context, context),
       status = coalesce(@status, status), state_id = coalesce(@state_id, state_id), updated_at = max(updated_at, @now)
     WHERE id = @id`,
  );
  const end = run<[number, number | null, string]>(
    db,
    "UPDATE conversation SET ended_at = ?, score = coalesce(?, score) WHERE id = ?",
  );
  const archive = run<[number, string, string]>(
    db,
    `UPDATE conversation SET status = 'archived', updated_at = max(updated_at, ?)
     WHERE person_id = ? AND channel = ? AND status = 'active'`,
  );
  const setMode = run<[string, number, string]>(
    db,
    "UPDATE conversation SET mode = ?, updated_at = max(updated_at, ?) WHERE id = ?",
  );
  const touch = run<[{ readonly id: string; readonly at: number }]>(
    db,
    `UPDATE conversation SET last_message_at = @at, updated_at = max(updated_at, @at), ended_at = NULL, anonymized = 0
     WHERE id = @id`,
  );
  return {
    insert: run<[PlatformConversationRow]>(db, insertInto("conversation", stored)),
    archive: (personId: string, channel: PlatformConversationRow["channel"], now: number) =>
      archive(now, personId, channel),
    setMode: (id: string, mode: PlatformConversationRow["mode"], now: number) => setMode(mode, now, id),
    /** Updates the fields that are not null. */
    change: (id: string, to: ConversationChanges, now: number) => change({ id, now, ...to }),
    end: (id: string, at: number, score: number | null) => end(at, score, id),
    /** Records the time of a message. Stored times never decrease. */
    touch: (id: string, at: number) => touch({ at, id }),
    /** Deletes all conversations of a user. Their messages must be deleted first. */
    removeOf: run<[personId: string]>(db, "DELETE FROM conversation WHERE person_id = ?"),
    /** Erases all message texts and personal data. */
    anonymize: run<[id: string]>(
      db,
      `UPDATE conversation SET anonymized = 1, title = NULL, context = NULL, introduction = NULL, metadata = NULL
       WHERE id = ?`,
    ),
  };
}

// Lists of an agent's conversations. Unfiltered lists and time ranges use the shelf index. Other filters
// (user, keyword) select few rows, which are sorted, so their cost grows with the number of matches.

export interface ConversationFilter {
  readonly orderBy: "createdAt" | "updatedAt";
  readonly orderDirection: "ASC" | "DESC";
  readonly personId: string | null;
  /** Case-insensitive search in the title and in the user's name, email address and phone number. */
  readonly keyword: string | null;
  /** Inclusive bounds on the time of the last change, in epoch milliseconds. */
  readonly from: number | null;
  readonly until: number | null;
}

interface ConversationQuery extends Pick<ConversationFilter, "personId" | "from" | "until"> {
  readonly agentId: string;
  /** Query for the full-text index. */
  readonly words: string | null;
  /** One or two letters. The trigram index supports them only as prefixes of its terms. */
  readonly letters: string | null;
}

/** Joins the full-text matches with their conversations. */
const matching = (hits: string) => `
  WITH hit (place) AS MATERIALIZED (${hits})
  SELECT c.n FROM hit CROSS JOIN person p ON p.n = place CROSS JOIN conversation c ON c.person_id = p.id
  UNION SELECT -place FROM hit WHERE place < 0`;

const sources = {
  words: matching("SELECT rowid FROM wording WHERE wording MATCH @words"),
  letters: matching(
    "SELECT doc FROM wording_part WHERE term >= @letters AND term < @letters || char(1114111) GROUP BY doc",
  ),
  person: "SELECT n FROM conversation WHERE person_id = @personId",
  period: `SELECT n FROM conversation WHERE agent_id = @agentId
    AND updated_at BETWEEN coalesce(@from, 0) AND coalesce(@until, ${Number.MAX_SAFE_INTEGER})`,
};

function prepareConversationLists(db: Db) {
  const table = "conversation";
  const byTime = {
    createdAt: new ShelvedList<PlatformConversationRow>(db, {
      list: "conversations",
      table,
      time: "created_at",
    }),
    updatedAt: new ShelvedList<PlatformConversationRow>(db, { list: "changes", table, time: "updated_at" }),
  };
  const narrow = {
    words: prepareNarrow(db, sources.words),
    letters: prepareNarrow(db, sources.letters),
    person: prepareNarrow(db, sources.person),
    period: prepareNarrow(db, sources.period),
  };
  return (
    agentId: string,
    { orderBy, orderDirection: direction, personId, from, until, ...filter }: ConversationFilter,
    limit: number,
    offset: number,
  ): ListPage<PlatformConversationRow> => {
    // FTS5 treats NUL as the end of the query.
    const keyword = filter.keyword?.replaceAll("\0", "") || null;
    const slice: Slice = { direction, limit, offset, from, until };
    const open = from === null && until === null;
    if (personId === null && keyword === null && (open || orderBy === "updatedAt"))
      return byTime[orderBy].page(agentId, slice);
    const short = keyword !== null && Array.from(keyword).length < 3;
    const wanted: ConversationQuery = {
      agentId,
      personId,
      from,
      until,
      // As one phrase, so operators in it have no effect.
      words: keyword === null ? null : `"${keyword.replaceAll('"', '""')}"`,
      letters: short ? keyword.toLowerCase() : null,
    };
    const source = short ? "letters" : keyword !== null ? "words" : personId !== null ? "person" : "period";
    return narrow[source](wanted, `${orderBy} ${direction}`, limit, offset);
  };
}

type Order = `${ConversationFilter["orderBy"]} ${ConversationFilter["orderDirection"]}`;

function prepareNarrow(db: Db, source: string) {
  const matching = `
    FROM (${source}) found CROSS JOIN conversation c ON c.n = found.n
    WHERE c.agent_id = @agentId AND (@personId IS NULL OR c.person_id = @personId)
      AND (@from IS NULL OR c.updated_at >= @from) AND (@until IS NULL OR c.updated_at <= @until)`;
  const count = db.prepare<[ConversationQuery], number>(`SELECT count(*) ${matching}`).pluck();
  const list = (order: string) =>
    db.prepare<[ConversationQuery & { limit: number; offset: number }], PlatformConversationRow>(
      `SELECT c.* ${matching} ORDER BY ${order} LIMIT @limit OFFSET @offset`,
    );
  const lists: { [order in Order]: ReturnType<typeof list> } = {
    "createdAt ASC": list("c.created_at, c.n"),
    "createdAt DESC": list("c.created_at DESC, c.n DESC"),
    "updatedAt ASC": list("c.updated_at, c.n"),
    "updatedAt DESC": list("c.updated_at DESC, c.n DESC"),
  };
  return (
    wanted: ConversationQuery,
    order: Order,
    limit: number,
    offset: number,
  ): ListPage<PlatformConversationRow> => ({
    rows: lists[order].all({ ...wanted, limit, offset }),
    total: count.get(wanted) ?? 0,
  });
}
