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
import type { Io } from "../io.ts";
import { exitCodes } from "../io.ts";
import { withStore } from "../store/open.ts";
import { details, jsonText, type ListColumn, listing, relative, stamp, when } from "../text.ts";
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

const narrowed = ({ since, limit }: SearchOptions) => ({ limit, ...(since === undefined ? {} : { since }) });

async function matchesOf(q: Query, query: string, options: SearchOptions): Promise<FoundMatch[]> {
  const found = await findIn(q, query, narrowed(options));
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

const columns: readonly ListColumn[] = [
  { head: "TIME (UTC)" },
  { head: "AGO", right: true },
  { head: "STATE", state: true },
  { head: "CHANNEL" },
  { head: "PERSON", flexible: true },
  { head: "SUBJECT", flexible: true },
  { head: "REASON", flexible: true },
  { head: "SHOW" },
];

function matchRow({ summary, message, at }: FoundMatch, now: number): string[] {
  if (summary !== null) return summaryRow(summary, now, at, message?.subject ?? null);
  const reason = [message?.code, message?.reason].filter(Boolean).join(": ");
  return [
    when(at),
    relative(at, now).replace(" ago", ""),
    message?.state ?? "",
    message?.channel ?? "",
    message?.sender ?? "",
    message?.subject ?? "",
    reason,
    `inbox show ${message?.id ?? ""}`,
  ];
}

function summaryRow(
  summary: ConversationSummary,
  now: number,
  at = summary.at,
  subject: string | null = null,
): string[] {
  const { person, person_name, escalation, reason } = summary;
  const escalated = escalation === null ? null : `escalation ${escalation}`;
  return [
    when(at),
    relative(at, now).replace(" ago", ""),
    summary.state,
    summary.channel,
    person_name === null ? person : `${person} (${person_name})`,
    subject ?? summary.subject ?? "",
    [escalated, reason].filter((part) => part !== null).join("; "),
    `conversation show ${summary.id}`,
  ];
}

/** bridgehead find. */
export const find = {
  run(options: FindOptions, io: Io): Promise<number> {
    const query = options.query.join(" ");
    return withStore(options, io, async (db) => {
      const matches = await db.read((q) => matchesOf(q, query, options));
      if (options.json) io.out(jsonText(matches));
      else if (matches.length === 0) io.err(`find: nothing matches ${JSON.stringify(query)}`);
      else {
        const now = clock.now();
        io.out(
          listing(
            columns,
            matches.map((match) => matchRow(match, now)),
            io,
          ),
        );
        if (matches.length === options.limit) io.out(`the newest ${options.limit}; --limit shows more`);
      }
      return matches.length === 0 ? exitCodes.failed : exitCodes.ok;
    });
  },
};

/** bridgehead conversation. */
export function run(options: ConversationOptions, io: Io): Promise<number> {
  const query = options.query.join(" ");
  if (options.action === "list") return withStore(options, io, (db) => list(db, options, io));
  if (query === "") {
    io.err("conversation show needs an id: of a conversation, message, draft or question (see find)");
    return Promise.resolve(exitCodes.usage);
  }
  return withStore(options, io, (db) => show(db, query, options, io));
}

async function list(db: Database, options: ConversationOptions, io: Io): Promise<number> {
  const { state, channel } = options;
  const filter = {
    ...narrowed(options),
    ...(state === undefined ? {} : { state }),
    ...(channel === undefined ? {} : { channel }),
  };
  const found = await db.read((q) => listConversations(q, filter));
  if (options.json) io.out(jsonText(found));
  else if (found.length === 0) io.out("nothing");
  else {
    const now = clock.now();
    io.out(
      listing(
        columns,
        found.map((one) => summaryRow(one, now)),
        io,
      ),
    );
  }
  return exitCodes.ok;
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
  if (history === null) {
    io.err(`there is no conversation ${query} (see find)`);
    return exitCodes.failed;
  }
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
