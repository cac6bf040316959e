// The records of one person.

import { expect, it } from "vitest";
import { findPerson } from "../../src/store/person/find.ts";
import { eraseMentions } from "../../src/store/person/mentions.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { attachedFiles, insertFiles, type ReadyFile } from "../../src/store/tables/files.ts";
import { conversation, draft, fresh, onEachDatabase, storeEvent } from "../support/store/databases.ts";

const isReady = (file: { blob: string | null }): file is ReadyFile => file.blob !== null;

onEachDatabase((newDatabase) => {
  it("are found for a person who has sent more messages than a function takes arguments", async () => {
    const db = await fresh(newDatabase);
    const count = 200_000;
    await db.tx(async (q) => {
      await ensureChannel(q, "c");
      await q.run(
        `INSERT INTO events (channel, external_id, kind, state, sender, body, due_at, received_at)
         WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < $1)
         SELECT 'c', 'm' || n, 'message', 'ignored', 'bomb@example.org', '{}', 0, 0 FROM numbers`,
        count,
      );
    });
    const { events } = await db.read((q) => findPerson(q, ["bomb@example.org"]));
    expect(events).toHaveLength(count);
  });

  it("include the files that name the person, also those that were sent to others", async () => {
    const db = await fresh(newDatabase, async (q) => {
      const file = (id: string, text: string) => ({
        name: `${id}.txt`,
        mediaType: "text/plain",
        size: text.length,
        blob: { id, bytes: Buffer.from(text) },
        ref: null,
        named: true,
      });
      const attachments = [file("a", "by Bomb@example.org"), file("b", "by notbomb@example.org")];
      const event = await storeEvent(q, "1", { sender: "b@example.org", attachments });
      await conversation(q, "k", "c", "b@example.org");
      await draft(q, "d", "k");
      await insertFiles(q, "rd", (await attachedFiles(q, event)).filter(isReady));
    });
    expect((await eraseMentions(db, ["bomb@example.org"])).changed).toBe(1);
    const left = (table: string, order: string) =>
      db.read((q) => q.all(`SELECT ${table === "blobs" ? "id" : "blob"} FROM ${table} ORDER BY ${order}`));
    const kept = [{ blob: null }, { blob: "b" }];
    expect([await left("files", "position"), await left("attachments", "position")]).toEqual([kept, kept]);
    expect(await left("blobs", "id")).toEqual([{ id: "b" }]);
  });
});
