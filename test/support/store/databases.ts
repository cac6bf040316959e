// A store for a test, of either kind: a real file, or a schema of a real server. Kept when the test fails.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, onTestFailed, onTestFinished } from "vitest";
import { insertEvents, type NewEvent } from "../../../src/pipeline/accept/rows.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { type ClosedLanes, type Direction, type Lease, leaseHeads } from "../../../src/store/lanes.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { addParticipants, insertConversation } from "../../../src/store/tables/conversations.ts";
import {
  changeDraft,
  changeReply,
  type DraftChange,
  enqueueDraft,
  insertReply,
} from "../../../src/store/tables/drafts.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import {
  changeTurn,
  enqueueTurn,
  readTurn,
  type TurnChange,
  type TurnRow,
} from "../../../src/store/tables/turns.ts";
import type { Table } from "../../../src/store/transitions.ts";
import { describeReal } from "../machine/debian.ts";
import { needPostgres, type Postgres, type SharedPostgres, sharedPostgres } from "./postgres.ts";

export interface Place {
  /** The file of an SQLite store. */
  readonly file?: string;
  /** The schema of a PostgreSQL store. */
  readonly schema?: string;
  /** Another connection to the same, as another node has. */
  open(): Promise<Database>;
  /** Puts a copy of a migrated store in place of the empty one. Without it the store is migrated. */
  fill?(): Promise<void>;
}

/** A new empty store for the running test. */
export type NewPlace = () => Promise<Place>;

/** Closed, and removed unless the test failed, when it ends. */
function keeping(where: string, remove: () => unknown, open: () => Promise<Database>): Place {
  const opened: Database[] = [];
  let failed = false;
  onTestFailed(() => {
    failed = true;
    process.stderr.write(`kept: ${where}\n`);
  });
  onTestFinished(async () => {
    for (const db of opened) await db.close();
    if (!failed) await remove();
  });
  return {
    async open() {
      const db = await open();
      opened.push(db);
      return db;
    },
  };
}

/** The file of a migrated store without rows. */
let migratedFile: Promise<Buffer> | undefined;

async function migrateFile(): Promise<Buffer> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-store-"));
  const db = openSqlite(join(folder, "store.db"), Date.now);
  await migrate(db);
  await db.close();
  const bytes = readFileSync(join(folder, "store.db"));
  rmSync(folder, { recursive: true, force: true });
  return bytes;
}

export async function sqlitePlace(now: () => number = Date.now): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-store-"));
  const file = join(folder, "store.db");
  const remove = () => rmSync(folder, { recursive: true, force: true });
  const fill = async () => {
    migratedFile ??= migrateFile();
    writeFileSync(file, await migratedFile);
  };
  return { file, fill, ...keeping(folder, remove, async () => openSqlite(file, now)) };
}

/** In a schema; with a server of the run, `fill` copies a database instead. */
export async function postgresPlace(server: Postgres | SharedPostgres): Promise<Place> {
  const schema = await server.schema();
  let copy: string | undefined;
  const open = () =>
    openPostgres(copy ?? server.url, { ...(copy === undefined && { schema }), connections: 4 });
  const remove = async () => {
    await server.dropSchema(schema);
    if (copy !== undefined && "dropCopy" in server) await server.dropCopy(copy);
  };
  const place = { schema, ...keeping(schema, remove, open) };
  return "copy" in server ? { ...place, fill: async () => void (copy = await server.copy()) } : place;
}

/** A place with a migrated store. */
export async function migrated(place: NewPlace): Promise<Place> {
  const at = await place();
  if (at.fill !== undefined) await at.fill();
  else {
    const db = await at.open();
    await migrate(db);
    await db.close();
  }
  return at;
}

/** A migrated store with channel `c`. */
export async function fresh(place: NewPlace): Promise<Database> {
  const db = await (await migrated(place)).open();
  await db.tx((q) => ensureChannel(q, "c"));
  return db;
}

export const event = (externalId: string, over: Partial<NewEvent> = {}): NewEvent => ({
  channel: "c",
  externalId,
  fingerprint: null,
  kind: "message",
  sender: "a@example.org",
  subject: "hello",
  body: '{"kind":"message"}',
  sentAt: 1,
  raw: null,
  attachments: [],
  ...over,
});

export async function conversation(
  q: Query,
  id: string,
  channel = "c",
  person = "a@example.org",
): Promise<string> {
  await insertConversation(q, {
    id,
    channel,
    agent: "agent",
    person,
    person_name: null,
    subject: null,
    token: `token${id}`,
  });
  return id;
}

export async function turn(
  q: Query,
  id: string,
  of: string,
  over: { receivedAt?: number; person?: string; channel?: string } = {},
) {
  await enqueueTurn(q, {
    id,
    conversation: of,
    channel: over.channel ?? "c",
    person: over.person ?? "a@example.org",
    event: null,
    question: `question ${id}`,
    context: null,
    address: '{"to":[]}',
    receivedAt: over.receivedAt ?? Date.now(),
  });
}

/** A reply with one draft, due in `dueInMs`. */
export async function draft(q: Query, id: string, of: string, dueInMs = 0, channel = "c"): Promise<void> {
  await insertReply(q, {
    id: `r${id}`,
    conversation: of,
    channel,
    turn: null,
    text: "text",
    platformId: null,
  });
  await enqueueDraft(q, {
    id,
    conversation: of,
    channel,
    reply: `r${id}`,
    recipient: "a@example.org",
    body: '{"text":"text"}',
    dueAt: Date.now() + dueInMs,
  });
}

/** Stores one event; false for a duplicate. */
export const insertEvent = async (q: Query, one: NewEvent): Promise<boolean> =>
  (await insertEvents(q, [one]))[0] === true;

export async function storeEvent(
  q: Query,
  externalId: string,
  over: Partial<NewEvent> = {},
): Promise<number> {
  await insertEvent(q, event(externalId, over));
  const row = await q.one<{ id: number }>(
    "SELECT id FROM events WHERE channel = $1 AND external_id = $2",
    over.channel ?? "c",
    externalId,
  );
  if (!row) throw new Error(`storing event ${externalId}`);
  return row.id;
}

export async function stateOf(
  q: Query,
  table: "turns" | "drafts" | "events",
  id: string | number,
): Promise<string | undefined> {
  return (await q.one<{ state: string }>(`SELECT state FROM ${table} WHERE id = $1`, id))?.state;
}

/** Puts a row into a state to begin with, whatever state it is in. */
export async function put(q: Query, table: Table | "conversations", id: string, set: string): Promise<void> {
  await q.run(`UPDATE ${table} SET ${set} WHERE id = $1`, id);
}

/** Changes the turn at the end of an attempt, whatever state it is in. */
export async function concludeTurn(q: Query, id: string, change: TurnChange): Promise<void> {
  await put(q, "turns", id, `state = '${change.state === "asking" ? "waiting" : "asking"}'`);
  await changeTurn(q, id, change);
}

/** Changes the draft at the end of an attempt, whatever state it is in. */
export async function concludeDraft(q: Query, id: string, change: DraftChange): Promise<void> {
  await put(q, "drafts", id, `state = '${change.state === "sending" ? "queued" : "sending"}'`);
  await changeDraft(q, id, change);
}

/** Changes the reply when it has been composed, whatever state it is in. */
export async function concludeReply(
  q: Query,
  id: string,
  state: "composed" | "failed",
  reason: string | null,
): Promise<void> {
  await put(q, "replies", id, "state = 'ready'");
  await changeReply(q, id, state, reason);
}

/** Returns the head of a leased inbound lane, or null. */
export async function headTurn(q: Query, { conversation }: Lease): Promise<TurnRow | null> {
  const head = await q.one<{ id: string }>(
    "SELECT id FROM turns WHERE conversation = $1 AND open = 1 ORDER BY seq LIMIT 1",
    conversation,
  );
  return head ? readTurn(q, head.id) : null;
}

export const addParticipant = (q: Query, id: string, address: string): Promise<void> =>
  addParticipants(q, [{ conversation: id, address }]);

/** Leases lanes like `leaseHeads`, without their heads. */
export async function leaseLanes(
  q: Query,
  direction: Direction,
  channel: string,
  holder: string,
  leaseMs: number,
  limit: number,
  closed?: ClosedLanes,
): Promise<Lease[]> {
  const claim = { channel, holder, leaseMs, limit, ...(closed && { closed }) };
  const held = await leaseHeads(q, direction, claim, { columns: "lanes.conversation" });
  return held.map(({ lease }) => lease);
}

export async function participantsOf(q: Query, id: string): Promise<Set<string>> {
  const rows = await q.all<{ address: string }>(
    "SELECT address FROM participants WHERE conversation = $1",
    id,
  );
  return new Set(rows.map(({ address }) => address));
}

// The same tests on both databases.

const missing = await needPostgres();

/** Declares the tests twice. `place` gives the running test an empty store of its own. */
export function onEachDatabase(declare: (place: NewPlace) => void): void {
  describe("sqlite", () => declare(sqlitePlace));
  describeReal("postgres", missing, () => declare(async () => postgresPlace(await sharedPostgres())));
}
