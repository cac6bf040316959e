// Commands on a file system that is mounted read-only or full: each names the cause and its remedy.

import { writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { exitCodes } from "../../../src/commands/io.ts";
import { inProcess } from "../../support/machine/command.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { fill, missingRoot, mountReadOnly, smallFileSystem } from "../../support/machine/file-system.ts";
import { newFolder } from "../../support/resources.ts";

/** A migrated store in `folder`, and a configuration outside of it. */
async function storeIn(folder: string) {
  const home = newFolder();
  const config = join(home, "bridgehead.yaml");
  const configure = (store: string) =>
    writeFileSync(
      config,
      `platform: { url: https://p.example.com }\nagents: {}\nchannels: {}\nstore: sqlite:${store}\n`,
      { mode: 0o600 },
    );
  configure(join(folder, "store.db"));
  const run = (...args: string[]) => inProcess([...args, "--config", config]);
  expect((await run("migrate")).code).toBe(exitCodes.ok);
  return { home, run, configure };
}

describeReal("a file system that is mounted read-only", missingRoot, () => {
  it("is named as the cause by every command that opens the store", async () => {
    const folder = smallFileSystem(8);
    const { run } = await storeIn(folder);
    mountReadOnly(folder);
    for (const args of [
      ["inbox", "list"],
      ["pause"],
      ["console"],
      ["migrate"],
      ["backup", join(tmpdir(), "none.db")],
    ]) {
      const { err } = await run(...args).catch((error: Error) => ({ err: error.message }));
      expect(err, args[0]).toMatch(/SQLITE_\w+\)\. Remedy: its file system is mounted read-only: .*dmesg/);
    }
    expect((await run("check")).out).toMatch(
      /lies in a folder that cannot be written: .* \(its file system is mounted/,
    );
  });

  it("and a full disk are named as the cause of a lock that fails, and of a restore", async () => {
    const [folder, full] = [smallFileSystem(8), smallFileSystem(4)];
    const { home, run, configure } = await storeIn(folder);
    const copy = join(home, "copy.db");
    expect((await run("backup", copy)).code).toBe(exitCodes.ok);
    mountReadOnly(folder);
    expect(await run("restore", copy)).toMatchObject({
      code: exitCodes.failed,
      err: expect.stringMatching(/EROFS.*\(its file system is mounted read-only/),
    });
    fill(full, join(full, "filler"));
    configure(join(full, "store.db"));
    await expect(run("migrate")).rejects.toThrow(
      /^locking the store .* failed: .*\((free some space on the disk|.* the disk is not full, .*)\)$/,
    );
  });

  it("may contain the backup that is restored", async () => {
    const folder = smallFileSystem(8);
    const { home, run, configure } = await storeIn(folder);
    const copy = join(folder, "copy.db");
    expect((await run("backup", copy)).code).toBe(exitCodes.ok);
    mountReadOnly(folder);
    configure(join(home, "restored.db"));
    expect(await run("restore", copy)).toMatchObject({
      code: exitCodes.ok,
      out: expect.stringContaining("restored to"),
    });
    expect((await run("inbox", "list")).code).toBe(exitCodes.ok);
  });
});

describeReal("a full disk", missingRoot, () => {
  it("is the cause and the remedy that doctor prints", async () => {
    const folder = smallFileSystem(4);
    const { run } = await storeIn(folder);
    fill(folder, join(folder, "filler"));
    const { findings } = JSON.parse((await run("doctor", "--only", "store-unusable", "--json")).out) as {
      findings: unknown[];
    };
    expect(findings).toMatchObject([
      {
        cause: expect.stringMatching(/cannot be used: .*\(SQLITE_\w+\)$/),
        remedy: expect.stringContaining("the disk"),
      },
    ]);
  });
});
