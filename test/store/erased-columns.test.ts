// Every text column of every table, filled with a mark for an old message and its sender: retention and `erase` leave
// none of them, except in the columns that are listed here with the reason. A new column is filled as well.

import { describe, expect, it } from "vitest";
import { insertPlatformWebhook } from "../../src/escalation/platform-webhook/rows.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Database } from "../../src/store/driver.ts";
import { erasePerson } from "../../src/store/person/erase.ts";
import { findPerson } from "../../src/store/person/find.ts";
import { forget } from "../../src/store/retention.ts";
import { cite, schedulePoll } from "../../src/store/tables/conversations.ts";
import { attachedFiles, insertFiles, type ReadyFile } from "../../src/store/tables/files.ts";
import { giveLinks } from "../../src/store/tables/responders.ts";
import { suppress } from "../../src/store/tables/suppressions.ts";
import {
  addParticipant,
  addTrigger,
  contact,
  conversation,
  draft,
  fresh,
  type NewDatabase,
  onEachDatabase,
  opens,
  storeEvent,
  turn,
} from "../support/store/databases.ts";

const day = 86_400_000;
const person = "canary@customer.example";
/** Contains the platform's id, by which webhooks about a conversation are found. */
const mark = (column: string) => `canary of ${column}, platform-1`;

/** Tables without data of people who write to us. */
const others: Readonly<Record<string, string>> = {
  meta: "numbers of the store",
  leases: "names of nodes and of what they hold",
  installations: "ids of the store",
  secrets: "issued by providers",
  logins: "hashes of operators",
  channels: "cursors, and our addresses",
  send_pauses: "responses of a provider about our account; deleted when it accepts drafts again",
  channel_pauses: "written by an operator or by Bridgehead",
  own_addresses: "our addresses",
  agents: "settings of agents",
  rates: "limits",
  lanes: "our addresses, and names of nodes",
  webhook_registrations: "our registrations at the platform",
};

/** Ids, references and enumerations, on which the other rows of a message depend. */
const structure: Readonly<Record<string, readonly string[]>> = {
  conversations: ["id", "channel", "agent", "platform_id"],
  participants: ["conversation"],
  events: ["channel", "kind", "state", "conversation", "turn"],
  raw_messages: ["channel"],
  attachments: ["channel", "blob"],
  blobs: ["id"],
  citations: ["channel", "conversation", "draft"],
  sessions: ["channel", "conversation", "state"],
  turns: ["id", "conversation", "channel", "kind", "state"],
  replies: ["id", "conversation", "channel", "turn", "kind", "state"],
  files: ["reply", "blob"],
  drafts: ["id", "conversation", "channel", "reply", "state"],
  attempts: ["subject", "kind", "outcome"],
  suppressions: ["channel", "address", "own_address", "source"],
  escalations: ["id", "about", "conversation", "channel", "state"],
  triggers: ["escalation"],
  notification_targets: ["id", "escalation", "way", "channel", "conversation"],
  notifications: ["id", "target", "kind", "reply"],
  polls: ["conversation", "channel"],
  platform_webhooks: ["agent", "id", "kind", "state"],
  actions: ["channel", "conversation"],
};

type Kept = Readonly<Record<string, string>>;

/** What both leave. */
const kept: Kept = {
  "conversations.via": "an address of ours",
  "conversations.token": "random",
  "events.external_id": "detects a message that arrives again",
  "events.fingerprint": "a digest that detects copies",
  "events.code": "an enumeration",
  "attachments.media_type": "no name",
  "attachments.holder": "a node",
  "sessions.id": "the provider's id of a call",
  "sessions.node": "a node",
  "sessions.transferring": "an enumeration",
  "turns.trace": "numbers of messages",
  "turns.session": "the provider's id of a call",
  "turns.question_id": "an id of the platform",
  "replies.platform_id": "an id of the platform",
  "drafts.trace": "numbers of messages",
  "drafts.session": "the provider's id of a call",
  "drafts.external_id": "an id of ours or of the provider",
  "drafts.code": "an enumeration",
  "escalations.agent": "an agent",
  "escalations.cause": "an enumeration",
  "escalations.acknowledged_target": "an id of ours",
  "triggers.key": "detects a trigger that arrives again",
  "triggers.source": "an enumeration",
};

const keptByRetention: Kept = {
  ...kept,
  "events.cited": "the Message-ID, by which a message is found",
  "citations.external_id": "assigns late answers to their conversation",
  "sessions.reason": "an enumeration",
  "suppressions.address": "an opt-out stays until it is withdrawn",
  "suppressions.reason": "an opt-out stays until it is withdrawn",
  "escalations.topic": "a topic of the agent's settings",
};

const keptByErase: Kept = {
  ...kept,
  "notification_targets.person": "the responder",
  "notification_targets.name": "the responder",
  "notification_targets.address": "the responder",
  "actions.action": "what an operator did, without its text",
  "actions.actor": "the operator",
  "actions.draft": "an id of ours",
};

/** Text columns, and columns with times, as `table.column`. */
async function columnsOf(db: Database): Promise<{ readonly texts: string[]; readonly times: string[] }> {
  const rows = await db.read((q) =>
    q.all<{ place: string; type: string }>(
      `SELECT m.name || '.' || c.name AS place, lower(c.type) AS type FROM sqlite_master m, pragma_table_info(m.name) c -- only: sqlite
       WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' -- only: sqlite
       SELECT table_name || '.' || column_name AS place, data_type AS type FROM information_schema.columns -- only: postgres
       WHERE table_schema = current_schema() -- only: postgres`,
    ),
  );
  const places = (condition: (row: { place: string; type: string }) => boolean) =>
    rows.filter(condition).map(({ place }) => place);
  return {
    texts: places(({ type }) => type === "text").filter((place) => !(parts(place)[0] in others)),
    times: places(({ place, type }) => type !== "text" && place.endsWith("_at")),
  };
}

const parts = (place: string): [string, string] => place.split(".") as [string, string];
const isFilled = (place: string): boolean => {
  const [table, column] = parts(place);
  return !(table in others) && structure[table]?.includes(column) !== true;
};

/** A completed message with everything that can belong to it, and an outbound conversation with the same person. */
async function withEverything(newDatabase: NewDatabase): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    const file = { name: "", mediaType: "b/c", size: 1, blob: { id: "blob", bytes: Buffer.from("x") }, ref: null };
    const event = await storeEvent(q, "1", {
      sender: person,
      raw: { id: "raw", bytes: Buffer.from("raw") },
      attachments: [{ ...file, named: true }],
    });
    for (const id of ["k", "outbound"]) {
      await conversation(q, id, "c", person);
      await turn(q, `t-${id}`, id, { person });
      await draft(q, `d-${id}`, id);
    }
    await q.run("UPDATE conversations SET platform_id = 'platform-1' WHERE id = 'k'");
    await q.run("UPDATE events SET state = 'routed', conversation = 'k', turn = 't-k'");
    await addParticipant(q, "k", person);
    await cite(q, "c", "cited", "k", null);
    await schedulePoll(q, { id: "k", channel: "c" }, day);
    await insertFiles(q, "rd-k", (await attachedFiles(q, event)) as ReadyFile[]);
    await q.run(
      `INSERT INTO sessions (channel, id, conversation, state, node, openings, opened_at)
       VALUES ('c', 'call', 'k', 'closed', 'n', 1, now_ms())`,
    );
    for (const subject of ["t-k", "d-k", "t-outbound"])
      await q.run(
        "INSERT INTO attempts (subject, number, kind, node, token, started_at) VALUES ($1, 1, 'ask', 'n', 1, now_ms())",
        subject,
      );
    await suppress(q, "c", person, "opted out");
    await opens(q, "e", { about: "conversation:k", conversation: "k" });
    await addTrigger(q, { key: "key", escalation: "e", source: "mode", detail: null });
    await contact(q, "dora", "e");
    await giveLinks(q, [{ target: "dora", link: "hash" }], day);
    await q.run(
      `INSERT INTO notifications (id, target, kind, subject, made_at)
       VALUES ('acknowledged', 'dora', 'acknowledged', '', now_ms())`,
    );
    await q.run("UPDATE escalations SET state = 'closed', closed_at = now_ms(), due_at = NULL");
    await insertPlatformWebhook(q, { agent: "agent", id: "w", kind: "escalation", body: "x" }, null);
    await q.run("UPDATE platform_webhooks SET state = 'done', due_at = NULL");
    await q.run(
      `INSERT INTO actions (action, actor, channel, conversation, event, made_at)
       VALUES ('release', 'ann', 'c', 'k', NULL, now_ms()), ('drop', 'ann', 'c', NULL, $1, now_ms())`,
      event,
    );
  });
  return db;
}

/** Fills the columns with their marks, completes all work, and makes everything old. Returns the filled columns. */
async function fill(db: Database): Promise<string[]> {
  const { texts, times } = await columnsOf(db);
  const filled = texts.filter(isFilled);
  await db.tx(async (q) => {
    for (const place of filled) {
      const [table, column] = parts(place);
      // Several rows, and unique values.
      const own = { conversations: "id", turns: "id", drafts: "id", replies: "id" }[table];
      const suffix = own === undefined ? "" : ` || ${own}`;
      await q.run(`UPDATE ${table} SET ${column} = CAST($1 AS TEXT)${suffix}`, mark(place));
    }
    await q.run("UPDATE conversations SET platform_id = 'platform-2' WHERE id <> 'k'");
    // What the person has not asked.
    await q.run("UPDATE turns SET question = '' WHERE id = 't-outbound'");
    await q.run("UPDATE turns SET state = 'answered', open = 0");
    await q.run("UPDATE replies SET state = 'composed'");
    await q.run("UPDATE drafts SET state = 'sent', open = 0");
    for (const place of times) {
      const [table, column] = parts(place);
      await q.run(`UPDATE ${table} SET ${column} = ${column} - $1`, 400 * day);
    }
  });
  return filled;
}

/** Returns the text columns with a mark or the person's address. */
async function marked(db: Database): Promise<string[]> {
  const { texts } = await columnsOf(db);
  const found: string[] = [];
  for (const place of texts) {
    const [table, column] = parts(place);
    const row = await db.read((q) => q.one(`SELECT 1 FROM ${table} WHERE ${column} LIKE '%canary%' LIMIT 1`));
    if (row !== undefined) found.push(place);
  }
  return found.sort();
}

const bytesIn = (db: Database) =>
  db.read(async (q) => [await q.all("SELECT event FROM raw_messages"), await q.all("SELECT id FROM blobs")]);

onEachDatabase((newDatabase) => {
  describe("text columns", () => {
    it("are erased by retention, except those that are listed", async () => {
      const db = await withEverything(newDatabase);
      const filled = await fill(db);
      expect(await marked(db)).toEqual([...filled, "suppressions.address"].sort());
      for (let counts: number[] = [1]; counts.some((count) => count > 0); )
        counts = Object.values(
          await db.tx((q) =>
            forget(q, { rawMs: 30 * day, eventsMs: 365 * day }, standardTiming.upkeep.retentionRecheck),
          ),
        );
      expect(await marked(db)).toEqual(Object.keys(keptByRetention).sort());
      expect(await bytesIn(db)).toEqual([[], []]);
    });

    it("are erased with the person, except those that are listed", async () => {
      const db = await withEverything(newDatabase);
      const records = await db.read((q) => findPerson(q, [person]));
      await fill(db);
      await erasePerson(db, records, () => undefined, standardTiming);
      expect(await marked(db)).toEqual(Object.keys(keptByErase).sort());
      expect(await bytesIn(db)).toEqual([[], []]);
    });

    it("have the names that are listed here", async () => {
      const { texts } = await columnsOf(await fresh(newDatabase));
      const listed = Object.entries(structure).flatMap(([table, columns]) => columns.map((one) => `${table}.${one}`));
      expect(listed.filter((place) => !texts.includes(place))).toEqual([]);
    });
  });
});
