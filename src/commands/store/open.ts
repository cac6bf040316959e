// Loads the configuration and opens the store for a command.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { openDatabase } from "../../app.ts";
import { loadAdapter } from "../../channels/loader.ts";
import { type LoadOptions, loadStore, type Rejected, type StoreConfig } from "../../config/index.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import type { Database } from "../../store/driver.ts";
import { migrations, schemaVersion } from "../../store/migrate.ts";
import { type CommandOptions, exitCodes, fail, type Io, problemLine } from "../io.ts";

/** Loads the configuration, or a part of it. Fails with all its problems. */
export async function load<Loaded extends { readonly ok: true } | Rejected>(
  loader: (path: string, options: LoadOptions) => Promise<Loaded>,
  { config }: CommandOptions,
  io: Io,
): Promise<Extract<Loaded, { readonly ok: true }>> {
  const loaded = await loader(resolve(io.cwd, config), { env: io.env, adapters: loadAdapter });
  if (!loaded.ok) fail(loaded.problems.map(problemLine).join("\n"), exitCodes.config);
  return loaded as Extract<Loaded, { readonly ok: true }>;
}

/** Opens the configured store, runs `work`, closes it. Reads only the key `store`, so secrets that systemd gives to
 *  the service alone are not needed. */
export const withStore = async <T>(options: CommandOptions, io: Io, work: (db: Database) => Promise<T>): Promise<T> =>
  useStore(await load(loadStore, options, io), work);

/** Opens a store whose location is known, in parallel to the daemon: no lock, no migration, the same file or server.
 *  Fails when it does not exist or has another schema. */
export async function useStore<T>(
  { file, store }: { readonly file: string; readonly store: StoreConfig },
  work: (db: Database) => Promise<T>,
): Promise<T> {
  const missing = store.kind === "sqlite" ? whyNoFile(store.file) : null;
  if (missing !== null) fail(`${missing} (correct the key store of ${file}, or create it with bridgehead migrate)`);
  const db = await openDatabase({ store }, clock);
  try {
    const found = await schemaVersion(db);
    if (found !== migrations.length)
      fail(
        `the store has schema ${found}, this version needs ${migrations.length}: run bridgehead migrate, or the version that wrote it`,
        found > migrations.length ? exitCodes.newerSchema : exitCodes.failed,
      );
    return await work(db);
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
