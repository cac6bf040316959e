// Lists of an agent's conversations. Unfiltered lists and time ranges use the shelf index. Other filters
// (user, keyword) select few rows, which are sorted, so their cost grows with the number of matches.

import type { ConversationRow } from "./conversations.ts";
import type { Db } from "./database.ts";
import { type Listed, prepareShelves, type Slice } from "./shelves.ts";

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

export type ConversationLists = (
  agentId: string,
  filter: ConversationFilter,
  limit: number,
  offset: number,
) => Listed<ConversationRow>;

interface Wanted {
  readonly agentId: string;
  readonly personId: string | null;
  readonly from: number | null;
  readonly until: number | null;
  /** Query for the full-text index. */
  readonly words: string | null;
  /** One or two letters. The trigram index supports them only as prefixes of its terms. */
  readonly letters: string | null;
}

/** Joins the full-text matches with their conversations. */
const worded = (hits: string) => `
  WITH hit (place) AS MATERIALIZED (${hits})
  SELECT c.n FROM hit CROSS JOIN person p ON p.n = place CROSS JOIN conversation c ON c.person_id = p.id
  UNION SELECT -place FROM hit WHERE place < 0`;

const sources = {
  words: worded("SELECT rowid FROM wording WHERE wording MATCH @words"),
  letters: worded(
    "SELECT doc FROM wording_part WHERE term >= @letters AND term < @letters || char(1114111) GROUP BY doc",
  ),
  person: "SELECT n FROM conversation WHERE person_id = @personId",
  period: `SELECT n FROM conversation WHERE agent_id = @agentId
    AND updated_at BETWEEN coalesce(@from, 0) AND coalesce(@until, ${Number.MAX_SAFE_INTEGER})`,
};

export function prepareConversationLists(db: Db): ConversationLists {
  const table = "conversation";
  const byTime = {
    createdAt: prepareShelves<ConversationRow>(db, { list: "conversations", table, time: "created_at" }),
    updatedAt: prepareShelves<ConversationRow>(db, { list: "changes", table, time: "updated_at" }),
  };
  const narrow = {
    words: prepareNarrow(db, sources.words),
    letters: prepareNarrow(db, sources.letters),
    person: prepareNarrow(db, sources.person),
    period: prepareNarrow(db, sources.period),
  };
  return (
    agentId,
    { orderBy, orderDirection: direction, personId, from, until, ...filter },
    limit,
    offset,
  ) => {
    // FTS5 treats NUL as the end of the query.
    const keyword = filter.keyword?.replaceAll("\0", "") || null;
    const slice: Slice = { direction, limit, offset, from, until };
    const open = from === null && until === null;
    if (personId === null && keyword === null && (open || orderBy === "updatedAt"))
      return byTime[orderBy](agentId, slice);
    const short = keyword !== null && Array.from(keyword).length < 3;
    const wanted: Wanted = {
      agentId,
      personId,
      from,
      until,
      words: keyword === null ? null : quoted(keyword),
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
  const count = db.prepare<[Wanted], number>(`SELECT count(*) ${matching}`).pluck();
  const list = (order: string) =>
    db.prepare<[Wanted & { limit: number; offset: number }], ConversationRow>(
      `SELECT c.* ${matching} ORDER BY ${order} LIMIT @limit OFFSET @offset`,
    );
  const lists: { [order in Order]: ReturnType<typeof list> } = {
    "createdAt ASC": list("c.created_at, c.n"),
    "createdAt DESC": list("c.created_at DESC, c.n DESC"),
    "updatedAt ASC": list("c.updated_at, c.n"),
    "updatedAt DESC": list("c.updated_at DESC, c.n DESC"),
  };
  return (wanted: Wanted, order: Order, limit: number, offset: number): Listed<ConversationRow> => ({
    rows: lists[order].all({ ...wanted, limit, offset }),
    total: count.get(wanted) ?? 0,
  });
}

/** Quotes the keyword as one phrase, so operators in it have no effect. */
function quoted(keyword: string): string {
  return `"${keyword.replaceAll('"', '""')}"`;
}
