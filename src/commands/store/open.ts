// Opens the store for a command that runs in parallel to the daemon: no lock, no migration, the same file
// or server.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { openDatabase } from "../../app.ts";
import { loadStore, type StoreConfig } from "../../config/index.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import type { Database } from "../../store/driver.ts";
import { migrations, schemaVersion } from "../../store/migrate.ts";
import type { Io } from "../io.ts";
import { exitCodes, problemLine } from "../io.ts";

/** Opens the configured store, runs `work`, closes it. Prints a rejected configuration or schema and
 *  returns its exit code. Reads only the key `store`, so secrets that systemd gives to the service alone
 *  are not needed. */
export async function withStore(
  options: { readonly config: string },
  io: Io,
  work: (db: Database) => Promise<number>,
): Promise<number> {
  const loaded = await loadStore(resolve(io.cwd, options.config), { env: io.env });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    return exitCodes.config;
  }
  return useStore(loaded, io, work);
}

/** Opens a store whose location is known. */
export async function useStore(
  loaded: { readonly file: string; readonly store: StoreConfig },
  io: Io,
  work: (db: Database) => Promise<number>,
): Promise<number> {
  const missing = loaded.store.kind === "sqlite" ? whyNoFile(loaded.store.file) : null;
  if (missing !== null) {
    io.err(`${missing} (correct the key store of ${loaded.file}, or create it with bridgehead migrate)`);
    return exitCodes.failed;
  }
  const db = await openDatabase(loaded, clock);
  try {
    const found = await schemaVersion(db);
    if (found === migrations.length) return await work(db);
    io.err(
      `the store has schema ${found}, this version needs ${migrations.length}: run bridgehead migrate, or the version that wrote it`,
    );
    return found > migrations.length ? exitCodes.newerSchema : exitCodes.failed;
  } finally {
    await db.close();
  }
}

/** Returns an error when the file does not exist, because opening it would create a new store. */
function whyNoFile(file: string): string | null {
  try {
    statSync(file);
    return null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return `there is no store ${file}`;
    return `the store ${file} cannot be opened: run this as the daemon's user`;
  }
}
