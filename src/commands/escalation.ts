// bridgehead escalation: lists escalations and acts on them as the operator. Runs in parallel to the
// daemon, which sends the enqueued messages.

import { loadPolicy } from "../config/index.ts";
import type { ActionName } from "../domain/policy.ts";
import { act } from "../escalation/act/stage.ts";
import type { RelayDeps } from "../escalation/actions.ts";
import { deliveryText, type EscalationCase, loadCase, triggersAndNotes } from "../escalation/case.ts";
import { systemClock as clock } from "../ops/clock.ts";
import { failpoints } from "../ops/failpoints.ts";
import type { Database } from "../store/driver.ts";
import {
  type EscalationRow,
  escalationByNumber,
  listEscalations,
  lockEscalations,
} from "../store/tables/escalations.ts";
import { exitCodes, fail, type Io, type ListOptions, silentLog } from "./io.ts";
import { load, requireChannel, useStore } from "./store/open.ts";
import {
  cleanLines,
  details as detailsText,
  jsonText,
  type ListColumn,
  printList,
  stamp,
  stateText,
  textWidth,
  timeColumns,
  when,
  wrapped,
} from "./text.ts";

export interface EscalationOptions extends ListOptions {
  readonly action: "list" | "show" | ActionName;
  readonly number?: string;
  readonly state?: "open" | "acknowledged" | "closed";
  /** Name of the actor, as shown to the responders. */
  readonly by: string;
  readonly text?: string;
  /** note, reply: repeats a text that was already enqueued within `sameText`. */
  readonly again?: boolean;
}

export async function escalation(options: EscalationOptions, io: Io): Promise<number> {
  const loaded = await load(loadPolicy, options, io);
  return useStore(loaded, io, async (db) => {
    await requireChannel(db, loaded, options.channel);
    if (options.action === "list") {
      printList(await db.read((q) => listEscalations(q, options)), columns, options, io);
      return exitCodes.ok;
    }
    const number = Number(options.number);
    if (!Number.isSafeInteger(number) || number < 1)
      fail(`escalation ${options.action} needs an escalation's number (see escalation list)`, exitCodes.usage);
    if (options.action === "show") return show(db, number, options, io);
    const kindOf = (channel: string) =>
      loaded.channels.find(({ id, enabled }) => id === channel && enabled)?.platform ?? null;
    return execute(db, number, options.action, kindOf, options, io);
  });
}

const columns: readonly ListColumn<EscalationRow>[] = [
  { head: "NUMBER", right: true, cell: ({ number }) => number },
  ...timeColumns<EscalationRow>("OPENED", ({ opened_at }) => opened_at),
  { head: "STATE", state: true, cell: ({ state }) => state },
  {
    head: "BY",
    flexible: true,
    cell: ({ state, closed_by, acknowledged_by }) => (state === "closed" ? closed_by : acknowledged_by),
  },
  { head: "CHANNEL", cell: ({ channel }) => channel },
  { head: "CAUSE", cell: ({ cause }) => cause },
  { head: "TOPIC", flexible: true, cell: ({ topic }) => topic },
  { head: "REASON", flexible: true, cell: ({ reason }) => reason },
];

async function show(db: Database, number: number, options: EscalationOptions, io: Io): Promise<number> {
  const found = await db.read(async (q) => {
    const row = await escalationByNumber(q, number);
    return row && loadCase(q, row, "whole");
  });
  if (!found) return unknown(number);
  const { details, notifications } = found;
  const { row, person, subject, triggers, said } = details;
  if (options.json) {
    const shown = notifications.map(({ target: _target, draft, made_at: at, ...one }) => ({
      ...one,
      at,
      draft,
    }));
    io.out(jsonText({ ...row, person, subject, triggers, notifications: shown, said }));
  } else printOne(found, io);
  return exitCodes.ok;
}

function printOne({ details, notifications }: EscalationCase, io: Io): void {
  const now = clock.now();
  const { row, person, subject, said } = details;
  const { triggers, notes } = triggersAndNotes(details.triggers);
  const done = (by: string | null, at: number | null) => (at === null ? null : `by ${by ?? "?"}, ${stamp(at, now)}`);
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
        ["conversation", row.conversation && `${row.conversation} (conversation show ${row.conversation})`],
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
  if ((action === "note" || action === "reply") && text.trim() === "")
    fail(`escalation ${action} needs --text`, exitCodes.usage);
  const outcome = await db.tx(async (q) => {
    const found = await escalationByNumber(q, number);
    // The lock prevents concurrent changes.
    const row = found && (await lockEscalations(q, [found.id])).get(found.id);
    if (!row) return null;
    const request = { action, by: { name: by, target: null }, text, again };
    const done = await act(q, row, request, { kindOf, clock, log: silentLog, sameText: io.timing.commands.sameText });
    failpoints["action.commit"].publish({ phase: "before", escalation: row.id });
    await db.wake(q);
    return done;
  });
  failpoints["action.commit"].publish({ phase: "after", number });
  if (outcome === null) return unknown(number);
  const once = outcome.repeated ? "; --again repeats it" : "";
  (outcome.done ? io.out : io.err)(`${number}: ${outcome.says}${once}`);
  return outcome.done ? exitCodes.ok : exitCodes.failed;
}

const unknown = (number: number): never => fail(`there is no escalation ${number} (see escalation list)`);
