// A store on a file system without free space (a real one, in memory), and a file that may not grow.

import { execFileSync } from "node:child_process";
import { rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { fill, missingRoot, smallFileSystem } from "../../support/machine/file-system.ts";
import { newFolder } from "../../support/resources.ts";

describeReal("a full disk", missingRoot, () => {
  it("is named with the file and a remedy at the end, and the next start has every commit", async () => {
    const folder = smallFileSystem(4);
    const file = join(folder, "store.db");
    const filler = join(folder, "filler");
    const rows = 20;
    const store = openSqlite(file, Date.now);
    await store.tx((q) => q.run("CREATE TABLE t (n)"));
    for (let n = 0; n < rows; n += 1) await store.tx((q) => q.run("INSERT INTO t VALUES ($1)", "x".repeat(50_000)));
    fill(folder, filler);
    await expect(store.close()).rejects.toThrow(
      new RegExp(`^the store ${file} cannot be used: .*\\(SQLITE_\\w+\\)\\. Remedy: .*disk`),
    );
    rmSync(filler);
    const again = openSqlite(file, Date.now);
    expect(await again.read((q) => q.one("SELECT COUNT(*) AS n FROM t"))).toEqual({ n: rows });
    await again.close();
  });
});

describeReal("a file that may not grow, as at the end of a quota", missingRoot, () => {
  it("fails checkpoints and commits for as long as this lasts, and loses nothing", async () => {
    const file = join(newFolder(), "store.db");
    const store = openSqlite(file, Date.now, { checkpointPages: 50 });
    onTestFinished(() => store.close());
    const write = (n: number) => store.tx((q) => q.run("INSERT INTO t VALUES ($1, $2)", n, "x".repeat(4000)));
    const limit = (bytes: string) =>
      execFileSync("prlimit", ["--pid", String(process.pid), `--fsize=${bytes}:unlimited`]);
    await store.tx((q) => q.run("CREATE TABLE t (n, text)"));
    let written = 0;
    for (; written < 1000; written += 1) await write(written);
    await store.maintain();
    onTestFinished(() => void limit("unlimited"));
    limit(String(statSync(file).size));
    let failure: unknown = null;
    while (failure === null && written < 20_000) {
      failure = await write(written).then(
        () => null,
        (error: unknown) => error,
      );
      if (failure === null) written += 1;
    }
    expect((failure as { code?: string } | null)?.code).toBe("SQLITE_IOERR_WRITE");
    limit("unlimited");
    await write(written);
    expect(await store.read((q) => q.one("SELECT COUNT(*) AS n FROM t"))).toEqual({ n: written + 1 });
  });
});
