// Loads the configuration and opens the store for a command.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { openDatabase } from "../../app.ts";
import { loadAdapter } from "../../channels/loader.ts";
import { type LoadOptions, loadStore, type Rejected, type StoreConfig } from "../../config/index.ts";
import { commandText } from "../../domain/command-text.ts";
import { systemClock as clock } from "../../ops/clock.ts";
import type { Database } from "../../store/driver.ts";
import { migrations, schemaVersion } from "../../store/migrate.ts";
import { channelsSince } from "../../store/tables/events.ts";
import { type CommandOptions, credentialsFor, exitCodes, fail, type Io, problemLine } from "../io.ts";

/** Loads the configuration, or a part of it. Fails with all its problems. */
export async function load<Loaded extends { readonly ok: true } | Rejected>(
  loader: (path: string, options: LoadOptions) => Promise<Loaded>,
  { config }: CommandOptions,
  io: Io,
): Promise<Extract<Loaded, { readonly ok: true }>> {
  const path = resolve(io.cwd, config);
  const loaded = await loader(path, { env: io.env, adapters: loadAdapter, ...credentialsFor(path, io.env) });
  if (!loaded.ok) fail(loaded.problems.map(problemLine).join("\n"), exitCodes.config);
  return loaded as Extract<Loaded, { readonly ok: true }>;
}

/** Opens the configured store, runs `work`, closes it. Reads only the keys `store` and `channels`, so secrets that systemd
 *  gives to the service alone are not needed. Fails when the option `channel` names an unknown one. */
export async function withStore<T>(
  options: CommandOptions & { readonly channel?: string },
  io: Io,
  work: (db: Database) => Promise<T>,
): Promise<T> {
  const loaded = await load(loadStore, options, io);
  return useStore(loaded, io, async (db) => {
    await requireChannel(db, loaded, options.channel);
    return work(db);
  });
}

/** Fails when the channel is neither in the configuration nor, because it was removed there, in the store. */
export async function requireChannel(
  db: Database,
  { file, channels }: { readonly file: string; readonly channels: readonly { readonly id: string }[] },
  channel: string | undefined,
): Promise<void> {
  if (channel === undefined || channels.some(({ id }) => id === channel)) return;
  const stored = await db.read(channelsSince);
  const known = [...new Set([...channels.map(({ id }) => id), ...stored.keys()])];
  if (!known.includes(channel)) failUnknownChannel(channel, known, file);
}

/** Fails because the configuration `file` has only the channels `known`. */
export const failUnknownChannel = (channel: string, known: readonly string[], file: string): never =>
  fail(`there is no channel ${channel} in ${file}: it has ${known.join(", ") || "none"}`, exitCodes.usage);

/** Opens a store whose location is known, in parallel to the daemon: no lock, no migration, the same file or server.
 *  Fails when it does not exist or has another schema. */
export async function useStore<T>(
  { file, store }: { readonly file: string; readonly store: StoreConfig },
  { timing }: Pick<Io, "timing">,
  work: (db: Database) => Promise<T>,
): Promise<T> {
  const missing = store.kind === "sqlite" ? whyNoFile(store.file, file) : null;
  if (missing !== null) fail(missing);
  const db = await openDatabase({ store }, clock, timing);
  try {
    await requireSchema(db, file);
    return await work(db);
  } finally {
    await db.close();
  }
}

/** Fails when the store has another schema than that of this version. */
export async function requireSchema(db: Database, config: string): Promise<void> {
  const [found, own] = [await schemaVersion(db), migrations.length];
  const has = `the store has schema ${found}, this version`;
  if (found > own) fail(`${has} knows up to ${own}: run the newer Bridgehead that wrote it`, exitCodes.newerSchema);
  if (found < own) fail(`${has} needs ${own}: run ${commandText("migrate", config)}`);
}

/** Returns an error when the file does not exist, because opening it would create a new store. */
function whyNoFile(file: string, configuration: string): string | null {
  try {
    statSync(file);
    return null;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT")
      return `there is no store ${file} (correct the key store of ${configuration}, or create it with ${commandText("migrate", configuration)})`;
    return `the store ${file} cannot be opened: run this as the daemon's user`;
  }
}
