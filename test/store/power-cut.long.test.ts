// Power-cut replay: records the file operations of the real driver, builds every state in which the disk can be when the
// power fails, and opens each. Acknowledged transactions are there, each is whole or absent, and no file is damaged.

import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { describeReal, need } from "../support/machine/debian.ts";
import {
  type FileOperation,
  type Findings,
  replay,
  storeName,
  traceFiles,
} from "../support/store/power-cut/replay.ts";

const missing = await need("strace", "/usr/bin/strace");
const writer = new URL("../support/store/power-cut/writer.ts", import.meta.url).pathname;

function folder(parent: string): string {
  const made = mkdtempSync(join(parent, "bridgehead-power-"));
  onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** Two processes that die and one that closes the store, one after the other on the same file. */
async function record(): Promise<FileOperation[]> {
  const file = join(folder(tmpdir()), storeName);
  const node = [process.execPath, "--conditions=source", writer, file];
  const operations: FileOperation[] = [];
  for (const [first, count, end] of [
    [0, 50, "die"],
    [50, 30, "close"],
    [80, 30, "die"],
  ] as const)
    operations.push(...(await traceFiles(file, [...node, String(first), String(count), end])));
  return operations;
}

function report(disk: string, { states, lost, corrupt }: Findings): void {
  process.stdout.write(`power cut, ${disk}: ${states} states, ${lost} lost, ${corrupt} corrupt\n`);
}

describeReal("a power cut", missing, () => {
  it("loses nothing acknowledged and damages nothing, at whatever instant it happens", async () => {
    const operations = await record();
    const acknowledged = operations.filter(({ kind }) => kind === "output").length;
    expect(acknowledged).toBe(110);
    const place = join(folder(existsSync("/dev/shm") ? "/dev/shm" : tmpdir()), storeName);
    const found = replay(operations, place);
    report("which obeys every sync", found);
    expect(found).toMatchObject({ lost: 0, corrupt: 0, first: "" });
    expect(found.states).toBeGreaterThanOrEqual(20_000);

    // Without the syncs of the driver, those of SQLite still keep the file whole.
    const forgetful = replay(operations, place, (call) => call !== "fdatasync", 10);
    report("which obeys only SQLite's", forgetful);
    expect(forgetful.lost).toBeGreaterThanOrEqual(10);
    expect(forgetful.corrupt).toBe(0);

    const careless = replay(operations, place, () => false, 10);
    report("which obeys none", careless);
    expect(careless.lost).toBeGreaterThanOrEqual(10);
  }, 1_200_000);
});
