// Migrations: a fresh store equals an upgraded one; a newer one is refused; two may start at once.

import { describe, expect, it } from "vitest";
import { machines } from "../../src/domain/states.ts";
import type { Database } from "../../src/store/driver.ts";
import { migrate, migrations, NewerSchema, schemaVersion } from "../../src/store/migrate.ts";
import { insertConversation } from "../../src/store/tables/conversations.ts";
import { insertEscalation, onEachDatabase } from "../support/store/databases.ts";

/** The schema as the database itself tells it. */
async function dump(db: Database): Promise<unknown> {
  return db.read(async (q) => {
    if (db.kind === "sqlite") return q.all("SELECT type, name, sql FROM sqlite_master ORDER BY type, name");
    return [
      await q.all(
        `SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
         WHERE table_schema = current_schema() ORDER BY table_name, column_name`,
      ),
      await q.all(
        "SELECT replace(indexdef, current_schema(), '') AS index FROM pg_indexes WHERE schemaname = current_schema() ORDER BY indexname",
      ),
      await constraints(db),
    ];
  });
}

/** Table and text of every CHECK constraint. */
async function constraints(db: Database): Promise<{ table: string; text: string }[]> {
  return db.read((q) =>
    q.all(
      db.kind === "sqlite"
        ? "SELECT name AS \"table\", sql AS text FROM sqlite_master WHERE type = 'table'"
        : `SELECT conrelid::regclass::text AS "table", pg_get_constraintdef(oid) AS text FROM pg_constraint
           WHERE connamespace = current_schema()::regnamespace AND contype = 'c' ORDER BY 1, 2`,
    ),
  );
}

const conversation = {
  id: "k",
  channel: "c",
  agent: "a",
  person: "p",
  person_name: null,
  subject: null,
  token: "t",
};

onEachDatabase((newDatabase) => {
  describe("schema", () => {
    it("is empty, then current, then left alone; fresh equals upgraded step by step", async () => {
      const db = await (await newDatabase()).open();
      expect(await schemaVersion(db)).toBe(0);
      expect(await migrate(db)).toEqual(migrations.map((one) => one.name));
      expect(await schemaVersion(db)).toBe(migrations.length);
      const fresh = await dump(db);
      expect(await migrate(db)).toEqual([]);
      expect(await dump(db)).toEqual(fresh);
      const stepwise = await (await newDatabase()).open();
      for (let upTo = 1; upTo <= migrations.length; upTo++) await migrate(stepwise, migrations.slice(0, upTo));
      expect(await dump(stepwise)).toEqual(fresh);
    });

    it("goes from an older schema to the newest without losing rows", async () => {
      const db = await (await newDatabase()).open();
      const added = {
        name: "colour",
        sql: "ALTER TABLE agents ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",
      };
      await migrate(db);
      await db.tx((q) => q.run("INSERT INTO agents (id, settings, read_at) VALUES ('a', '{}', 1)"));
      expect(await migrate(db, [...migrations, added])).toEqual(["colour"]);
      expect(await db.read((q) => q.one("SELECT id, colour FROM agents"))).toEqual({
        id: "a",
        colour: "red",
      });
      const fresh = await (await newDatabase()).open();
      await migrate(fresh, [...migrations, added]);
      expect(await dump(db)).toEqual(await dump(fresh));
    });

    it("continues the numbers of escalations", async () => {
      const db = await (await newDatabase()).open();
      await migrate(db);
      const about = { channel: "c", agent: "a", cause: "topic", topic: null, reason: "r" } as const;
      for (const [at, id] of ["e", "f"].entries()) {
        await db.tx((q) => insertConversation(q, { ...conversation, id, token: id }));
        const escalation = { ...about, id, about: `conversation:${id}`, conversation: id };
        expect((await db.tx((q) => insertEscalation(q, escalation)))?.number).toBe(at + 1);
      }
    });

    it("leaves the old schema whole when a migration fails", async () => {
      const db = await (await newDatabase()).open();
      await migrate(db);
      const before = await dump(db);
      const broken = {
        name: "broken",
        sql: "CREATE TABLE half (id TEXT PRIMARY KEY); ALTER TABLE nowhere ADD COLUMN x TEXT",
      };
      await expect(migrate(db, [...migrations, broken])).rejects.toThrow(/nowhere/);
      expect(await dump(db)).toEqual(before);
      expect(await schemaVersion(db)).toBe(migrations.length);
    });

    it("refuses a newer schema and changes nothing", async () => {
      const db = await (await newDatabase()).open();
      await migrate(db);
      await db.tx((q) => q.run("UPDATE meta SET value = 99 WHERE name = 'schema'"));
      const before = await dump(db);
      await expect(migrate(db)).rejects.toThrow(NewerSchema);
      await expect(migrate(db)).rejects.toThrow(`schema 99, this version knows up to ${migrations.length}`);
      expect(await dump(db)).toEqual(before);
      expect(await schemaVersion(db)).toBe(99);
    });

    it("is migrated once by two that start together", async () => {
      const store = await newDatabase();
      const both = await Promise.all([store.open(), store.open()]);
      const applied = await Promise.all(both.map((db) => migrate(db)));
      // Each may have applied some of them.
      expect(applied.flat().sort()).toEqual(migrations.map((one) => one.name).sort());
    });

    it("allows exactly the states of src/domain/states.ts", async () => {
      const db = await (await newDatabase()).open();
      await migrate(db);
      const found = await constraints(db);
      for (const [table, states] of Object.entries(machines)) {
        const text = found.find((one) => one.table === table && /\bstate\b[^,]*'/.test(one.text))?.text ?? "";
        const check = /CHECK \(+state (?:IN \(|= ANY \(+ARRAY\[)([^\])]*)/.exec(text)?.[1] ?? "";
        expect(new Set([...check.matchAll(/'([a-z]+)'/g)].map((match) => match[1])), table).toEqual(
          new Set(Object.keys(states)),
        );
      }
    });
  });
});
