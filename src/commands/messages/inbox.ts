// bridgehead inbox: lists unanswered messages, each with its reason. `answer` releases them to the agent,
// `drop` closes messages that were held since a restore.

import type { Database } from "../../store/driver.ts";
import { listEvents, readRaw, releaseEvent, showEvent } from "../../store/operators/inbox.ts";
import { answeredBefore, dropEvent, releaseHeld } from "../../store/restored.ts";
import type { Io } from "../io.ts";
import { exitCodes } from "../io.ts";
import { table, when, withStore } from "../store/open.ts";

export interface InboxOptions {
  readonly config: string;
  readonly action: "list" | "show" | "answer" | "drop";
  readonly ids?: readonly string[];
  readonly all?: boolean;
  readonly state?: State;
  readonly code?: string;
  readonly channel?: string;
  readonly limit: number;
  readonly raw?: boolean;
  readonly json?: boolean;
}

/** Number of messages released per transaction. Limits the time for which the daemon's writes wait. */
const releaseBatch = 100;

export function run(options: InboxOptions, io: Io): Promise<number> {
  return withStore(options, io, async (db) => {
    const { action } = options;
    if (action === "list") return list(db, options, io);
    if (action !== "show" && options.all === true) return releaseAll(db, action, options, io);
    const ids = (options.ids ?? []).map(Number);
    const usable = ids.length > 0 && ids.every((id) => Number.isSafeInteger(id) && id >= 1);
    if (!usable || (action === "show" && ids.length > 1)) {
      io.err(`inbox ${action} needs a message's number (see inbox list)`);
      return exitCodes.usage;
    }
    if (action === "show") return show(db, ids[0] ?? 0, options, io);
    for (const id of ids) {
      await db.tx((q) => (action === "answer" ? releaseEvent(q, id) : dropEvent(q, id)));
      io.out(`${id}: ${action === "answer" ? "will be answered" : "will not be answered"}`);
    }
    return exitCodes.ok;
  });
}

/** Releases every message that is held because it may have been answered before a restore. */
async function releaseAll(
  db: Database,
  action: "answer" | "drop",
  options: InboxOptions,
  io: Io,
): Promise<number> {
  if ((options.ids ?? []).length > 0) {
    io.err(`inbox ${action}: give either numbers or --all`);
    return exitCodes.usage;
  }
  const { channel = null } = options;
  let done = 0;
  for (;;) {
    const released = await db.tx((q) => releaseHeld(q, action, channel, releaseBatch));
    if (released === 0) break;
    done += released;
  }
  io.out(`${done} held as ${answeredBefore}: ${action === "answer" ? "will be answered" : "dropped"}`);
  return exitCodes.ok;
}

const unanswered = ["ignored", "held", "failed"] as const;
type State = (typeof unanswered)[number] | "stored";

async function list(db: Database, options: InboxOptions, io: Io): Promise<number> {
  const { state, code, channel, limit } = options;
  const states: readonly State[] = state === undefined ? unanswered : [state];
  const narrowed = {
    limit,
    ...(code === undefined ? {} : { code }),
    ...(channel === undefined ? {} : { channel }),
  };
  const found = await db.read(async (q) => {
    const lists = [];
    for (const one of states) lists.push(await listEvents(q, { ...narrowed, state: one }));
    return lists.flat();
  });
  const events = found
    .filter(({ kind }) => kind === "message")
    .sort((left, right) => right.id - left.id)
    .slice(0, limit);
  if (options.json) io.out(JSON.stringify(events));
  else if (events.length === 0) io.out("nothing");
  else {
    const rows = events.map((event) => [
      String(event.id),
      when(event.received_at),
      event.channel,
      event.sender ?? "",
      event.code ?? event.state,
      event.reason ?? "",
      event.subject ?? "",
    ]);
    io.out(table([["NUMBER", "ARRIVED (UTC)", "CHANNEL", "FROM", "WHY NOT", "REASON", "SUBJECT"], ...rows]));
  }
  return exitCodes.ok;
}

async function show(db: Database, id: number, options: InboxOptions, io: Io): Promise<number> {
  const event = await db.read((q) => showEvent(q, id));
  if (!event) {
    io.err(`there is no message ${id} (see inbox list)`);
    return exitCodes.failed;
  }
  if (options.raw) {
    const bytes = await db.read((q) => readRaw(q, id));
    if (!bytes) {
      io.err(`message ${id} as it arrived was not kept, or no longer is`);
      return exitCodes.failed;
    }
    io.write(bytes);
    return exitCodes.ok;
  }
  io.out(JSON.stringify({ ...event, body: JSON.parse(event.body) as unknown }, null, options.json ? 0 : 2));
  return exitCodes.ok;
}
