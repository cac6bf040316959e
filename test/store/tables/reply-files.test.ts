// Files that go out with a person's answer: read by their reply alone, and kept for as long as a draft may need them.

import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { Database } from "../../../src/store/driver.ts";
import { dropDraft, resendDraft } from "../../../src/store/operators/outbox.ts";
import { forget } from "../../../src/store/retention.ts";
import { recordOutcome } from "../../../src/store/tables/events.ts";
import { attachedFiles, filesOf, insertFiles, type ReadyFile, readFile } from "../../../src/store/tables/files.ts";
import {
  concludeDraft,
  concludeReply,
  conversation,
  draft,
  fresh,
  type NewDatabase,
  onEachDatabase,
  stateOf,
  storeEvent,
} from "../../support/store/databases.ts";

const day = 86_400_000;
const blob = (id: string) => ({ id, bytes: Buffer.from(`bytes of ${id}`) });
const attached = (name: string, over: object = {}) => ({
  name,
  mediaType: "b/c",
  size: 9,
  blob: blob(name),
  ref: null,
  named: false,
  meant: true,
  ...over,
});
const isReady = (file: { blob: string | null }): file is ReadyFile => file.blob !== null;

/** A message with files, and draft `d` of a reply with those of them that are there. */
async function answered(newDatabase: NewDatabase): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    const attachments = [
      attached("one"),
      attached("logo", { meant: false }),
      attached("two"),
      attached("lost", { blob: null, reason: "too large" }),
    ];
    const event = await storeEvent(q, "e", { attachments });
    await recordOutcome(q, event, { state: "routed" });
    await conversation(q, "k");
    await draft(q, "d", "k");
    await concludeReply(q, "rd", "composed", null);
    await insertFiles(q, "rd", (await attachedFiles(q, event)).filter(isReady));
  });
  return db;
}

/** Everything there is lies so many days back. */
const ages = (db: Database, days: number) =>
  db.tx(async (q) => {
    const ms = days * day;
    await q.run("UPDATE events SET received_at = received_at - $1", ms);
    await q.run("UPDATE blobs SET stored_at = stored_at - $1", ms);
    await q.run("UPDATE replies SET created_at = created_at - $1", ms);
    await q.run("UPDATE drafts SET updated_at = updated_at - $1", ms);
  });
async function clean(db: Database): Promise<number> {
  const { files } = await db.tx((q) =>
    forget(q, { rawMs: day, eventsMs: 9 * day }, standardTiming.upkeep.retentionRecheck),
  );
  await db.tx((q) => forget(q, { rawMs: day, eventsMs: 9 * day }, standardTiming.upkeep.retentionRecheck));
  return files;
}
const blobs = async (db: Database) =>
  (await db.read((q) => q.all<{ id: string }>("SELECT id FROM blobs ORDER BY id"))).map(({ id }) => id);
const read = async (db: Database, reply: string, ref: string) => {
  const bytes = await db.read((q) => readFile(q, reply, ref));
  return bytes === null ? null : Buffer.from(bytes).toString();
};

onEachDatabase((newDatabase) => {
  describe("files of answers", () => {
    it("are those that were meant, with why one is not there", async () => {
      const db = await answered(newDatabase);
      expect(await db.read((q) => attachedFiles(q, 1))).toEqual([
        { name: "one", media_type: "b/c", size: 9, blob: "one", reason: null },
        { name: "two", media_type: "b/c", size: 9, blob: "two", reason: null },
        { name: "lost", media_type: "b/c", size: 9, blob: null, reason: "too large" },
      ]);
      expect((await db.read((q) => filesOf(q, "rd"))).map(({ name }) => name)).toEqual(["one", "two"]);
    });

    it("are read by the reply they go out with, and by no other", async () => {
      const db = await answered(newDatabase);
      await db.tx((q) => draft(q, "other", "k"));
      expect(await read(db, "rd", "two")).toBe("bytes of two");
      expect(await read(db, "rd", "logo")).toBe(null);
      expect(await read(db, "rother", "two")).toBe(null);
    });

    it("stay while their draft may still need them, even after their message was deleted", async () => {
      const db = await answered(newDatabase);
      for (const [state, open] of [
        ["queued", 1],
        ["unknown", 1],
        ["held", 0],
        ["failed", 1],
      ] as const) {
        await db.tx((q) => concludeDraft(q, "d", { state, open }));
        await ages(db, 3);
        expect(await clean(db), state).toBe(0);
        expect(await blobs(db), state).toEqual(["one", "two"]);
      }
      expect(await read(db, "rd", "one")).toBe("bytes of one");
    });

    it("are deleted long after it was sent; names go with the text", async () => {
      const db = await answered(newDatabase);
      await db.tx((q) => concludeDraft(q, "d", { state: "sent", open: 0 }));
      await ages(db, 0.5);
      expect(await clean(db)).toBe(0);
      await ages(db, 1);
      expect(await clean(db)).toBe(2);
      expect(await blobs(db)).toEqual([]);
      const names = () => db.read((q) => q.all("SELECT name FROM files ORDER BY position"));
      expect(await names()).toEqual([{ name: "one" }, { name: "two" }]);
      await ages(db, 9);
      await clean(db);
      expect(await names()).toEqual([]);
    });

    it("block a resend without them", async () => {
      const db = await answered(newDatabase);
      await db.tx((q) => dropDraft(q, "d"));
      await ages(db, 3);
      await clean(db);
      await expect(db.tx((q) => resendDraft(q, "d"))).rejects.toThrow("its files were erased (retention)");
      expect(await db.read((q) => stateOf(q, "drafts", "d"))).toBe("dropped");
      await expect(db.read((q) => filesOf(q, "rd"))).rejects.toThrow("its files were erased (retention)");
    });
  });
});
