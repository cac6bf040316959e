// bridgehead inbox: lists received messages, by default those that were not answered, each with its reason. `answer`
// releases them to the agent, `drop` closes messages that were held since a restore.

import { systemClock as clock } from "../../ops/clock.ts";
import type { Database } from "../../store/driver.ts";
import { eventHistory } from "../../store/operators/history.ts";
import {
  type EventSummary,
  type ListedState,
  listEvents,
  readListedState,
  readRaw,
} from "../../store/operators/inbox.ts";
import type { Repair } from "../../store/operators/repair.ts";
import { answeredBefore } from "../../store/restored.ts";
import { exitCodes, fail, type Io } from "../io.ts";
import { withStore } from "../store/open.ts";
import { details, jsonText, type ListColumn, printList, stamp, timeColumns, when } from "../text.ts";
import { timelineText } from "./conversation.ts";
import { type MessageOptions, runRepair } from "./repair.ts";

type InboxOptions = MessageOptions<"list" | "show" | "answer" | Repair, ListedState>;

export function inbox(options: InboxOptions, io: Io): Promise<number> {
  return withStore(options, io, async (db) => {
    const { action } = options;
    const { all, code, reason, state } = options;
    if (action === "list" && all) fail("inbox list has no --all (see --state all)", exitCodes.usage);
    if (action === "list") return list(db, options, io);
    // Without a code: what may have been answered before a restore, in the inbox and the outbox.
    if (all && (action === "answer" || action === "drop") && (code ?? reason ?? state) === undefined)
      return runRepair(db, ["inbox", "outbox"], action === "answer" ? "retry" : "drop", held(options), io);
    if (action !== "show") return runRepair(db, ["inbox"], action === "answer" ? "retry" : action, options, io);
    const [id, ...others] = (options.ids ?? []).map(Number);
    if (id === undefined || !Number.isSafeInteger(id) || id < 1 || others.length > 0)
      fail("inbox show needs a message's number (see inbox list)", exitCodes.usage);
    return show(db, id, options, io);
  });
}

/** Everything that is held because it may have been answered before a restore. */
const held = (options: InboxOptions): InboxOptions => ({ ...options, code: answeredBefore, state: "held" });

/** Those that need an operator come first. */
const unanswered = ["held", "failed", "ignored"] as const;

async function list(db: Database, options: InboxOptions, io: Io): Promise<number> {
  const { after: written, ...wanted } = options;
  const { state, limit } = wanted;
  const after = Number(written);
  if (written !== undefined && (!Number.isSafeInteger(after) || after < 1))
    fail("inbox list --after needs a message's number (see inbox list)", exitCodes.usage);
  const unread: string[] = [];
  const events = await db.read(async (q) => {
    const found: EventSummary[] = [];
    for (const one of state === undefined ? unanswered : [state]) {
      const left = limit - found.length;
      if (left <= 0) break;
      const filter = { ...wanted, kind: "message", state: one, limit: left } as const;
      const page = await listEvents(q, written === undefined ? filter : { ...filter, after });
      for (const event of page.events) found.push(event);
      if (page.readTo !== null)
        unread.push(
          `messages (${one}) received before ${when(page.readTo.received_at)} UTC were not read: continue with --state ${one} --after ${page.readTo.id}`,
        );
    }
    return found;
  });
  const columns: readonly ListColumn<EventSummary>[] = [
    { head: "NUMBER", right: true, cell: ({ id }) => id },
    ...timeColumns<EventSummary>("ARRIVED", ({ received_at }) => received_at),
    { head: "STATE", state: true, cell: ({ state: listed }) => listed },
    { head: "CHANNEL", cell: ({ channel }) => channel },
    { head: "FROM", flexible: true, cell: ({ sender }) => sender },
    { head: "SUBJECT", flexible: true, cell: ({ subject }) => subject },
    { head: "CODE", cell: ({ code }) => code },
    { head: "REASON", flexible: true, cell: ({ reason }) => reason },
  ];
  printList(events, columns, options, io);
  for (const line of unread) io.err(line);
  return exitCodes.ok;
}

async function show(db: Database, id: number, options: InboxOptions, io: Io): Promise<number> {
  const { history, state } = await db.read(async (q) => ({
    history: await eventHistory(q, id),
    state: await readListedState(q, id),
  }));
  const event = history?.events[0];
  if (!event) fail(`there is no message ${id} (see inbox list)`);
  if (options.raw) {
    const bytes = await db.read((q) => readRaw(q, id));
    if (!bytes) fail(`message ${id} as it arrived was not kept, or no longer is`);
    io.write(bytes);
    return exitCodes.ok;
  }
  if (options.json) {
    io.out(jsonText({ ...event, state, body: JSON.parse(event.body) as unknown }));
    return exitCodes.ok;
  }
  io.out(
    details(
      [
        ["message", String(event.id)],
        ["state", [state ?? event.state, event.code, event.reason].filter((part) => part !== null).join(": ")],
        ["channel", event.channel],
        ["from", event.sender ?? "erased (retention)"],
        ["subject", event.subject],
        ["sent", event.sent_at === null ? null : stamp(event.sent_at, clock.now())],
        ["arrived", stamp(event.received_at, clock.now())],
        ["conversation", event.conversation === null ? "none" : `${event.conversation} (conversation show ${id})`],
      ],
      io,
    ),
  );
  io.out(timelineText(history, io, true));
  return exitCodes.ok;
}
