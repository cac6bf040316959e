// bridgehead find and bridgehead conversation: search for a message by what the operator knows of it, and print its
// complete history as a timeline. Both read only.

import { durationText } from "../../domain/duration-text.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import type { Database } from "../../store/driver.ts";
import {
  type ConversationSummary,
  type FoundMatch,
  find as findIn,
  findMatches,
  listConversations,
  summariesOf,
} from "../../store/operators/find.ts";
import { conversationHistory, eventHistory, type History } from "../../store/operators/history.ts";
import { readEvents } from "../../store/operators/inbox.ts";
import { type TimelineEntry, timelineOf } from "../../store/operators/timeline.ts";
import { exitCodes, fail, type Io } from "../io.ts";
import { withStore } from "../store/open.ts";
import {
  clean,
  cleanLines,
  colored,
  details,
  jsonText,
  type ListColumn,
  printList,
  stamp,
  stateText,
  textWidth,
  timeColumns,
  when,
  wrapped,
} from "../text.ts";
import type { MessageOptions } from "./repair.ts";

type ConversationOptions = MessageOptions<"list" | "show", "attention" | "waiting">;

/** A row of both commands. */
interface ListedConversation {
  readonly at: number;
  readonly state: string;
  readonly channel: string;
  readonly person: string | null;
  readonly subject: string | null;
  readonly reason: string;
  /** The command that shows more. */
  readonly show: string;
}

const columns: readonly ListColumn<ListedConversation>[] = [
  ...timeColumns<ListedConversation>("TIME", ({ at }) => at),
  { head: "STATE", state: true, cell: ({ state }) => state },
  { head: "CHANNEL", cell: ({ channel }) => channel },
  { head: "PERSON", flexible: true, cell: ({ person }) => person },
  { head: "SUBJECT", flexible: true, cell: ({ subject }) => subject },
  { head: "REASON", flexible: true, cell: ({ reason }) => reason },
  { head: "SHOW", cell: ({ show }) => show },
];

function matchRow({ summary, message, at }: FoundMatch): ListedConversation {
  if (summary !== null) {
    const row = summaryRow(summary);
    return { ...row, at, subject: message?.subject ?? row.subject };
  }
  const { id = "", state = "", channel = "", sender = null, subject = null, code, reason } = message ?? {};
  const why = [code, reason].filter(Boolean).join(": ");
  return { at, state, channel, person: sender, subject, reason: why, show: `inbox show ${id}` };
}

function summaryRow(summary: ConversationSummary): ListedConversation {
  const { id, at, state, channel, person, person_name: name, subject, escalation, reason } = summary;
  const escalated = escalation === null ? null : `escalation ${escalation}`;
  return {
    at,
    state,
    channel,
    person: name === null ? person : `${person} (${name})`,
    subject,
    reason: [escalated, reason].filter((part) => part !== null).join("; "),
    show: `conversation show ${id}`,
  };
}

export function findMessages(options: MessageOptions, io: Io): Promise<number> {
  const query = (options.query ?? []).join(" ");
  return withStore(options, io, async (db) => {
    const matches = await db.read((q) => findMatches(q, query, options));
    if (options.json) io.out(jsonText(matches));
    else {
      if (matches.length === 0) fail(`find: nothing matches ${JSON.stringify(query)}`);
      printList(matches.map(matchRow), columns, {}, io);
      if (matches.length === options.limit) io.out(`the newest ${options.limit}; --limit shows more`);
    }
    return matches.length === 0 ? exitCodes.failed : exitCodes.ok;
  });
}

export async function conversation(options: ConversationOptions, io: Io): Promise<number> {
  const query = (options.query ?? []).join(" ");
  if (options.action === "show" && query === "")
    fail("conversation show needs an id: of a conversation, message, draft or question (see find)", exitCodes.usage);
  return withStore(options, io, async (db) => {
    if (options.action === "show") return show(db, query, options, io);
    const found = await db.read((q) => listConversations(q, options));
    if (options.json) io.out(jsonText(found));
    else printList(found.map(summaryRow), columns, {}, io);
    return exitCodes.ok;
  });
}

async function show(db: Database, query: string, options: ConversationOptions, io: Io): Promise<number> {
  const { history, summary, others } = await db.read(async (q) => {
    const direct = await conversationHistory(q, query, options.limit);
    const numbered = /^\d{1,15}$/.test(query) ? (await readEvents(q, [Number(query)])).get(Number(query)) : undefined;
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
  if (others) io.err(`several conversations match; this is the newest (see find ${query})`);
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
      ["escalation", summary?.escalation ? `${summary.escalation} (escalation show ${summary.escalation})` : null],
    ],
    io,
  );
}

/** Text of a message is cut after this many lines; `--json` and `--full` print all of it. */
const mostLines = 6;
const indent = 20;

/** Formats the steps of a history, oldest first, with a line for each day. */
export function timelineText(history: History, io: Io, full: boolean): string {
  const lines: string[] = [];
  let day = "";
  if (history.cut) lines.push("older steps are left out (see --limit)");
  for (const entry of timelineOf(history)) {
    const at = when(entry.at);
    if (at.slice(0, 10) !== day) {
      day = at.slice(0, 10);
      lines.push("", colored(io, "bold", `${day} UTC`));
    }
    lines.push(...entryLines(entry, at.slice(11), io, full));
  }
  return lines.join("\n");
}

function entryLines(entry: TimelineEntry, time: string, io: Io, full: boolean): string[] {
  const width = textWidth(io) - indent;
  const took = entry.duration === null ? "" : durationText(entry.duration);
  const head = `${time}  ${took.padStart(8)}  `;
  const [first = "", ...rest] = wrapped(clean(entry.title), width);
  const space = " ".repeat(indent);
  const lines = [head + stateText(io, entry.state, first), ...rest.map((line) => space + line)];
  if (entry.detail !== null)
    for (const line of wrapped(clean(entry.detail), width)) lines.push(space + stateText(io, entry.state, line));
  if (entry.text !== null) lines.push(...textLines(entry.text, width - 2, full).map((line) => `${space}| ${line}`));
  const ids = entry.ids.map(([name, id]) => `${name} ${clean(id)}`);
  if (entry.raw !== null) ids.push(`raw: inbox show ${entry.raw} --raw`);
  for (const id of ids) for (const line of wrapped(id, width)) lines.push(space + colored(io, "dim", line));
  return lines;
}

function textLines(text: string, width: number, full: boolean): string[] {
  const lines = cleanLines(full ? text : text.slice(0, width * mostLines * 2)).flatMap((line) => wrapped(line, width));
  if (full) return lines;
  const some = lines.filter((line) => line !== "");
  return some.length > mostLines ? [...some.slice(0, mostLines - 1), "… (--full prints all of it)"] : some;
}
