// bridgehead escalation: lists escalations and acts on them as the operator. Runs in parallel to the
// daemon, which sends the enqueued messages.

import { resolve } from "node:path";
import type { Log } from "bridgehead/contract";
import { loadAdapter } from "../channels/loader.ts";
import { loadPolicy } from "../config/index.ts";
import { looksLikeCommand } from "../domain/instructions.ts";
import { acknowledge, close, relay, resume } from "../escalation/actions.ts";
import { detailsOf } from "../escalation/notify/rows.ts";
import { readCustomers } from "../escalation/reply/rows.ts";
import { systemClock as clock, newId } from "../ops/clock.ts";
import { failpoint } from "../ops/failpoints.ts";
import { standardTiming } from "../ops/timing.ts";
import type { Database, Query } from "../store/driver.ts";
import {
  addTriggers,
  type EscalationRow,
  escalationByNumber,
  hasNote,
  listEscalations,
  liveEscalation,
  lockEscalations,
} from "../store/tables/escalations.ts";
import { notificationStatesOf, targetsOf } from "../store/tables/responders.ts";
import { saidBefore, wasGivenBack } from "../store/tables/takeover.ts";
import type { Said } from "../store/tables/transcript.ts";
import type { Io } from "./io.ts";
import { exitCodes, problemLine } from "./io.ts";
import { useStore } from "./store/open.ts";
import {
  type Column,
  cleanLines,
  details as detailsText,
  jsonText,
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
  readonly action: "list" | "show" | "ack" | "close" | "resume" | "note" | "reply";
  readonly number?: string;
  readonly state?: "open" | "taken" | "closed";
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
    return act(db, number, kindOf, options, io);
  });
}

const columns: readonly Column[] = [
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
      (row.state === "closed" ? row.closed_by : row.taken_by) ?? "",
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
    if (!row) return null;
    const details = (await detailsOf(q, [row], "whole")).get(row.id);
    if (!details) throw new Error(`reading escalation ${number}: it was not found`);
    const { person, subject, sources, said } = details;
    const contacts = await targetsOf(q, row.id);
    const told = (await notificationStatesOf(q, row.id)).map(({ contact, made_at, ...one }) => {
      const to = contacts.find(({ id }) => id === contact);
      return { ...one, name: to?.name, way: to?.way, address: to?.address, at: made_at };
    });
    return { ...row, person, subject, sources, told, said };
  });
  if (!found) return unknown(number, io);
  if (options.json) io.out(jsonText(found));
  else printOne(found, io);
  return exitCodes.ok;
}

type Shown = EscalationRow & {
  readonly person: { readonly address: string; readonly name: string | null } | null;
  readonly subject: string | null;
  readonly sources: readonly { readonly source: string; readonly detail: string | null }[];
  readonly told: readonly NotificationShown[];
  readonly said: readonly Said[];
};

interface NotificationShown {
  readonly name: string | undefined;
  readonly way: string | undefined;
  readonly kind: string;
  readonly state: string | null;
  readonly reason: string | null;
  readonly at: number;
}

function printOne(found: Shown, io: Io): void {
  const now = clock.now();
  io.out(
    detailsText(
      [
        ["escalation", String(found.number)],
        ["state", found.state],
        ["cause", [found.cause, found.topic].filter((part) => part !== null).join(": ")],
        ["reason", found.reason],
        ["channel", `${found.channel}, agent ${found.agent}`],
        [
          "person",
          found.person &&
            [found.person.address, found.person.name].filter((part) => part !== null).join(", "),
        ],
        ["subject", found.subject],
        ["opened", stamp(found.opened_at, now)],
        [
          "acknowledged",
          found.taken_at === null ? null : `by ${found.taken_by ?? "?"}, ${stamp(found.taken_at, now)}`,
        ],
        [
          "closed",
          found.closed_at === null ? null : `by ${found.closed_by ?? "?"}, ${stamp(found.closed_at, now)}`,
        ],
        ["next step", found.due_at === null ? null : stamp(found.due_at, now)],
        [
          "conversation",
          found.conversation && `${found.conversation} (bridgehead conversation show ${found.conversation})`,
        ],
        ...found.sources.map(({ source, detail }): [string, string] => [source, detail ?? "-"]),
        ...found.told.map((one): [string, string] => {
          const to = `${one.name ?? "?"} by ${one.way ?? "?"}`;
          const state = [one.state ?? "not sent yet", one.reason].filter((part) => part !== null).join(": ");
          return [one.kind, `${when(one.at)} ${to}: ${state}`];
        }),
      ],
      io,
    ),
  );
  for (const { at, who, text } of found.said) {
    const lines = cleanLines(text).flatMap((line) => wrapped(line, textWidth(io) - 2));
    io.out(["", `${when(at)} ${stateText(io, who)}`, ...lines.map((line) => `  ${line}`)].join("\n"));
  }
}

async function act(
  db: Database,
  number: number,
  kindOf: Parameters<typeof relay>[3]["kindOf"],
  options: EscalationOptions,
  io: Io,
): Promise<number> {
  const { action, text = "" } = options;
  if ((action === "note" || action === "reply") && text.trim() === "") {
    io.err(`escalation ${action} needs --text`);
    return exitCodes.usage;
  }
  const log = quiet;
  const outcome = await db.tx(async (q) => {
    const found = await escalationByNumber(q, number);
    // The lock prevents concurrent changes.
    const row = found && (await lockEscalations(q, [found.id])).get(found.id);
    if (!row) return null;
    const said = await change(q, row, { ...options, text }, { kindOf, clock, log });
    failpoint("take.commit", "before", { escalation: row.id });
    await db.wake(q);
    return said;
  });
  failpoint("take.commit", "after", { number });
  if (outcome === null) return unknown(number, io);
  (outcome.done ? io.out : io.err)(`${number}: ${outcome.says}`);
  return outcome.done ? exitCodes.ok : exitCodes.failed;
}

interface Outcome {
  readonly done: boolean;
  readonly says: string;
}

async function change(
  q: Query,
  row: EscalationRow,
  { action, by, text = "", again = false }: EscalationOptions,
  deps: Parameters<typeof relay>[3],
): Promise<Outcome> {
  if (action === "note") {
    const note = { escalation: row.id, source: "note", detail: `${by}: ${text}` };
    if (!again && (await hasNote(q, note, sameText)))
      return { done: true, says: "noted before; --again notes it once more" };
    await addTriggers(q, [{ key: `note:${newId(clock.now())}`, ...note }]);
    return { done: true, says: "noted" };
  }
  if (row.state === "closed" && !(await isLeftSilent(q, row, action))) return afterClose(q, row, action, by);
  if (action === "close") return { done: await close(q, row, by, deps), says: "closed" };
  if (action === "resume") {
    const customers = await readCustomers(q, row.conversation === null ? [] : [row.conversation]);
    await resume(q, row, customers.get(row.conversation ?? "") ?? null, by, deps);
    return { done: true, says: "given back to the agent" };
  }
  const actor = { name: by, contact: null };
  if (action === "ack") {
    const taken = await acknowledge(q, row, actor, deps);
    return { done: true, says: taken ? `taken by ${by}` : `${by} has it already` };
  }
  const said =
    again || row.conversation === null ? null : await saidBefore(q, row.conversation, text, sameText);
  if (said !== null) {
    const is = said.state === "sent" || said.state === "delivered" ? "were sent" : "wait to be sent";
    const ago = `${Math.max(0, Math.round(said.ago / 1000))} s ago`;
    return {
      done: false,
      says: `not sent again: the very same words were left ${ago}, and ${is}; --again sends them once more`,
    };
  }
  const slip = text.split("\n").find(looksLikeCommand);
  if (slip !== undefined)
    return {
      done: false,
      says: `not sent: "${slip.trim().slice(0, 40)}" looks like a command for notifications (#note, #close, #resume); use escalation note, close or resume`,
    };
  const trouble = await relay(q, row, { text }, deps);
  if (trouble !== null) return { done: false, says: `not sent: ${trouble}` };
  // An escalation that is already acknowledged stays with its responder, who gets the customer's next
  // messages.
  const taken = row.state === "open" && (await acknowledge(q, row, actor, deps));
  return { done: true, says: `will be sent to the customer${taken ? `; taken by ${by}` : ""}` };
}

/** Returns true when a closed escalation left the agent silent. The agent may then get the conversation
 *  back, unless another escalation about it is open. */
async function isLeftSilent(
  q: Query,
  { conversation, about, from_seq }: EscalationRow,
  action: EscalationOptions["action"],
): Promise<boolean> {
  if (action !== "resume" || conversation === null) return false;
  return !(await wasGivenBack(q, conversation, from_seq)) && !(await liveEscalation(q, about));
}

/** Result of an action on a closed escalation. A repetition by the same actor succeeds. */
async function afterClose(
  q: Query,
  { conversation, from_seq, closed_by }: EscalationRow,
  action: EscalationOptions["action"],
  by: string,
): Promise<Outcome> {
  const closed = `it was closed by ${closed_by ?? "somebody"}`;
  if (closed_by !== by) return { done: false, says: closed };
  if (action === "close") return { done: true, says: closed };
  const back =
    action === "resume" && conversation !== null && (await wasGivenBack(q, conversation, from_seq));
  return back ? { done: true, says: "it was given back to the agent" } : { done: false, says: closed };
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
