// A power failure during a call. The disk stops while the call continues; then the power is cut, and a part of the log
// survives. The machine starts again on each state that the disk may hold.

import { copyFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { MessageEvent } from "bridgehead/contract";
import { describe, expect, it, onTestFinished } from "vitest";
import { dropAfterPowerFailure } from "../../src/calls/power-failure-rows.ts";
import { loseSessions } from "../../src/calls/rows.ts";
import { CallSessions } from "../../src/calls/sessions.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Database } from "../../src/store/driver.ts";
import { endLeases } from "../../src/store/leases.ts";
import { migrate } from "../../src/store/migrate.ts";
import { openSqlite } from "../../src/store/sqlite.ts";
import { type CallPipeline, callOf, mail, openCallPipeline, openedCall } from "../support/pipeline/pipeline.ts";
import { type ScriptedPlatform, startPlatform } from "../support/pipeline/stage.ts";
import { newFolder } from "../support/resources.ts";
import { conversation, draft, insertEscalation, storeEvent, turn } from "../support/store/databases.ts";

interface Disk {
  readonly file: string;
  readonly sync: () => Promise<void>;
  /** From now on no sync ends. */
  stop(): void;
  /** Cuts the power: nothing is written any more. Returns the logs that may be left, one for each commit that no sync
   *  has covered, and the one that is on disk for certain. */
  cut(): readonly Buffer[];
}

function newDisk(): Disk {
  const file = join(newFolder(), "store.db");
  const size = () => statSync(`${file}-wal`).size;
  let covered = 0;
  let stopped: Promise<never> | null = null;
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => undefined);
  return {
    file,
    stop: () => void (stopped = failure.promise),
    async sync() {
      const reached = size();
      await stopped;
      covered = reached;
    },
    cut() {
      const log = readFileSync(`${file}-wal`);
      failure.reject(new Error("the power is cut"));
      const frame = 24 + log.readUInt32BE(8);
      const ends = [covered];
      // A frame with a database size, its second field, ends a commit.
      for (let end = 32 + frame; end <= log.length; end += frame)
        if (end > covered && log.readUInt32BE(end - frame + 4) > 0) ends.push(end);
      return ends.map((end) => log.subarray(0, end));
    },
  };
}

/** The store as a power failure leaves it, with that log. */
function surviving({ file }: Disk, log: Buffer | undefined): string {
  const copy = join(newFolder(), "store.db");
  copyFileSync(file, copy);
  writeFileSync(`${copy}-wal`, log ?? "");
  return copy;
}

/** A store as the daemon opens it, on a machine in that boot. */
async function started(db: Database, boot: number | null): Promise<Database> {
  await migrate(db);
  await db.tx(async (q) => {
    await endLeases(q);
    await loseSessions(q);
    if (boot !== null) await dropAfterPowerFailure(q, boot);
  });
  return db;
}

interface Cut {
  readonly disk: Disk;
  readonly platform: ScriptedPlatform;
  readonly text: MessageEvent;
  readonly logs: readonly Buffer[];
}

/** A call with an answer that was spoken, an older question that the caller has superseded, and a message on another
 *  channel, of which the disk has nothing. */
async function cutDuringCall(commitBatch = standardTiming.sqlite.commitBatch): Promise<Cut> {
  const disk = newDisk();
  const platform = await startPlatform();
  const timing = { ...standardTiming.sqlite, commitBatch };
  const db = await started(openSqlite(disk.file, Date.now, { sync: disk.sync, timing }), 1);
  onTestFinished(() => db.close());
  const { pipeline, call } = await openedCall({ db, platform, channels: ["c", "mail"] });
  await call.says("the first words");
  await pipeline.settles();
  await db.read((q) => q.one("SELECT 1 AS n")); // the outcome is on disk
  disk.stop();
  let logs: readonly Buffer[];
  const text = mail({ text: "a mail", from: { address: "bob@example.org" } });
  let acknowledged = 0;
  const accepted = () => void (acknowledged += 1);
  platform.faults.ask = () => undefined; // it never answers
  void call.says("the older words").then(accepted, () => undefined);
  await pipeline.called("ask", 2);
  delete platform.faults.ask;
  void call.says("the last words").then(accepted, () => undefined);
  void pipeline.accepts("mail", text).then(accepted, () => undefined);
  try {
    await expect.poll(() => pipeline.said.map((one) => one.text)).toContain("answer to the last words");
    // No message was acknowledged, and nothing of the mail has left.
    expect([acknowledged, platform.count("ask a mail"), platform.count("start bob")]).toEqual([0, 0, 0]);
  } finally {
    logs = disk.cut();
    pipeline.clock.forward(600_000); // ends the leases, and with them the attempts to write an outcome
  }
  return { disk, platform, text, logs };
}

/** How often that was asked, before the power failure and after it. */
const askedIn = ({ platform }: Cut, words: string): number => platform.count(`ask ${words}`);

/** The next start: the call comes back at once, and the provider sends the mail again. */
async function restarted({ disk, platform, text }: Cut, log: Buffer, boot: number | null): Promise<CallPipeline> {
  const db = await started(openSqlite(surviving(disk, log), Date.now), boot);
  onTestFinished(() => db.close());
  const pipeline = await openCallPipeline({ db, platform, channels: ["c", "mail"], absentAfter: 0 });
  await callOf(pipeline).tells("opened");
  await pipeline.accepts("mail", text);
  await pipeline.passes(20_000);
  return pipeline;
}

describe("a power failure during a call", () => {
  // With 0 every transaction has a commit of its own, so that a message may survive without its routing.
  it.each([standardTiming.sqlite.commitBatch, 0])(
    "repeats no question and no reply of the call, and loses nothing of other channels, after a loss of any commits of %i ms",
    async (commitBatch) => {
      let states = 0;
      for (let index = 0; ; index += 1) {
        const cut = await cutDuringCall(commitBatch);
        const log = cut.logs[index];
        if (log === undefined) break;
        states += 1;
        const pipeline = await restarted(cut, log, 2);
        // Where the record of its opening survives, the lookup comes first, and then a retry.
        const isAsked = async () => {
          await pipeline.settles();
          return askedIn(cut, "a mail");
        };
        await expect.poll(isAsked).toBe(1);
        await pipeline.settles();
        const asked = ["the first words", "the last words", "a mail"].map((words) => askedIn(cut, words));
        expect([index, ...asked]).toEqual([index, 1, 1, 1]);
        expect(askedIn(cut, "the older words")).toBe(1);
        expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to a mail"]);
        await callOf(pipeline).says("are you there?");
        await pipeline.settles();
        // The question includes the older text if that is still open: the platform certainly does not have it.
        expect(pipeline.said.at(-1)?.text).toMatch(/^answer to (?:the older words\n)?are you there\?$/);
        const open = await pipeline.db.read((q) =>
          q.all("SELECT id FROM turns WHERE open = 1 UNION ALL SELECT id FROM drafts WHERE open = 1"),
        );
        expect(open).toEqual([]);
      }
      // Nothing, the older question, the message that waits for its end, the attempt, and the answer with the attempt to
      // speak.
      expect(states).toBeGreaterThan(4);
    },
  );

  it("would repeat the question if the start did not drop it", async () => {
    const repeated: number[] = [];
    for (let index = 0; ; index += 1) {
      const cut = await cutDuringCall();
      const log = cut.logs[index];
      if (log === undefined) break;
      await restarted(cut, log, null);
      repeated.push(askedIn(cut, "the last words"));
    }
    expect(Math.max(...repeated)).toBe(2);
  });

  it("leaves a call that ended before as it was", async () => {
    const disk = newDisk();
    const db = await started(openSqlite(disk.file, Date.now, disk), 1);
    onTestFinished(() => db.close());
    const { pipeline, call } = await openedCall({ db });
    await call.says("the only words");
    await pipeline.settles();
    await call.tells("closed", { durationMs: 5000 });
    const tables = async (from: Database) =>
      from.read(async (q) => [
        await q.all("SELECT state, duration FROM sessions"),
        await q.all("SELECT state, open, question FROM turns ORDER BY seq"),
        await q.all("SELECT state, open, external_id FROM drafts ORDER BY seq"),
        await q.all("SELECT kind, outcome FROM attempts ORDER BY subject, number"),
      ]);
    const before = await tables(db);
    const [least] = disk.cut();
    const after = await started(openSqlite(surviving(disk, least), Date.now), 2);
    onTestFinished(() => after.close());
    expect(await tables(after)).toEqual(before);
    expect(before[0]).toEqual([{ state: "closed", duration: 5000 }]);
  });
});

describe("the start", () => {
  const asked = async (boot: number | null, before: "known" | "unknown" = "known") => {
    const db = await started(openSqlite(newDisk().file, Date.now), 1);
    onTestFinished(() => db.close());
    await db.tx(async (q) => {
      await q.run("INSERT INTO channels (id) VALUES ('c')");
      await conversation(q, "k");
      await q.run("UPDATE conversations SET platform_id = 'p' WHERE id = 'k'");
      for (const id of ["first", "again"]) await turn(q, id, "k");
      await q.run("UPDATE turns SET session = 's'");
      await q.run("UPDATE turns SET attempts = 1 WHERE id = 'again'");
      if (before === "unknown") await q.run("DELETE FROM meta WHERE name = 'boot'");
    });
    await started(db, boot);
    return db.read((q) => q.all<{ id: string; state: string }>("SELECT id, state FROM turns ORDER BY seq"));
  };

  it("drops the questions of calls that may have been asked, in another boot only", async () => {
    expect(await asked(2)).toEqual([
      { id: "first", state: "dropped" },
      { id: "again", state: "waiting" }, // its attempts have waited for the disk
    ]);
    expect((await asked(1)).map(({ state }) => state)).toEqual(["waiting", "waiting"]);
  });

  it("drops nothing of an earlier version, whose commits have waited for the disk", async () => {
    expect((await asked(2, "unknown")).map(({ state }) => state)).toEqual(["waiting", "waiting"]);
  });
});

it("keeps a voicemail and an opt-out of a call that were not routed before the machine restarted", async () => {
  const db = await started(openSqlite(newDisk().file, Date.now), 1);
  onTestFinished(() => db.close());
  const said = (given: object) => JSON.stringify({ kind: "message", thread: { session: "s" }, ...given });
  await db.tx(async (q) => {
    await storeEvent(q, "words", { body: said({}) });
    await storeEvent(q, "voicemail", { body: said({ forHumans: { subject: "Voicemail" } }) });
    await storeEvent(q, "stop", { body: said({ consent: "withdrawn" }) });
  });
  await started(db, 2);
  const rows = await db.read((q) => q.all("SELECT external_id AS id, state FROM events ORDER BY id"));
  expect(rows).toEqual([
    { id: "stop", state: "stored" },
    { id: "voicemail", state: "stored" },
    { id: "words", state: "ignored" },
  ]);
});

it("lets a reply wait for the disk when an escalation is open, so that no promise of a human is lost", async () => {
  const { pipeline, call } = await openedCall();
  await call.says("hello");
  await pipeline.settles();
  const { conversation: id = "" } = (await call.facts()) ?? {};
  await pipeline.db.tx(async (q) => {
    await draft(q, "d", id);
    await q.run("UPDATE drafts SET session = 'call' WHERE id = 'd'");
  });
  const sessions = new CallSessions(standardTiming.calls);
  const when = () =>
    pipeline.db.tx(async (q) => {
      const row = await q.one("SELECT * FROM drafts WHERE id = 'd'");
      return sessions.admission(q, row as unknown as Parameters<typeof sessions.admission>[1], "call");
    });
  expect(await when()).toEqual({ change: null, waitsForDisk: false });
  const about = { about: "call", conversation: id, channel: "c", agent: "agent", topic: null, reason: "r" };
  await pipeline.db.tx((q) => insertEscalation(q, { ...about, id: "e", cause: "topic" }));
  expect(await when()).toEqual({ change: null, waitsForDisk: true });
});
