// bridgehead escalation: lists escalations and acts on them as the operator. Runs in parallel to the
// daemon, which sends the enqueued messages.

import { resolve } from "node:path";
import type { Log } from "bridgehead/contract";
import { loadAdapter } from "../channels/loader.ts";
import { loadPolicy } from "../config/index.ts";
import type { ActionName } from "../domain/policy.ts";
import { act } from "../escalation/act.ts";
import type { RelayDeps } from "../escalation/actions.ts";
import { deliveryText, type EscalationCase, loadCase, triggersAndNotes } from "../escalation/case.ts";
import { systemClock as clock } from "../ops/clock.ts";
import { failpoint } from "../ops/failpoints.ts";
import { standardTiming } from "../ops/timing.ts";
import type { Database } from "../store/driver.ts";
import { escalationByNumber, listEscalations, lockEscalations } from "../store/tables/escalations.ts";
import type { Io } from "./io.ts";
import { exitCodes, problemLine } from "./io.ts";
import { useStore } from "./store/open.ts";
import {
  cleanLines,
  details as detailsText,
  jsonText,
  type ListColumn,
  listing,
  relative,
  stamp,
  stateText,
  textWidth,
  when,
  wrapped,
} from "./text.ts";

export interface EscalationOptions {
  readonly config: string;
  readonly action: "list" | "show" | ActionName;
  readonly number?: string;
  readonly state?: "open" | "acknowledged" | "closed";
  readonly channel?: string;
  /** Epoch milliseconds. */
  readonly since?: number;
  readonly limit: number;
  /** Name of the actor, as shown to the responders. */
  readonly by: string;
  readonly text?: string;
  /** note, reply: repeats a text that was already enqueued within `sameText`. */
  readonly again?: boolean;
  readonly json?: boolean;
}

/** Deduplication window for an identical text. An operator repeats a command whose result is unclear. */
const { sameText } = standardTiming.commands;

export async function run(options: EscalationOptions, io: Io): Promise<number> {
  const file = resolve(io.cwd, options.config);
  const loaded = await loadPolicy(file, { env: io.env, adapters: loadAdapter });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    return exitCodes.config;
  }
  return useStore(loaded, io, async (db) => {
    if (options.action === "list") return list(db, options, io);
    const number = Number(options.number);
    if (!Number.isSafeInteger(number) || number < 1) {
      io.err(`escalation ${options.action} needs an escalation's number (see escalation list)`);
      return exitCodes.usage;
    }
    if (options.action === "show") return show(db, number, options, io);
    const kindOf = (channel: string) =>
      loaded.channels.find(({ id, enabled }) => id === channel && enabled)?.platform ?? null;
    return execute(db, number, options.action, kindOf, options, io);
  });
}

const columns: readonly ListColumn[] = [
  { head: "NUMBER", right: true },
  { head: "OPENED (UTC)" },
  { head: "AGO", right: true },
  { head: "STATE", state: true },
  { head: "BY", flexible: true },
  { head: "CHANNEL" },
  { head: "CAUSE" },
  { head: "TOPIC", flexible: true },
  { head: "REASON", flexible: true },
];

async function list(db: Database, options: EscalationOptions, io: Io): Promise<number> {
  const { state, channel, since, limit } = options;
  const filter = {
    limit,
    ...(state === undefined ? {} : { state }),
    ...(channel === undefined ? {} : { channel }),
    ...(since === undefined ? {} : { since }),
  };
  const rows = await db.read((q) => listEscalations(q, filter));
  if (options.json) io.out(jsonText(rows));
  else if (rows.length === 0) io.out("nothing");
  else {
    const now = clock.now();
    const cells = rows.map((row) => [
      String(row.number),
      when(row.opened_at),
      relative(row.opened_at, now).replace(" ago", ""),
      row.state,
      (row.state === "closed" ? row.closed_by : row.acknowledged_by) ?? "",
      row.channel,
      row.cause,
      row.topic ?? "",
      row.reason,
    ]);
    io.out(listing(columns, cells, io));
  }
  return exitCodes.ok;
}

async function show(db: Database, number: number, options: EscalationOptions, io: Io): Promise<number> {
  const found = await db.read(async (q) => {
    const row = await escalationByNumber(q, number);
    return row && loadCase(q, row, "whole");
  });
  if (!found) return unknown(number, io);
  const { details, notifications } = found;
  const { row, person, subject, sources, said } = details;
  if (options.json) {
    const shown = notifications.map(({ contact: _contact, draft, made_at: at, ...one }) => ({
      ...one,
      at,
      draft,
    }));
    io.out(jsonText({ ...row, person, subject, sources, notifications: shown, said }));
  } else printOne(found, io);
  return exitCodes.ok;
}

/** Prints an escalation for a terminal. */
function printOne({ details, notifications }: EscalationCase, io: Io): void {
  const now = clock.now();
  const { row, person, subject, sources, said } = details;
  const { triggers, notes } = triggersAndNotes(sources);
  const done = (by: string | null, at: number | null) =>
    at === null ? null : `by ${by ?? "?"}, ${stamp(at, now)}`;
  io.out(
    detailsText(
      [
        ["escalation", String(row.number)],
        ["state", row.state],
        ["cause", [row.cause, row.topic].filter((part) => part !== null).join(": ")],
        ["reason", row.reason],
        ["channel", `${row.channel}, agent ${row.agent}`],
        ["person", person && [person.address, person.name].filter((part) => part !== null).join(", ")],
        ["subject", subject],
        ["opened", stamp(row.opened_at, now)],
        ["acknowledged", done(row.acknowledged_by, row.acknowledged_at)],
        ["closed", done(row.closed_by, row.closed_at)],
        ["next step", row.due_at === null ? null : stamp(row.due_at, now)],
        [
          "conversation",
          row.conversation && `${row.conversation} (bridgehead conversation show ${row.conversation})`,
        ],
        ...triggers.map(({ at, from, detail }): [string, string] => [
          "detected by",
          `${when(at)} ${from}${detail ? `: ${detail}` : ""}`,
        ]),
        ...notes.map(({ at, text }): [string, string] => ["note", `${when(at)} ${text}`]),
        ...notifications.map((one): [string, string] => [
          one.kind,
          `${when(one.made_at)} ${one.name} by ${one.way}: ${deliveryText(one)}${one.reason ? `: ${one.reason}` : ""}`,
        ]),
        ["notified", notifications.length === 0 ? "no responder was notified" : null],
      ],
      io,
    ),
  );
  for (const { at, who, text } of said) {
    const lines = cleanLines(text).flatMap((line) => wrapped(line, textWidth(io) - 2));
    io.out(["", `${when(at)} ${stateText(io, who)}`, ...lines.map((line) => `  ${line}`)].join("\n"));
  }
}

async function execute(
  db: Database,
  number: number,
  action: ActionName,
  kindOf: RelayDeps["kindOf"],
  { by, text = "", again = false }: EscalationOptions,
  io: Io,
): Promise<number> {
  if ((action === "note" || action === "reply") && text.trim() === "") {
    io.err(`escalation ${action} needs --text`);
    return exitCodes.usage;
  }
  const outcome = await db.tx(async (q) => {
    const found = await escalationByNumber(q, number);
    // The lock prevents concurrent changes.
    const row = found && (await lockEscalations(q, [found.id])).get(found.id);
    if (!row) return null;
    const request = { action, by: { name: by, contact: null }, text, again };
    const done = await act(q, row, request, { kindOf, clock, log: quiet, sameText });
    failpoint("take.commit", "before", { escalation: row.id });
    await db.wake(q);
    return done;
  });
  failpoint("take.commit", "after", { number });
  if (outcome === null) return unknown(number, io);
  const once = outcome.repeated ? "; --again repeats it" : "";
  (outcome.done ? io.out : io.err)(`${number}: ${outcome.says}${once}`);
  return outcome.done ? exitCodes.ok : exitCodes.failed;
}

function unknown(number: number, io: Io): number {
  io.err(`there is no escalation ${number} (see escalation list)`);
  return exitCodes.failed;
}

/** Discards log records: the output of the command contains the result. */
const quiet: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
