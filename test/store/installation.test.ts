// A store that is behind: how it is recognized at the start, and what of its open work is held.

import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { firstTo } from "../../src/domain/turn.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Database, Query } from "../../src/store/driver.ts";
import { advanceGeneration, identifyInstallation } from "../../src/store/installation.ts";
import { guardLease, LeaseLost, refreshLane } from "../../src/store/lanes.ts";
import { migrate } from "../../src/store/migrate.ts";
import { besideDaemon, type Repair, repair } from "../../src/store/operators/repair.ts";
import { answeredBefore, countHeld, holdOpenWork } from "../../src/store/restored.ts";
import { readSecret, writeSecret } from "../../src/store/secrets.ts";
import { allKnown } from "../../src/store/tables/conversations.ts";
import { insertNotices, insertReply } from "../../src/store/tables/drafts.ts";
import {
  conversation,
  draft,
  dueChannels,
  fresh,
  leaseLanes,
  onEachDatabase,
  sqliteDatabase,
  storeEvent,
  turn,
} from "../support/store/databases.ts";

const states = async (q: Query, table: "events" | "turns" | "replies" | "drafts"): Promise<string[]> =>
  (await q.all<{ state: string }>(`SELECT state FROM ${table} ORDER BY id`)).map(({ state }) => state);
const all = (db: Database) =>
  db.read(async (q) => ({
    events: await states(q, "events"),
    turns: await states(q, "turns"),
    drafts: await states(q, "drafts"),
  }));

onEachDatabase((newDatabase) => {
  describe("a store that is behind", () => {
    it("is new once, and the same at every later start", async () => {
      const here = await newDatabase();
      const db = await here.open();
      await migrate(db);
      const first = await identifyInstallation(db, here.file ?? null, standardTiming.commands.copying);
      expect(first).toMatchObject({ cause: "new", changed: true, earlier: [] });
      expect(await identifyInstallation(db, here.file ?? null, standardTiming.commands.copying)).toEqual({
        ...first,
        changed: false,
      });
    });

    it("is behind when an operator has marked it as docs/operations.md says", async () => {
      const here = await newDatabase();
      const db = await here.open();
      await migrate(db);
      const identify = () => identifyInstallation(db, here.file ?? null, standardTiming.commands.copying);
      await identify();
      const [, statement = ""] = /psql .*-c "(.+)"/.exec(readFileSync("docs/operations.md", "utf8")) ?? [];
      await db.tx((q) => q.run(statement));
      expect(await identify()).toMatchObject({ cause: "restored", changed: true });
      expect(await identify()).toMatchObject({ cause: "restored", changed: false });
    });

    it("holds messages, questions and replies, of one channel or all, and lets an operator decide", async () => {
      const db = await fresh(newDatabase);
      const decide = async (action: Repair, channel = ""): Promise<number> => {
        const selection = { code: answeredBefore, states: ["held"], channel };
        const counts = [];
        for (const box of ["inbox", "outbox"] as const)
          counts.push(await repair(besideDaemon(db), box, action, selection, { actor: "anna" }));
        expect(counts.flatMap(({ skipped }) => skipped)).toEqual([]);
        return counts.reduce((sum, { matched }) => sum + matched, 0);
      };
      await db.tx(async (q) => {
        await storeEvent(q, "waits");
        for (const id of ["a", "b"]) await conversation(q, id);
        await turn(q, "t1", "a");
        const asked = await storeEvent(q, "asked");
        await q.run("UPDATE events SET state = 'routed', turn = 't1' WHERE id = $1", asked);
        await draft(q, "d1", "b");
      });
      const none = await db.tx((q) => holdOpenWork(q, { channel: "other", before: Number.MAX_SAFE_INTEGER }));
      const young = await db.tx((q) => holdOpenWork(q, { channel: "c", before: 1 }));
      expect([none, young]).toEqual([
        { messages: 0, replies: 0 },
        { messages: 0, replies: 0 },
      ]);
      expect(await db.tx((q) => holdOpenWork(q, null))).toEqual({ messages: 2, replies: 1 });
      expect(await all(db)).toEqual({ events: ["held", "held"], turns: ["failed"], drafts: ["held"] });
      expect(await db.read(countHeld)).toEqual({ messages: 2, replies: 1 });
      // Nothing of it is due any more.
      for (const direction of ["in", "out"] as const)
        expect(await db.read((q) => dueChannels(q, direction === "in" ? "turns" : "drafts"))).toEqual([]);
      expect(await decide("retry")).toBe(3);
      expect(await all(db)).toEqual({ events: ["stored", "routed"], turns: ["waiting"], drafts: ["queued"] });
      await db.tx((q) => holdOpenWork(q, null));
      expect(await decide("drop", "c")).toBe(3);
      expect(await all(db)).toEqual({
        events: ["ignored", "ignored"],
        turns: ["failed"],
        drafts: ["dropped"],
      });
      expect(await decide("drop")).toBe(0);
    });

    it("gives up what humans wrote for the platform, and changes of its mode", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "a");
        for (const id of ["relayed", "mode", "spoken"]) await turn(q, id, "a");
        await q.run("UPDATE turns SET kind = id WHERE id <> 'spoken'");
        await q.run("UPDATE turns SET state = 'unknown' WHERE id = 'mode'");
        await q.run("UPDATE turns SET session = 's', open = 0, state = 'answered' WHERE id = 'spoken'");
      });
      expect(await db.tx((q) => holdOpenWork(q, null))).toEqual({ messages: 0, replies: 0 });
      expect((await all(db)).turns).toEqual(["failed", "failed", "answered"]);
      expect(await db.read((q) => dueChannels(q, "turns"))).toEqual([]);
    });

    it("holds what may have been asked or sent, and takes it from its worker", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (const id of ["in", "out", "ready"]) await conversation(q, id);
        await turn(q, "unknown", "in");
        await turn(q, "answered", "ready");
        await draft(q, "sending", "out");
        await draft(q, "unsure", "out");
        const asked = await storeEvent(q, "asked");
        await q.run("UPDATE events SET state = 'routed', turn = 'answered' WHERE id = $1", asked);
        // Its answer is not composed yet.
        await q.run("UPDATE turns SET state = 'answered', open = 0 WHERE id = 'answered'");
        await refreshLane(q, "ready", "in");
        const reply = { id: "r", conversation: "ready", channel: "c", turn: "answered", text: "x", platformId: null };
        await insertReply(q, reply);
      });
      const leases = await db.tx(async (q) => [
        ...(await leaseLanes(q, "in", "c", "n", 60_000, 9)),
        ...(await leaseLanes(q, "out", "c", "n", 60_000, 9)),
      ]);
      expect(leases.map(({ lane }) => lane).sort()).toEqual(["in/in", "out/out"]);
      await db.tx(async (q) => {
        await q.run("UPDATE turns SET state = 'unknown' WHERE id = 'unknown'");
        await q.run("UPDATE drafts SET state = 'sending' WHERE id = 'sending'");
        await q.run("UPDATE drafts SET state = 'unknown' WHERE id = 'unsure'");
      });
      expect(await db.tx((q) => holdOpenWork(q, null))).toEqual({ messages: 0, replies: 2 });
      expect(await all(db)).toEqual({ events: ["routed"], turns: ["answered", "failed"], drafts: ["held", "held"] });
      const toCompose = await db.read((q) =>
        q.all("SELECT id FROM replies WHERE state = 'ready' AND reason IS NOT NULL"),
      );
      expect(toCompose, "stage compose holds its drafts").toContainEqual({ id: "r" });
      for (const lease of leases) await expect(db.tx((q) => guardLease(q, lease))).rejects.toThrow(LeaseLost);
    });

    it("leaves calls, what is exempt from the caps, and notifications as they are", async () => {
      const db = await fresh(newDatabase);
      const notice = { channel: "c", conversation: "a", text: "bye", forced: true, internal: true };
      await db.tx(async (q) => {
        await storeEvent(q, "stop", { exempt: true });
        for (const id of ["a", "call"]) await conversation(q, id);
        await insertNotices(q, [{ ...notice, id: "n", address: firstTo({ address: "a@example.org" }, null) }]);
        await draft(q, "notice", "a");
        await turn(q, "spoken", "call");
        await draft(q, "said", "call");
        await q.run("UPDATE replies SET kind = 'notice', internal = 1 WHERE id = 'rnotice'");
        await q.run("UPDATE drafts SET internal = 1 WHERE id = 'notice'");
        await q.run("UPDATE turns SET session = 's'");
        await q.run("UPDATE drafts SET session = 's' WHERE id = 'said'");
        await q.run("UPDATE replies SET turn = 'spoken' WHERE id = 'rsaid'");
      });
      expect(await db.tx((q) => holdOpenWork(q, null))).toEqual({ messages: 0, replies: 0 });
      expect([await all(db), await db.read((q) => states(q, "replies"))]).toEqual([
        { events: ["stored"], turns: ["waiting"], drafts: ["queued", "queued"] },
        ["ready", "ready", "ready"],
      ]);
    });

    it("takes the platform's messages as known where all questions are older", async () => {
      const db = await fresh(newDatabase);
      const polls = () => db.read((q) => q.all("SELECT conversation, mark, position FROM polls ORDER BY conversation"));
      await db.tx(async (q) => {
        for (const id of ["old", "young"]) await conversation(q, id);
        for (const id of ["old", "young"]) await turn(q, id, id);
        await q.run("UPDATE turns SET made_at = 1, state = 'answered', open = 0 WHERE id = 'old'");
        await q.run(
          "INSERT INTO polls (conversation, channel, mark, position) SELECT id, 'c', 'm', 7 FROM conversations",
        );
      });
      await db.tx((q) => holdOpenWork(q, { channel: "c", before: 2 }));
      expect(await polls()).toEqual([
        { conversation: "old", mark: null, position: allKnown },
        { conversation: "young", mark: "m", position: 7 },
      ]);
    });

    it("keeps secrets under their names", async () => {
      const db = await fresh(newDatabase);
      expect(await db.read((q) => readSecret(q, "email/a"))).toBeNull();
      for (const value of ["one", "two"]) await db.tx((q) => writeSecret(q, "email/a", value));
      expect(await db.read((q) => readSecret(q, "email/a"))).toBe("two");
    });
  });
});

/** The content of the installation file next to an SQLite store. */
describe("sqlite only", () => {
  const place = sqliteDatabase;
  describe("the installation file", () => {
    async function started(): Promise<{ file: string; open: () => Promise<Database> }> {
      const here = await place();
      const file = here.file ?? "";
      const db = await here.open();
      await migrate(db);
      await identifyInstallation(db, file, standardTiming.commands.copying);
      return { file, open: () => here.open() };
    }
    const identify = async ({ file, open }: { file: string; open: () => Promise<Database> }) =>
      identifyInstallation(await open(), file, standardTiming.commands.copying);

    it("recognizes an older copy after a minute, also one of the same run", async () => {
      const here = await started();
      const db = await here.open();
      const { id } = await identifyInstallation(db, here.file, standardTiming.commands.copying);
      await db.tx((q) => q.run("UPDATE meta SET value = value"));
      const older = await db.read((q) => q.one<{ value: number }>("SELECT value FROM meta WHERE name = 'generation'"));
      await advanceGeneration(db, here.file, id);
      await db.tx((q) => q.run("UPDATE meta SET value = $1 WHERE name = 'generation'", older?.value ?? 0));
      const found = await identify(here);
      expect(found).toMatchObject({ cause: "older", changed: true, earlier: [id] });
      expect(await identify(here)).toEqual({ ...found, changed: false });
    });

    it("recognizes a copy without it, and one with another store's file", async () => {
      const [one, two] = [await started(), await started()];
      rmSync(`${one.file}-installation`);
      expect(await identify(one)).toMatchObject({ cause: "copied" });
      copyFileSync(`${one.file}-installation`, `${two.file}-installation`);
      const { id } = JSON.parse(readFileSync(`${one.file}-installation`, "utf8")) as { id: string };
      const found = await identify(two);
      expect(found.cause).toBe("copied");
      // Marks of that one are marks of an earlier state, for it was here.
      expect(found.earlier).toContain(id);
    });

    it("counts as missing when it is damaged, and distinguishes a lost store from a new one", async () => {
      const here = await started();
      const { id } = JSON.parse(readFileSync(`${here.file}-installation`, "utf8")) as { id: string };
      const other = await place();
      copyFileSync(`${here.file}-installation`, `${other.file}-installation`);
      const db = await other.open();
      await migrate(db);
      expect(await identifyInstallation(db, other.file ?? "", standardTiming.commands.copying)).toMatchObject({
        cause: "lost",
        earlier: [id],
      });
      writeFileSync(`${here.file}-installation`, "{half");
      expect(await identify(here)).toMatchObject({ cause: "copied" });
      expect(existsSync(`${here.file}-installation.new`)).toBe(false);
    });

    it("counts as older when the process died before it was written", async () => {
      const here = await started();
      const beside = readFileSync(`${here.file}-installation`);
      rmSync(`${here.file}-installation`);
      const { id } = await identify(here);
      writeFileSync(`${here.file}-installation`, beside);
      expect(await identify(here)).toMatchObject({ id, changed: false });
    });
  });
});
