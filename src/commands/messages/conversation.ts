// bridgehead find and bridgehead conversation: search for a message by what the operator knows of it, and print its
// complete history. Both read only.

import { systemClock as clock } from "../../ops/clock.ts";
import type { Database, Query } from "../../store/driver.ts";
import {
  type ConversationSummary,
  type Found,
  find as findIn,
  listConversations,
  summariesOf,
} from "../../store/operators/find.ts";
import { conversationHistory, eventHistory, type History } from "../../store/operators/history.ts";
import { type EventSummary, readEvents } from "../../store/operators/inbox.ts";
import { exitCodes, fail, type Io } from "../io.ts";
import { withStore } from "../store/open.ts";
import { details, jsonText, type ListColumn, printList, stamp, timeColumns } from "../text.ts";
import { timelineText } from "./timeline.ts";

interface SearchOptions {
  readonly config: string;
  readonly limit: number;
  /** Epoch milliseconds. */
  readonly since?: number;
  readonly json?: boolean;
}

export interface FindOptions extends SearchOptions {
  readonly query: readonly string[];
}

export interface ConversationOptions extends SearchOptions {
  readonly action: "list" | "show";
  readonly query: readonly string[];
  readonly state?: "attention" | "waiting";
  readonly channel?: string;
  readonly full?: boolean;
}

/** A match with its conversation, or with its message when it belongs to none. */
interface FoundMatch extends Found {
  readonly summary: ConversationSummary | null;
  readonly message: EventSummary | null;
}

async function matchesOf(q: Query, query: string, options: SearchOptions): Promise<FoundMatch[]> {
  const found = await findIn(q, query, options);
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

/** The columns of both commands: a conversation, or a message without one. */
function columns<Row>(of: (row: Row) => Partial<FoundMatch> & { readonly at: number }) {
  const cell =
    (
      ofSummary: (summary: ConversationSummary, message: EventSummary | null) => string | null,
      ofMessage: (message: EventSummary) => string | null,
    ) =>
    (row: Row): string | null => {
      const { summary = null, message = null } = of(row);
      return summary === null ? message && ofMessage(message) : ofSummary(summary, message);
    };
  const list: readonly ListColumn<Row>[] = [
    ...timeColumns<Row>("TIME", (row) => of(row).at),
    {
      head: "STATE",
      state: true,
      cell: cell(
        ({ state }) => state,
        ({ state }) => state,
      ),
    },
    {
      head: "CHANNEL",
      cell: cell(
        ({ channel }) => channel,
        ({ channel }) => channel,
      ),
    },
    {
      head: "PERSON",
      flexible: true,
      cell: cell(
        ({ person, person_name: name }) => (name === null ? person : `${person} (${name})`),
        ({ sender }) => sender,
      ),
    },
    {
      head: "SUBJECT",
      flexible: true,
      cell: cell(
        (summary, message) => message?.subject ?? summary.subject,
        ({ subject }) => subject,
      ),
    },
    {
      head: "REASON",
      flexible: true,
      cell: cell(
        ({ escalation, reason }) =>
          [escalation === null ? null : `escalation ${escalation}`, reason]
            .filter((part) => part !== null)
            .join("; "),
        ({ code, reason }) => [code, reason].filter(Boolean).join(": "),
      ),
    },
    {
      head: "SHOW",
      cell: cell(
        ({ id }) => `conversation show ${id}`,
        ({ id }) => `inbox show ${id}`,
      ),
    },
  ];
  return list;
}

export function findMessages(options: FindOptions, io: Io): Promise<number> {
  const query = options.query.join(" ");
  return withStore(options, io, async (db) => {
    const matches = await db.read((q) => matchesOf(q, query, options));
    if (matches.length === 0 && !options.json) fail(`find: nothing matches ${JSON.stringify(query)}`);
    printList(
      matches,
      columns((match) => match),
      options,
      io,
    );
    if (matches.length === options.limit && !options.json)
      io.out(`the newest ${options.limit}; --limit shows more`);
    return matches.length === 0 ? exitCodes.failed : exitCodes.ok;
  });
}

export async function conversation(options: ConversationOptions, io: Io): Promise<number> {
  const query = options.query.join(" ");
  if (options.action === "show" && query === "")
    fail(
      "conversation show needs an id: of a conversation, message, draft or question (see find)",
      exitCodes.usage,
    );
  return withStore(options, io, async (db) => {
    if (options.action === "show") return show(db, query, options, io);
    const found = await db.read((q) => listConversations(q, options));
    printList(
      found,
      columns((summary) => ({ summary, at: summary.at })),
      options,
      io,
    );
    return exitCodes.ok;
  });
}

async function show(db: Database, query: string, options: ConversationOptions, io: Io): Promise<number> {
  const { history, summary, others } = await db.read(async (q) => {
    const direct = await conversationHistory(q, query, options.limit);
    const numbered = /^\d{1,15}$/.test(query)
      ? (await readEvents(q, [Number(query)])).get(Number(query))
      : undefined;
    const found = direct || numbered ? [] : await findIn(q, query, { limit: 2 });
    const first = numbered ? { conversation: numbered.conversation, event: numbered.id } : found[0];
    const id = direct?.conversation?.id ?? first?.conversation ?? null;
    const history =
      direct ??
      (id !== null
        ? await conversationHistory(q, id, options.limit)
        : first?.event
          ? await eventHistory(q, first.event)
          : null);
    const summary = id === null ? null : ((await summariesOf(q, [id])).get(id) ?? null);
    return { history, summary, others: found.length > 1 };
  });
  if (history === null) fail(`there is no conversation ${query} (see find)`);
  if (others) io.err(`several conversations match; this is the newest (see bridgehead find ${query})`);
  if (options.json) io.out(jsonText({ summary, ...history }));
  else {
    io.out(heading(history, summary, io));
    io.out(timelineText(history, io, options.full === true));
  }
  return exitCodes.ok;
}

function heading({ conversation }: History, summary: ConversationSummary | null, io: Io): string {
  if (conversation === null) return "a message without a conversation";
  const { id, channel, agent, person, person_name, via, subject, platform_id, opened_at, mode, suppressed } =
    conversation;
  const name = person_name === null ? "" : ` (${person_name})`;
  return details(
    [
      ["conversation", id],
      ["channel", `${channel}, agent ${agent}${via === null ? "" : `, at ${via}`}`],
      ["person", person === "" ? "erased (retention)" : `${person}${name}`],
      ["subject", subject],
      ["platform", platform_id],
      ["opened", stamp(opened_at, clock.now())],
      ["state", summary && [summary.state, summary.reason].filter((part) => part !== null).join(": ")],
      ["answered by", mode === "manual" ? "humans (manual mode)" : null],
      ["suppressed", suppressed],
      [
        "escalation",
        summary?.escalation
          ? `${summary.escalation} (bridgehead escalation show ${summary.escalation})`
          : null,
      ],
    ],
    io,
  );
}
