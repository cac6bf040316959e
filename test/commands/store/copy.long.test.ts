// store copy: a daemon with work in every state continues on PostgreSQL, and back on SQLite. Nothing is lost or repeated.

import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { openStore } from "../../../src/app.ts";
import { exitCodes } from "../../../src/commands/io.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { copyRows } from "../../../src/store/copy.ts";
import type { Database } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { dropDraft, resendDraft } from "../../../src/store/operators/outbox.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { recordAction } from "../../../src/store/tables/actions.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { eventually } from "../../support/clock.ts";
import { type MailDaemon, startMailDaemon } from "../../support/daemon/mail-daemon.ts";
import { type Dovecot, startDovecot } from "../../support/email/dovecot.ts";
import { type Letter, letter } from "../../support/email/mails.ts";
import { bridgehead, childEnv, root } from "../../support/machine/command.ts";
import { describeReal, need } from "../../support/machine/debian.ts";
import { newFolder, silentLog } from "../../support/resources.ts";
import { conversation, draft, postgresDatabase, sqliteDatabase, storeEvent } from "../../support/store/databases.ts";
import { needPostgres, type SharedPostgres, sharedPostgres, urlOfSchema } from "../../support/store/postgres.ts";

const missing = (await need("dovecot-imapd", "/usr/sbin/dovecot")) ?? (await needPostgres());

describeReal("store copy", missing, () => {
  let dovecot: Dovecot;
  let postgres: SharedPostgres;
  beforeAll(async () => {
    [dovecot, postgres] = await Promise.all([startDovecot({ users: ["moving"] }), sharedPostgres()]);
  });
  afterAll(async () => {
    await dovecot?.dispose();
  });
  const schemaUrl = async () => urlOfSchema(postgres, await postgres.schema());

  /** Writes one mail for each state, and stops the daemon when all are reached. Returns the mails. */
  async function stopInEveryState(daemon: MailDaemon, tag: string, before = 0) {
    const from = (name: string) => ({ from: `${name}-${tag}@customer.example` });
    const sent = await daemon.write(from("sent"));
    await daemon.replyTo(sent);
    daemon.smtp.fail("dot", { kind: "silence" });
    const sending = await daemon.write(from("sending"));
    await eventually(async () =>
      expect(await daemon.rows("SELECT id FROM drafts WHERE state = 'sending'")).toHaveLength(1),
    );
    daemon.model.hold();
    const held = await daemon.write(from("held"));
    const asking = await daemon.write(from("asking"));
    const running = () => daemon.rows("SELECT id FROM turns WHERE state = 'asking'");
    await eventually(async () => expect((await running()).length).toBeGreaterThanOrEqual(2));
    // In the lane behind the question that runs.
    const waiting = letter(daemon.address, from("asking"));
    await daemon.deliver(waiting.raw.replace(/^Subject:/m, `In-Reply-To: ${asking.messageId}\nSubject:`));
    const accepted = "SELECT id FROM turns";
    await eventually(async () => expect(await daemon.rows(accepted)).toHaveLength(before + 5));
    return [sent, sending, held, asking, waiting];
  }

  const copy = (config: string, to: string, env: Record<string, string> = {}) =>
    bridgehead(["store", "copy", "--to", to, "--config", config], env);

  /** Waits until nothing is on its way, and sends what the server never confirmed. */
  async function settle(daemon: MailDaemon, letters: readonly Letter[]) {
    const open = "SELECT id FROM drafts WHERE state IN ('sending', 'unknown', 'queued')";
    await eventually(async () => expect(await daemon.rows(open)).toEqual([]));
    const held = await daemon.rows<{ id: string }>("SELECT id FROM drafts WHERE state = 'held'");
    for (const { id } of held) await daemon.app().db.tx((q) => resendDraft(q, id));
    daemon.app().scheduler.wake();
    await daemon.settled(letters);
  }

  it("lets the daemon continue on PostgreSQL and back on SQLite", async () => {
    const channel = { on_unknown: "hold", absent_after: "1s", unknown_window: "2s" };
    const daemon = await startMailDaemon(onTestFinished, { dovecot, user: "moving", channel });
    const first = await stopInEveryState(daemon, "one");
    const config = await daemon.config();
    const url = await schemaUrl();
    expect(await copy(config.file, url)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringContaining("another Bridgehead process is running"),
    });
    // The operator's next action continues the numbers of the copied ones.
    await daemon.app().db.tx((q) => recordAction(q, { action: "answer", actor: "dora" }, { event: 1 }));
    await daemon.stop(100);
    daemon.smtp.heal();
    daemon.model.release();
    // The reference keeps the password off the command line.
    const moved = await copy(config.file, "${env:TARGET}", { TARGET: url });
    expect(moved).toMatchObject({
      code: exitCodes.ok,
      out: expect.stringContaining("all counts and checksums are the same in both stores"),
    });
    expect(await copy(config.file, url)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringContaining("the target is not empty"),
    });
    await daemon.start({ ...config, store: { kind: "postgres", url } });
    expect(daemon.app().installation.changed).toBe(false);
    await settle(daemon, first);

    const second = await stopInEveryState(daemon, "two", first.length);
    const text = readFileSync(config.file, "utf8").replace("sqlite:bridgehead.db", url);
    const postgresConfig = `${config.file}.postgres.yaml`;
    writeFileSync(postgresConfig, text);
    const back = join(dirname(config.file), "back.db");
    expect(await copy(postgresConfig, `sqlite:${back}`)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringContaining("a daemon is running on it"),
    });
    await daemon.stop(100);
    daemon.smtp.heal();
    daemon.model.release();
    expect(await copy(postgresConfig, `sqlite:${back}`)).toMatchObject({ code: exitCodes.ok });
    await daemon.start({ ...config, store: { kind: "sqlite", file: back } });
    expect(daemon.app().installation.changed).toBe(false);
    await settle(daemon, [...first, ...second]);
    await daemon.stop();
    // A daemon on a former store would answer new mail as well.
    const former = [config.store, { kind: "postgres", url }] as const;
    for (const store of former)
      await expect(openStore({ store }, systemClock, silentLog, standardTiming)).rejects.toThrow(
        "the copy continues its work. Remedy: name the copy",
      );
    const secrets = { AGENT_KEY: "x", MAIL_PASSWORD: "x" };
    expect((await bridgehead(["doctor", "--config", config.file], secrets)).out).toMatch(
      /store-unusable .*\n +the store was copied \(store copy\)/,
    );
    // As docs/operations.md says, it holds its open work then instead of repeating it.
    const saved = join(dirname(config.file), "former.backup");
    for (const command of ["backup", "restore"])
      expect(await bridgehead([command, saved, "--config", config.file])).toMatchObject({ code: exitCodes.ok });
    await daemon.start(config);
    expect(daemon.app().installation).toMatchObject({ changed: true, cause: "restored" });
    expect(await daemon.rows("SELECT id FROM drafts WHERE state IN ('queued', 'sending', 'unknown')")).toEqual([]);
  });

  it("starts again after a death, and no daemon starts on the unfinished copy", async () => {
    const folder = newFolder();
    const config = join(folder, "bridgehead.yaml");
    writeFileSync(
      config,
      "platform: { url: https://p.example.com }\nagents: {}\nchannels: {}\nstore: sqlite:store.db\n",
    );
    const db = openSqlite(join(folder, "store.db"), () => systemClock.now());
    await migrate(db);
    await db.tx(async (q) => {
      await ensureChannel(q, "c");
      // PostgreSQL stores no NUL characters.
      for (let n = 0; n < 700; n++) await storeEvent(q, `${n}`, { subject: n === 5 ? "a\0b" : `subject ${n}` });
      await q.run("INSERT INTO blobs (id, bytes, stored_at) VALUES ('x', $1, 1)", Buffer.from([0, 255, 1]));
    });
    await db.close();
    const url = await schemaUrl();
    for (const point of ["store.copy:after:4", "store.copied:before:1"]) {
      expect(await killed(point, "store", "copy", "--to", url, "--config", config)).toBe("SIGKILL");
      const target = { store: { kind: "postgres", url } } as const;
      await expect(openStore(target, systemClock, silentLog, standardTiming)).rejects.toThrow(
        "the store is an incomplete copy",
      );
    }
    // Both stores refuse to start now, and both name the command that ends this.
    for (const store of [
      { kind: "sqlite", file: join(folder, "store.db") } as const,
      { kind: "postgres", url } as const,
    ])
      await expect(openStore({ store }, systemClock, silentLog, standardTiming)).rejects.toThrow(
        "run the command store copy again",
      );
    const wrongWay = join(folder, "copy.yaml");
    writeFileSync(wrongWay, readFileSync(config, "utf8").replace("sqlite:store.db", url));
    expect(await copy(wrongWay, `sqlite:${join(folder, "new.db")}`)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringContaining("the source is an incomplete copy"),
    });
    const { code, out } = await copy(config, url);
    expect([code, out]).toEqual([exitCodes.ok, expect.stringMatching(/^events +700 +[0-9a-f]{16}$/m)]);
    const { db: target } = await openStore(
      { store: { kind: "postgres", url } },
      systemClock,
      silentLog,
      standardTiming,
    );
    const next = await target.tx((q) => storeEvent(q, "next"));
    const subjects = await target.read((q) => q.all("SELECT subject FROM events WHERE external_id = '5'"));
    await target.close();
    expect([next, subjects]).toEqual([701, [{ subject: "a\ufffdb" }]]);
  });

  it.each(["sqlite", "postgres"] as const)("refuses a source in which a row has changed (%s)", async (kind) => {
    const places = [await sqliteDatabase(), await postgresDatabase(postgres)] as const;
    const [from, to] = kind === "sqlite" ? places : [places[1], places[0]];
    const [source, target, command] = [await from.open(), await to.open(), await from.open()];
    for (const db of [source, target]) await migrate(db);
    await source.tx(async (q) => {
      await ensureChannel(q, "c");
      await conversation(q, "c1", "c");
      await draft(q, "d1", "c1");
    });
    const run = (table: (name: string) => void, into = target) =>
      copyRows({
        source,
        target: into,
        targetFile: to.file ?? null,
        finish: async () => undefined,
        progress: { total: () => undefined, table, rows: () => undefined },
      });
    // A command drops the reply while the target is verified, when the tables are named again.
    const seen = new Set<string>();
    let isDropped = false;
    const verified: Database = {
      ...target,
      tx: (work, options) => target.tx(work, options),
      async read(work) {
        if (seen.has("again") && !isDropped) {
          isDropped = true;
          await command.tx((q) => dropDraft(q, "d1", "ben", "a wrong answer"));
        }
        return target.read(work);
      },
    };
    const refused = run((name) => void seen.add(seen.has(name) ? "again" : name), verified);
    await expect(refused).rejects.toThrow("the source has changed meanwhile");
    const moved = (db: Database) => db.read((q) => q.all("SELECT value FROM meta WHERE name = 'moved'"));
    expect(await moved(source)).toEqual([]);
    const copied = await run(() => undefined);
    expect(copied.find(({ table }) => table === "drafts")?.rows).toBe(1);
    expect(await target.read((q) => q.all("SELECT state FROM drafts"))).toEqual([{ state: "dropped" }]);
    expect(await moved(source)).toEqual([{ value: 1 }]);
  });
});

/** The command, killed at a failpoint. Resolves with its signal. */
function killed(point: string, ...args: string[]): Promise<NodeJS.Signals | null> {
  const kill = new URL("../../support/process/preload.ts", import.meta.url).href;
  const child = spawn(process.execPath, ["--conditions=source", "--import", kill, `${root}src/main.ts`, ...args], {
    stdio: "ignore",
    env: { ...childEnv, KILL_AT: point },
  });
  return new Promise((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
}
