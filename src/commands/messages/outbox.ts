// bridgehead outbox: lists the messages to be sent and changes their state for the operator. Runs in
// parallel to the daemon, which reads a change at its next sweep.

import { durationText } from "../../domain/duration-text.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import type { Database } from "../../store/driver.ts";
import { type DraftSummary, listDrafts, showDraft } from "../../store/operators/outbox.ts";
import type { Repair } from "../../store/operators/repair.ts";
import { shownAddress } from "../../store/operators/timeline.ts";
import { exitCodes, fail, type Io } from "../io.ts";
import { withStore } from "../store/open.ts";
import {
  cleanLines,
  details,
  jsonText,
  type ListColumn,
  printList,
  relative,
  stamp,
  textWidth,
  when,
  wrapped,
} from "../text.ts";

import { type MessageOptions, runRepair } from "./repair.ts";

type OutboxOptions = MessageOptions<"list" | "show" | "resend" | Repair>;

export function outbox(options: OutboxOptions, io: Io): Promise<number> {
  return withStore(options, io, async (db) => {
    const { action, ids = [] } = options;
    if (action === "list" && options.all) fail("outbox list lists all without --all", exitCodes.usage);
    if (action === "list") return list(db, options, io);
    if (action !== "show") return runRepair(db, ["outbox"], action === "resend" ? "retry" : action, options, io);
    const [id, ...others] = ids;
    if (id === undefined || others.length > 0)
      fail("outbox show needs a draft's id (see outbox list)", exitCodes.usage);
    return show(db, id, options, io);
  });
}

async function list(db: Database, options: OutboxOptions, io: Io): Promise<number> {
  const { drafts, readTo } = await db.read((q) => listDrafts(q, options));
  printList(drafts, columns, options, io);
  if (readTo !== null)
    io.err(`drafts created before ${when(readTo.created_at)} UTC were not read: continue with --after ${readTo.id}`);
  return exitCodes.ok;
}

const columns: readonly ListColumn<DraftSummary>[] = [
  { head: "DRAFT", cell: ({ id }) => id },
  { head: "STATE", state: true, cell: ({ state }) => state },
  { head: "CHANNEL", cell: ({ channel }) => channel },
  { head: "TO", flexible: true, cell: ({ recipient }) => shownAddress(recipient) },
  { head: "TRIES", right: true, cell: ({ attempts }) => attempts },
  { head: "CREATED (UTC)", cell: ({ created_at }) => when(created_at) },
  { head: "DUE", cell: ({ due_at }, now) => relative(due_at, now) },
  { head: "CODE", cell: ({ code }) => code },
  { head: "REASON", flexible: true, cell: ({ reason }) => reason },
];

async function show(db: Database, id: string, options: OutboxOptions, io: Io): Promise<number> {
  const found = await db.read((q) => showDraft(q, id));
  if (!found) fail(`there is no draft ${id} (see outbox list)`);
  const { tries, body, ...draft } = found;
  const content = body === "" ? null : (JSON.parse(body) as unknown);
  if (options.json) {
    io.out(jsonText({ ...draft, body: content, tries }));
    return exitCodes.ok;
  }
  const now = clock.now();
  io.out(
    details(
      [
        ["draft", draft.id],
        ["state", [draft.state, draft.reason].filter((part) => part !== null).join(": ")],
        ["channel", draft.channel],
        ["to", shownAddress(draft.recipient) || "erased (retention)"],
        ["conversation", draft.conversation],
        ["sent as", draft.external_id],
        ["made", stamp(draft.created_at, now)],
        ["due", stamp(draft.due_at, now)],
        ...tries.map((attempt): [string, string] => [
          `attempt ${attempt.number}`,
          [
            when(attempt.started_at),
            attempt.outcome ?? "no outcome yet",
            ...(attempt.ended_at === null ? [] : [`after ${durationText(attempt.ended_at - attempt.started_at)}`]),
            ...(attempt.detail === null ? [] : [`(${attempt.detail})`]),
          ].join(" "),
        ]),
      ],
      io,
    ),
  );
  const text = content === null ? "its text was erased (retention)" : JSON.stringify(content, null, 2);
  io.out(["", ...cleanLines(text).flatMap((line) => wrapped(line, textWidth(io)))].join("\n"));
  return exitCodes.ok;
}
