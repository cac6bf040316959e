// bridgehead inbox: messages that were not answered, each with its reason; `answer` lets one through all the same.

import type { Database } from "../store/driver.ts";
import { listEvents, readRaw, releaseEvent, showEvent } from "../store/inbox.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { table, when, withStore } from "./store.ts";

export interface InboxOptions {
  readonly config: string;
  readonly action: "list" | "show" | "answer";
  readonly id?: string;
  readonly state?: State;
  readonly code?: string;
  readonly channel?: string;
  readonly limit: number;
  readonly raw?: boolean;
  readonly json?: boolean;
}

export function run(options: InboxOptions, io: Io): Promise<number> {
  return withStore(options, io, async (db) => {
    if (options.action === "list") return list(db, options, io);
    const id = Number(options.id);
    if (!Number.isSafeInteger(id) || id < 1) {
      io.err(`inbox ${options.action} needs a message's number (see inbox list)`);
      return exitCodes.usage;
    }
    if (options.action === "show") return show(db, id, options, io);
    await db.tx((q) => releaseEvent(q, id));
    io.out(`${id}: will be answered`);
    return exitCodes.ok;
  });
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
