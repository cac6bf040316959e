// One daemon per SQLite store, judged by real processes.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it, onTestFinished } from "vitest";
import { migrate, migrations } from "../../../src/store/migrate.ts";
import { lockStore, startLocked } from "../../../src/store/sqlite/lock.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { newFolder } from "../../support/resources.ts";

const program = new URL("../../support/store/child.ts", import.meta.url).pathname;

function child(action: string, file: string): { process: ChildProcessWithoutNullStreams; line(): Promise<string> } {
  const started = spawn(process.execPath, ["--conditions=source", program, action, file]);
  onTestFinished(() => void started.kill("SIGKILL"));
  let complaint = "";
  started.stderr.on("data", (chunk: Buffer) => (complaint += chunk.toString()));
  const closed = once(started, "close");
  const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]();
  return {
    process: started,
    async line() {
      const next = await lines.next();
      if (next.done) {
        await closed; // what it says last comes on another pipe
        throw new Error(`the child ended: ${complaint}`);
      }
      return next.value;
    },
  };
}

it("refuses a second process, naming the file, until the first is gone, however it dies", async () => {
  const file = join(newFolder(), "store.db");
  const first = child("lock", file);
  expect(await first.line()).toBe("locked");
  expect(() => lockStore(file)).toThrow(file);
  const { pid } = first.process;
  expect(() => lockStore(file)).toThrow(
    `another Bridgehead process is running on it (pid ${pid}); stop that one first`,
  );
  await expect(child("lock", file).line()).rejects.toThrow("another Bridgehead process");
  const died = once(first.process, "exit");
  first.process.kill("SIGKILL");
  await died;
  lockStore(file)();
});

it("releases the lock on request, and does not lock the store itself", async () => {
  const file = join(newFolder(), "deep", "store.db");
  const unlock = lockStore(file);
  const db = openSqlite(file, Date.now);
  await migrate(db);
  await db.close();
  unlock();
  lockStore(file)();
});

it("knows a store under another name", () => {
  const home = newFolder();
  const file = join(home, "store.db");
  writeFileSync(file, "");
  symlinkSync(file, join(home, "alias.db"));
  const unlock = lockStore(file);
  expect(() => lockStore(join(home, "alias.db"))).toThrow("another Bridgehead process");
  unlock();
});

it("does not call a broken file a running process", () => {
  const home = newFolder();
  writeFileSync(join(home, "store.db-lock"), "this is no database, whatever it is called ".repeat(50));
  expect(() => lockStore(join(home, "store.db"))).toThrow("failed");
});

it("migrates once when two processes start on a new file together", async () => {
  const file = join(newFolder(), "store.db");
  const both = [child("migrate", file), child("migrate", file)];
  for (const one of both) expect(await one.line()).toBe("ready");
  for (const one of both) one.process.stdin.write("go\n");
  const said = await Promise.all(both.map((one) => one.line()));
  // Each step is a transaction of its own: they may share them, but none is made twice.
  const applied = said.flatMap((line) => line.replace("applied ", "").split(",").filter(Boolean));
  expect(applied.sort()).toEqual(migrations.map((one) => one.name).sort());
});

it("is held by a service from before its start until after its close, and released when the start fails", async () => {
  const file = join(newFolder(), "platform.db");
  await expect(startLocked(file, () => Promise.reject(new Error("no port")))).rejects.toThrow("no port");
  const service = await startLocked(file, () => Promise.resolve({ close: () => Promise.resolve() }));
  const second = startLocked(file, () => Promise.resolve({ close: () => Promise.resolve() }));
  await expect(second).rejects.toThrow(
    `locking the database ${file} of the embedded platform: another Bridgehead process is running on it (pid ${process.pid}): a daemon with this configuration, or the command platform; stop that one first`,
  );
  expect(() => lockStore(file)).toThrow("another Bridgehead process");
  await service.close();
  lockStore(file)();
});
