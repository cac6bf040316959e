// A store on a file system without free space: a real one, in memory.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { describeReal } from "../../support/machine/debian.ts";

const missing = process.getuid?.() === 0 ? null : "root is needed to mount a small file system";

/** Mounts an empty file system of `megabytes`. */
function smallFileSystem(megabytes: number): string {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-small-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder]);
  onTestFinished(() => {
    execFileSync("umount", [folder]);
    rmSync(folder, { recursive: true });
  });
  return folder;
}

describeReal("a full disk", missing, () => {
  it("is named with the file and a remedy at the end, and the next start has every commit", async () => {
    const folder = smallFileSystem(4);
    const file = join(folder, "store.db");
    const filler = join(folder, "filler");
    const rows = 20;
    const store = openSqlite(file, Date.now);
    await store.tx((q) => q.run("CREATE TABLE t (n)"));
    for (let n = 0; n < rows; n += 1) await store.tx((q) => q.run("INSERT INTO t VALUES ($1)", "x".repeat(50_000)));
    const { bavail, bsize } = statfsSync(folder);
    writeFileSync(filler, new Uint8Array(bavail * bsize));
    await expect(store.close()).rejects.toThrow(
      new RegExp(`^the store ${file} cannot be used: .*\\(SQLITE_\\w+\\)\\. Remedy: .*disk`),
    );
    rmSync(filler);
    const again = openSqlite(file, Date.now);
    expect(await again.read((q) => q.one("SELECT COUNT(*) AS n FROM t"))).toEqual({ n: rows });
    await again.close();
  });
});
