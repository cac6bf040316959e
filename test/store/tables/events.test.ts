// Events, cursors, conversations: what stages accept and route stand on.

import type { Cursor } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { insertEvents, moveCursor } from "../../../src/pipeline/accept/rows.ts";
import type { Query } from "../../../src/store/driver.ts";
import { hastenDue } from "../../../src/store/due.ts";
import { takeLease } from "../../../src/store/leases.ts";
import { bindPlatform, isBound, readConversation, unbindPlatform } from "../../../src/store/tables/conversations.ts";
import {
  elderEvents,
  ensureChannel,
  fairEvents,
  knownEvents,
  lockChannel,
  postponeChannel,
  postponeEvent,
  readCursor,
  recordOutcome,
  storedEvents,
} from "../../../src/store/tables/events.ts";
import {
  addParticipant,
  conversation,
  dueChannels,
  event,
  fresh,
  insertEvent,
  onEachDatabase,
  participantsOf,
  stateOf,
  storeEvent,
} from "../../support/store/databases.ts";

const bytes = (text: string) => ({ id: `sha-${text}`, bytes: Buffer.from(text) });

onEachDatabase((newDatabase) => {
  describe("intake", () => {
    it("stores an id permanently once in its channel", async () => {
      const db = await fresh(newDatabase);
      expect(await db.tx((q) => insertEvent(q, event("1")))).toBe(true);
      expect(await db.tx((q) => insertEvent(q, event("1", { body: '"other"' })))).toBe(false);
      expect(await db.tx((q) => insertEvent(q, event("1", { channel: "d" })))).toBe(true);
      const [row] = await db.read((q) => storedEvents(q, "c", 10));
      expect(row).toMatchObject({
        state: "stored",
        kind: "message",
        body: '{"kind":"message"}',
        attempts: 0,
      });
      await db.tx((q) => recordOutcome(q, row?.id ?? 0, { state: "ignored", code: "x" }));
      expect(await db.tx((q) => insertEvent(q, event("1")))).toBe(false);
      expect(await db.read((q) => storedEvents(q, "c", 10))).toEqual([]);
    });

    it("knows a copy by its fingerprint, and gives the copy an outcome too", async () => {
      const db = await fresh(newDatabase);
      expect(await db.tx((q) => insertEvent(q, event("1", { fingerprint: "f" })))).toBe(true);
      expect(await db.tx((q) => insertEvent(q, event("2", { fingerprint: "f", raw: bytes("raw") })))).toBe(false);
      expect(await db.tx((q) => insertEvent(q, event("2", { fingerprint: "g" })))).toBe(false);
      expect(await db.tx((q) => insertEvent(q, event("3", { fingerprint: "f", channel: "d" })))).toBe(true);
      const copy = await db.read((q) =>
        q.one("SELECT state, code FROM events WHERE channel = 'c' AND external_id = '2'"),
      );
      expect(copy).toEqual({ state: "ignored", code: "duplicate" });
      expect(await db.read((q) => q.all("SELECT event FROM raw_messages"))).toEqual([]);
      expect(await db.read((q) => knownEvents(q, "c", ["1", "2", "3"]))).toEqual(new Set(["1", "2"]));
    });

    it("recognizes duplicates and copies within one batch, and keeps the order", async () => {
      const db = await fresh(newDatabase);
      const batch = [
        ...Array.from({ length: 41 }, (_, at) => event(`e${at}`, { fingerprint: `f${at}` })),
        event("e3", { fingerprint: "f3" }),
        event("copy", { fingerprint: "f5", raw: bytes("raw"), sender: "b@example.org" }),
        event("nul\0", { raw: bytes("raw") }),
      ];
      const stored = await db.tx((q) => insertEvents(q, batch));
      expect(stored).toEqual([...Array.from({ length: 41 }, () => true), false, false, true]);
      const rows = await db.read((q) => storedEvents(q, "c", 100));
      const ids = await db.read((q) =>
        q.all<{ external_id: string }>("SELECT external_id FROM events WHERE state = 'stored' ORDER BY id"),
      );
      expect(rows).toHaveLength(42);
      expect(ids.map((row) => row.external_id.replace("\0", ""))).toEqual([
        ...Array.from({ length: 41 }, (_, at) => `e${at}`),
        "nul",
      ]);
      expect(await db.tx((q) => insertEvents(q, batch))).toEqual(batch.map(() => false));
    });

    it("does not move the cursor for a reader that has lost its lease", async () => {
      const db = await fresh(newDatabase);
      const token = (await db.tx((q) => takeLease(q, "reader", "n", 60_000))) ?? 0;
      const at = (cursor: string, lease: number) => ({
        cursor: cursor as Cursor,
        reader: { lease: "reader", token: lease },
      });
      await db.tx((q) => moveCursor(q, "c", at("10", token)));
      await expect(db.tx((q) => moveCursor(q, "c", at("11", token + 1)))).rejects.toThrow("another node");
      expect(await db.read((q) => readCursor(q, "c"))).toBe("10");
    });

    it("accepts the same event from many at once, once", async () => {
      const db = await fresh(newDatabase);
      const results = await Promise.all(Array.from({ length: 20 }, () => db.tx((q) => insertEvent(q, event("1")))));
      expect(results.filter(Boolean)).toHaveLength(1);
    });

    it("keeps the bytes of files once, however often they come", async () => {
      const db = await fresh(newDatabase);
      const attachments = [
        { name: "a.pdf", mediaType: "application/pdf", size: 3, blob: bytes("pdf"), ref: null, named: true },
        { name: "b.png", mediaType: "image/png", size: null, blob: null, ref: '{"at":1}', named: true },
      ];
      const id = await db.tx((q) => storeEvent(q, "1", { raw: bytes("raw"), attachments }));
      await db.tx((q) => storeEvent(q, "2", { raw: bytes("raw"), attachments }));
      const named = "SELECT name, media_type, size FROM attachments WHERE event = $1 AND named = 1 ORDER BY position";
      expect(await db.read((q) => q.all(named, id))).toEqual([
        { name: "a.pdf", media_type: "application/pdf", size: 3 },
        { name: "b.png", media_type: "image/png", size: null },
      ]);
      const blobs = await db.read((q) => q.all<{ bytes: Uint8Array }>("SELECT bytes FROM blobs ORDER BY id"));
      expect(blobs.map((row) => Buffer.from(row.bytes).toString())).toEqual(["pdf"]);
      const raw = await db.read((q) =>
        q.all<{ digest: string; bytes: Uint8Array }>("SELECT digest, bytes FROM raw_messages ORDER BY event"),
      );
      expect(raw.map((row) => [row.digest, Buffer.from(row.bytes).toString()])).toEqual([
        ["sha-raw", "raw"],
        ["sha-raw", "raw"],
      ]);
    });

    it("stores events and cursor together or not at all", async () => {
      const db = await fresh(newDatabase);
      const token = (await db.tx((q) => takeLease(q, "reader", "n", 60_000))) ?? 0;
      const reader = { lease: "reader", token };
      const at = (cursor: string) => ({ cursor: cursor as Cursor, reader });
      await db.tx((q) => moveCursor(q, "c", at("10")));
      await expect(
        db.tx(async (q) => {
          await insertEvent(q, event("1"));
          await moveCursor(q, "c", at("11"));
          throw new Error("the process died here");
        }),
      ).rejects.toThrow("died here");
      expect(await db.read((q) => knownEvents(q, "c", ["1"]))).toEqual(new Set());
      expect(await db.read((q) => readCursor(q, "c"))).toBe("10");
      await db.tx((q) => ensureChannel(q, "c"));
      expect(await db.read((q) => readCursor(q, "c"))).toBe("10");
      expect(await db.read((q) => readCursor(q, "unheard-of"))).toBeNull();
    });

    it("hands out no more than 16 MB of stored events at once", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (const id of ["1", "2", "3"]) await storeEvent(q, id);
        await q.run("UPDATE events SET body = $1", JSON.stringify({ text: "x".repeat(9_000_000) }));
      });
      const read = () => db.read((q) => storedEvents(q, "c", 9));
      const [first, second, ...others] = await read();
      expect([first?.id !== undefined, second?.id !== undefined, others]).toEqual([true, true, []]);
      await db.tx((q) => recordOutcome(q, first?.id ?? 0, { state: "ignored" }));
      expect(await read()).toHaveLength(2);
    });

    it("hands stored events out in the order of arrival, and only those due", async () => {
      const db = await fresh(newDatabase);
      const ids = await db.tx(async (q) => {
        const made = [];
        for (const id of ["z", "m", "a", "k"]) made.push(await storeEvent(q, id));
        await storeEvent(q, "other", { channel: "d" });
        return made;
      });
      expect((await db.read((q) => storedEvents(q, "c", 3))).map((row) => row.id)).toEqual(ids.slice(0, 3));
      await db.tx((q) => postponeEvent(q, ids[0] ?? 0, 60_000, 5, "later"));
      expect((await db.read((q) => storedEvents(q, "c", 9))).map((row) => row.id)).toEqual(ids.slice(1));
      expect(await db.read((q) => dueChannels(q, "events"))).toEqual(["c", "d"]);
      // A postponed event that is due again precedes the later ones.
      await db.tx((q) => q.run("UPDATE events SET due_at = now_ms() - 1"));
      expect((await db.read((q) => storedEvents(q, "c", 2))).map((row) => row.id)).toEqual(ids.slice(0, 2));
      await db.tx(async (q) => {
        for (const id of ids.slice(1)) await recordOutcome(q, id, { state: "ignored" });
      });
      expect(await db.read((q) => dueChannels(q, "events"))).toEqual(["c", "d"]);
      await db.tx((q) => postponeEvent(q, ids[0] ?? 0, 60_000, 5, "later"));
      expect(await db.read((q) => dueChannels(q, "events"))).toEqual(["d"]);
    });

    it("gives an event up after as many failures as it is allowed", async () => {
      const db = await fresh(newDatabase);
      const id = await db.tx((q) => storeEvent(q, "1"));
      for (const state of ["stored", "stored", "failed"]) {
        await db.tx((q) => postponeEvent(q, id, 0, 3, "no"));
        expect(await db.read((q) => stateOf(q, "events", id))).toBe(state);
      }
    });

    it("orders what waits for capacity, with new messages, and postpones it without writing its rows", async () => {
      const db = await fresh(newDatabase);
      const stores = (...ids: readonly string[]) =>
        db.tx(async (q) => {
          for (const id of ids) await storeEvent(q, id);
          await q.run(`UPDATE events SET queue = substr(external_id, 1, 1),
            preferred = CASE WHEN external_id LIKE 'p%' THEN 1 ELSE 0 END`);
        });
      /** Returns the number of rows written. */
      const postpones = (preferred: boolean) =>
        db.tx(async (q) => {
          let written = 0;
          const write: Query["write"] = async (sql, ...values) => void (written += await q.run(sql, ...values));
          await postponeChannel({ ...q, write }, "c", 60_000, preferred);
          return written;
        });
      const ordered = (preferredOnly: boolean) =>
        db.read(async (q) => {
          const rows = await fairEvents(q, "c", 60_000, 6, preferredOnly);
          const names = await q.all<{ id: number; name: string }>("SELECT id, external_id AS name FROM events");
          return rows.map(({ id }) => names.find((one) => one.id === id)?.name);
        });
      await stores("a1", "a2", "a3", "b1", "p1", "p2");
      expect(await postpones(false)).toBe(1 + 4);
      expect(await db.read((q) => storedEvents(q, "c", 9))).toMatchObject([{ capped: 1 }, { capped: 1 }]);
      expect(await postpones(true)).toBe(1 + 2);
      await stores("b2", "d1", "p3");
      expect(await ordered(false)).toEqual(["p1", "p2", "p3", "a1", "b1", "d1"]);
      expect(await ordered(true)).toEqual(["p1", "p2", "p3"]);
      // No more is read at once than memory should hold.
      await db.tx((q) =>
        q.run("UPDATE events SET body = $1 WHERE external_id LIKE 'p%'", JSON.stringify("x".repeat(9_000_000))),
      );
      expect(await ordered(false)).toEqual(["p1", "p2"]);
      expect(await postpones(true)).toBe(1 + 3);
      expect(await postpones(true)).toBe(1);
      // They are looked at when the time of their channel comes.
      expect(await db.read((q) => dueChannels(q, "events"))).toEqual([]);
      await db.tx((q) => q.run("UPDATE channels SET others_until = now_ms()"));
      expect(await db.read((q) => dueChannels(q, "events"))).toEqual(["c"]);
      await db.tx((q) => q.run("UPDATE events SET state = 'held' WHERE preferred = 0"));
      expect(await db.read((q) => dueChannels(q, "events"))).toEqual([]);
      if (db.kind === "postgres") return;
      await db.tx((q) => hastenDue(q, 60_000));
      expect(await db.read((q) => dueChannels(q, "events"))).toEqual(["c"]);
    });

    it("reads no more of the earlier messages of a conversation than memory should hold", async () => {
      const db = await fresh(newDatabase);
      const last = await db.tx(async (q) => {
        await conversation(q, "k");
        await addParticipant(q, "k", "b@example.org");
        for (const id of ["e1", "e2", "e3", "e4", "other"]) await storeEvent(q, id);
        await q.run("UPDATE events SET sender = 'b@example.org' WHERE external_id = 'e2'");
        await q.run("UPDATE events SET sender = 'x@example.org' WHERE external_id = 'other'");
        await postponeChannel(q, "c", 60_000, true);
        return storeEvent(q, "last");
      });
      const elders = async () => (await db.read((q) => elderEvents(q, "c", last, "k"))).map(({ id }) => last - id);
      expect(await elders()).toEqual([5, 4, 3, 2]);
      const large = JSON.stringify("x".repeat(9_000_000));
      await db.tx((q) => q.run("UPDATE events SET body = $1 WHERE external_id <> 'e4'", large));
      expect(await elders()).toEqual([5, 4]);
    });

    it("locks a channel's pure stages for one transaction, without waiting", async () => {
      const db = await fresh(newDatabase);
      expect(await db.tx((q) => lockChannel(q, "c"))).toBe(true);
      // SQLite has one writer, so nothing is locked.
      if (db.kind === "sqlite") return;
      expect(await db.tx((q) => lockChannel(q, "unheard-of"))).toBe(false);
      await db.tx(async (q) => {
        await lockChannel(q, "c");
        expect(await db.tx((other) => lockChannel(other, "c"))).toBe(false);
      });
      expect(await db.tx((q) => lockChannel(q, "c"))).toBe(true);
    });

    it("keeps who takes part, in lower case, and to what the conversation is bound", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k1");
        for (const address of ["A@Example.org", "a@example.org", "b@example.org"])
          await addParticipant(q, "k1", address);
        await bindPlatform(q, "k1", "p1");
      });
      expect(await db.read((q) => participantsOf(q, "k1"))).toEqual(new Set(["a@example.org", "b@example.org"]));
      expect(await db.read((q) => isBound(q, "p1"))).toBe(true);
      await db.tx((q) => bindPlatform(q, "k1", "p2"));
      expect(await db.read((q) => isBound(q, "p1"))).toBe(false);
      expect((await db.read((q) => readConversation(q, "k1"))).platform_id).toBe("p2");
      await db.tx((q) => unbindPlatform(q, "k1"));
      expect((await db.read((q) => readConversation(q, "k1"))).platform_id).toBeNull();
      await expect(db.read((q) => readConversation(q, "nope"))).rejects.toThrow("there is none");
    });
  });
});
