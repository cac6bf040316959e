// A store for a test, of either kind: a real file, or a schema of a real server. Kept when the test fails.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFailed, onTestFinished } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { insertEvents, type NewEvent } from "../../../src/pipeline/accept/rows.ts";
import { recordSending } from "../../../src/pipeline/send/rows.ts";
import type { Database, Query, Work } from "../../../src/store/driver.ts";
import { type ClosedLanes, dueWork, LaneHeads } from "../../../src/store/due.ts";
import { type Direction, type Lease } from "../../../src/store/lanes.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { addParticipants, bindPlatform, cite, insertConversation } from "../../../src/store/tables/conversations.ts";
import {
  changeDraft,
  changeReply,
  type DraftChange,
  enqueueDraft,
  insertReply,
  readDraft,
} from "../../../src/store/tables/drafts.ts";
import {
  addTriggers,
  type EscalationRow,
  insertEscalations,
  type NewEscalation,
  type NewTrigger,
} from "../../../src/store/tables/escalations.ts";
import { ensureChannel, recordOutcome } from "../../../src/store/tables/events.ts";
import { addNotifications, addTargets, type NewNotification } from "../../../src/store/tables/responders.ts";
import {
  changeTurn,
  endAttempt,
  enqueueTurn,
  readTurn,
  recordAsking,
  type TurnChange,
  type TurnRow,
} from "../../../src/store/tables/turns.ts";
import type { Table } from "../../../src/store/transitions.ts";
import { describeReal } from "../machine/debian.ts";
import { needPostgres, type Postgres, type SharedPostgres, sharedPostgres } from "./postgres.ts";

export interface TestDatabase {
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
export type NewDatabase = () => Promise<TestDatabase>;

/** Closed, and removed unless the test failed, when it ends. */
function keeping(where: string, remove: () => unknown, open: () => Promise<Database>): TestDatabase {
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

export async function sqliteDatabase(now: () => number = Date.now): Promise<TestDatabase> {
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
export async function postgresDatabase(server: Postgres | SharedPostgres): Promise<TestDatabase> {
  const schema = await server.schema();
  let copy: string | undefined;
  const open = () => openPostgres(copy ?? server.url, { ...(copy === undefined && { schema }), connections: 4 });
  const remove = async () => {
    await server.dropSchema(schema);
    if (copy !== undefined && "dropCopy" in server) await server.dropCopy(copy);
  };
  const place = { schema, ...keeping(schema, remove, open) };
  return "copy" in server ? { ...place, fill: async () => void (copy = await server.copy()) } : place;
}

/** A place with a migrated store. */
export async function migrated(newDatabase: NewDatabase): Promise<TestDatabase> {
  const at = await newDatabase();
  if (at.fill !== undefined) await at.fill();
  else {
    const db = await at.open();
    await migrate(db);
    await db.close();
  }
  return at;
}

/** A migrated store with channel `c`, and with what `write` writes. */
export async function fresh(newDatabase: NewDatabase, write?: (q: Query) => Promise<unknown>): Promise<Database> {
  const db = await (await migrated(newDatabase)).open();
  await db.tx((q) => ensureChannel(q, "c"));
  if (write) await db.tx(write);
  return db;
}

/** Like `fresh`, on PostgreSQL, with that clock instead of the server's. */
export async function clockedPostgres(now: () => number): Promise<Database> {
  const db = await fresh(async () => postgresDatabase(await sharedPostgres()));
  let set = now();
  await db.tx(async (q) => {
    await q.run("CREATE TABLE test_clock (ms BIGINT)");
    await q.run("INSERT INTO test_clock VALUES ($1)", set);
    const body = "$$BEGIN RETURN (SELECT ms FROM test_clock); END$$";
    await q.run(`CREATE OR REPLACE FUNCTION now_ms() RETURNS BIGINT LANGUAGE plpgsql STABLE AS ${body}`);
  });
  const sets = async () => {
    const at = now();
    if (at === set) return;
    set = at;
    await db.tx((q) => q.run("UPDATE test_clock SET ms = $1", at));
  };
  return new Proxy(db, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      const call = (...args: unknown[]): unknown => Reflect.apply(value, target, args);
      return name === "tx" || name === "read" ? async (...args: unknown[]) => sets().then(() => call(...args)) : call;
    },
  });
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

export async function conversation(q: Query, id: string, channel = "c", person = "a@example.org"): Promise<string> {
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
  over: { receivedAt?: number; person?: string; channel?: string; replyTo?: string; untagged?: string } = {},
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
    replyTo: over.replyTo ?? null,
    untagged: over.untagged ?? null,
    receivedAt: over.receivedAt ?? Date.now(),
  });
}

/** A responder's text in the conversation of the only turn. Returns the conversation. */
export async function relayedTurn(q: Query, id: string, receivedAt: number): Promise<string> {
  const [row] = await q.all<{ conversation: string; person: string; address: string }>(
    "SELECT conversation, person, address FROM turns",
  );
  if (!row) throw new Error("there is no turn");
  const words = { event: null, question: "I take over.", context: null, receivedAt };
  await enqueueTurn(q, { ...row, ...words, id, channel: "c", kind: "relayed" });
  return row.conversation;
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

export async function storeEvent(q: Query, externalId: string, over: Partial<NewEvent> = {}): Promise<number> {
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

/** Puts a row into an initial state, from any state. */
export async function put(q: Query, table: Table | "conversations", id: string, set: string): Promise<void> {
  await q.run(`UPDATE ${table} SET ${set} WHERE id = $1`, id);
}

/** Changes the turn at the end of an attempt, from any state. */
export async function concludeTurn(q: Query, id: string, change: TurnChange): Promise<void> {
  await put(q, "turns", id, `state = '${change.state === "asking" ? "waiting" : "asking"}'`);
  await changeTurn(q, id, change);
}

/** Changes the draft at the end of an attempt, from any state. */
export async function concludeDraft(q: Query, id: string, change: DraftChange): Promise<void> {
  await put(q, "drafts", id, `state = '${change.state === "sending" ? "queued" : "sending"}'`);
  await changeDraft(q, id, change);
}

/** Changes the reply when it has been composed, from any state. */
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

/** Returns the channels with due work of that kind for the node. */
export const dueChannels = async (q: Query, work: Work, node = "n"): Promise<string[]> => [
  ...((await dueWork(q, node)).get(work) ?? []),
];

/** Leases lanes like `LaneHeads`, without their heads. */
export async function leaseLanes(
  q: Query,
  direction: Direction,
  channel: string,
  holder: string,
  leaseMs: number,
  limit: number,
  closed?: ClosedLanes,
): Promise<Lease[]> {
  const claim = { channel, holder, leaseMs, limit, clock: systemClock, ...(closed && { closed }) };
  const held = await new LaneHeads(direction, "lanes.conversation").lease(q, claim);
  return held.map(({ lease }) => lease);
}

export async function participantsOf(q: Query, id: string): Promise<Set<string>> {
  const rows = await q.all<{ address: string }>("SELECT address FROM participants WHERE conversation = $1", id);
  return new Set(rows.map(({ address }) => address));
}

// The same tests on both databases.

const missing = await needPostgres();

/** Declares the tests twice. `place` gives the running test an empty store of its own. */
export function onEachDatabase(declare: (newDatabase: NewDatabase) => void): void {
  describe("sqlite", () => declare(sqliteDatabase));
  describeReal("postgres", missing, () => declare(async () => postgresDatabase(await sharedPostgres())));
}

// Single rows of escalations.

/** Opens one; null when there is one about its subject, or the trigger `key` was recorded. */
export const insertEscalation = async (
  q: Query,
  row: Omit<NewEscalation, "key">,
  key = "",
): Promise<EscalationRow | null> => (await insertEscalations(q, [{ ...row, key }]))[0] ?? null;

/** False when the key was recorded before. */
export const addTrigger = async (q: Query, trigger: NewTrigger): Promise<boolean> =>
  (await addTriggers(q, [trigger])) === 1;

/** Due in `inMs` milliseconds. False for a duplicate. */
export const addNotification = async (
  q: Query,
  notification: Omit<NewNotification, "inMs">,
  inMs: number,
): Promise<boolean> => (await addNotifications(q, [{ ...notification, inMs }])) === 1;

/** Opens one, about channel `c` by default. Null when one is open already. */
export const opens = (q: Query, id: string, over: Partial<EscalationRow> = {}) =>
  insertEscalation(q, {
    id,
    about: "channel:c:cap",
    conversation: null,
    channel: "c",
    agent: "agent",
    cause: "cap",
    topic: null,
    reason: "a cap",
    ...over,
  });

/** The contact `id` of escalation `escalation`. */
export const contact = (q: Query, id: string, escalation: string, address = `${id}@example.org`) =>
  addTargets(q, [{ id, escalation, person: id, name: `Name ${id}`, way: "email", address, channel: "c" }]);

export const notice = (
  q: Query,
  id: string,
  of: string,
  kind: "opened" | "reminder" | "message" | "customer" = "opened",
  inMs = 0,
) => addNotification(q, { id, target: of, kind, subject: "", text: null }, inMs);

// A conversation with a history, for what lists and finds it.

const body = (text: string) => JSON.stringify({ kind: "message", from: { name: "Anna" }, text });

/** A mail that was asked twice, answered, sent at the second attempt and delivered; a refused mail; an escalation. */
export async function withConversation(
  newDatabase: NewDatabase,
): Promise<{ db: Database; asked: number; refused: number }> {
  const db = await fresh(newDatabase);
  return db.tx(async (q) => {
    const asked = await storeEvent(q, "INBOX/1/7", {
      cited: "<hello@example.org>",
      subject: "Lieferung Möbel",
      body: body("Where is it?\u001b[2J"),
      raw: { id: "raw", bytes: Buffer.from("raw bytes") },
    });
    await conversation(q, "k1");
    await bindPlatform(q, "k1", "conv_1");
    await turn(q, "t1", "k1");
    await recordOutcome(q, asked, { state: "routed", conversation: "k1", turn: "t1" });
    for (const [outcome, detail] of [
      ["deferred", "503 Service Unavailable"],
      ["sent", null],
    ] as const) {
      await put(q, "turns", "t1", "state = 'waiting'");
      expect(await recordAsking(q, await readTurn(q, "t1"), "node", 1)).toBe(true);
      await endAttempt(q, "t1", outcome, detail);
    }
    await changeTurn(q, "t1", { state: "answered", open: 0, questionId: "msg_question" });
    await draft(q, "d1", "k1");
    await q.run("UPDATE replies SET turn = 't1', state = 'composed', platform_id = 'msg_answer'");
    for (const [outcome, detail] of [
      ["deferred", "451 4.7.1 try again later"],
      ["sent", "250 2.0.0 OK queued as 4F1"],
    ] as const) {
      await put(q, "drafts", "d1", "state = 'queued'");
      const row = await readDraft(q, "d1");
      expect(row && (await recordSending(q, row, "node", 1))).toBe(true);
      await endAttempt(q, "d1", outcome, detail);
    }
    await concludeDraft(q, "d1", { state: "sent", open: 0, externalId: "<reply@bridge.example>" });
    await cite(q, "c", "<reply@bridge.example>", "k1", "d1");
    const receipt = await storeEvent(q, "receipt", {
      kind: "delivery",
      sender: null,
      subject: null,
      body: JSON.stringify({ kind: "delivery", about: { key: "d1" }, state: "delivered" }),
    });
    await recordOutcome(q, receipt, { state: "routed", conversation: "k1", reason: "2.1.5 delivered" });
    await opens(q, "e1", { about: "conversation:k1", conversation: "k1", reason: "asked for a human" });
    await addTrigger(q, { key: "s", escalation: "e1", source: "note", detail: "Dora: calls back" });
    await contact(q, "o", "e1");
    await notice(q, "n", "o");
    const refused = await storeEvent(q, "INBOX/1/8", {
      cited: "<news@shop.example>",
      sender: "news@shop.example",
      subject: "50%_off",
    });
    await recordOutcome(q, refused, { state: "ignored", code: "bulk", reason: "List-Id header" });
    return { db, asked, refused };
  });
}
