// A person is erased while a stage works for them: nothing about them is written afterwards, and the work ends.

import { externalId } from "bridgehead/contract";
import { expect, it } from "vitest";
import { standardTiming } from "../../src/ops/timing.ts";
import { erasePerson } from "../../src/store/person/erase.ts";
import { findPerson } from "../../src/store/person/find.ts";
import { mail, openPipeline, type TestPipeline } from "../support/pipeline/pipeline.ts";
import type { Asked } from "../support/pipeline/stage.ts";
import { fresh, onEachDatabase } from "../support/store/databases.ts";

const hello = { text: "hello" };

async function erases({ db }: TestPipeline): Promise<void> {
  const records = await db.read((q) => findPerson(q, ["ada@example.org"]));
  await erasePerson(db, records, () => undefined, standardTiming);
}

/** What the store says of the person. */
const texts = ({ db }: TestPipeline) =>
  db.read(async (q) => [
    await q.all("SELECT body AS text FROM events WHERE body <> '{}'"),
    await q.all("SELECT question AS text FROM turns WHERE question <> ''"),
    await q.all("SELECT text FROM replies WHERE text <> ''"),
    await q.all("SELECT body AS text FROM drafts WHERE body <> ''"),
    await q.all("SELECT person AS text FROM conversations WHERE person <> ''"),
  ]);
const nothing = [[], [], [], [], []];

onEachDatabase((newDatabase) => {
  it.each(["start", "ask"] as const)("during the call %s", async (operation) => {
    const pipeline = await openPipeline({ db: await fresh(newDatabase) });
    const held: Asked[] = [];
    pipeline.platform.faults[operation] = (asked) => void held.push(asked);
    await pipeline.accepts("c", mail(hello));
    await expect.poll(() => held.length, { interval: 1 }).toBe(1);
    await erases(pipeline);
    delete pipeline.platform.faults[operation];
    held[0]?.answer(200, held[0].perform());
    await pipeline.settles();
    expect(pipeline.heard).toContain("outcome of ended work discarded");
    expect(pipeline.heard).not.toContain("writing an outcome failed, retrying");
    expect(pipeline.heard).not.toContain("a stage failed");
    expect([await texts(pipeline), pipeline.platform.count("ask"), pipeline.sent]).toEqual([
      nothing,
      operation === "ask" ? 1 : 0,
      [],
    ]);
    // The person writes again.
    await pipeline.arrives({ text: "again" });
    await expect.poll(() => pipeline.sent, { interval: 1 }).toEqual(["answer to again"]);
  });

  it("and their mailbox is read again", async () => {
    const pipeline = await openPipeline({ db: await fresh(newDatabase) });
    const attachments = [{ name: "ada.txt", mediaType: "text/plain", bytes: Buffer.from("a file of Ada") }];
    const more = { subject: "Ada's", fingerprint: "f", cited: externalId("<1@example.org>"), attachments };
    const original = mail({ ...hello, ...more });
    await pipeline.accepts("c", original);
    await pipeline.settles();
    await erases(pipeline);
    // As after a change of UIDVALIDITY, under another id.
    await pipeline.accepts("c", { ...original, id: externalId("another") });
    await pipeline.settles();
    const left = await pipeline.db.read(async (q) => [
      await q.all("SELECT code, reason, sender, subject, cited, queue FROM events WHERE external_id = 'another'"),
      await q.all("SELECT bytes FROM blobs UNION ALL SELECT bytes FROM raw_messages"),
    ]);
    const copy = {
      code: "duplicate",
      reason: "a copy of message 1",
      sender: null,
      subject: null,
      cited: null,
      queue: null,
    };
    expect(left).toEqual([[copy], []]);
    expect([await texts(pipeline), pipeline.platform.count("ask")]).toEqual([nothing, 1]);
  });

  it("while the reply is sent", async () => {
    const [begun, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const pipeline = await openPipeline({
      db: await fresh(newDatabase),
      outbound: {
        async send(_, attempt) {
          await attempt.crossing();
          begun.resolve();
          await go.promise;
          return { kind: "sent", id: externalId("x") };
        },
      },
    });
    await pipeline.accepts("c", mail(hello));
    await begun.promise;
    await erases(pipeline);
    go.resolve();
    await pipeline.settles();
    expect([await texts(pipeline), await pipeline.drafts()]).toEqual([nothing, ["dropped"]]);
    expect(pipeline.heard).not.toContain("writing an outcome failed, retrying");
  });
});
