// The copies of an SQLite file that migrations and restores leave next to it. They contain what retention and erasures
// remove from the store later, so they are deleted when they are as old as a raw message may become.

import { readdir, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

/** Sortable timestamp for file names: `20261120T101500123`. */
export const stampOf = (now: number): string => new Date(now).toISOString().replace(/[-:.Z]/g, "");

/** How the names of the copies begin that are made before migrations of the schema, and the name of one. */
export const migrationPrefix = (file: string): string => `${file}.before-migration-`;
export const migrationCopy = (file: string, stamp: string, schema: number): string =>
  `${migrationPrefix(file)}${stamp}-schema-${schema}`;

/** The store that a restore has replaced. */
export const restoreCopy = (file: string, stamp: string): string => `${file}.before-restore-${stamp}`;

/** The names under which a copy is written before it is complete. */
export const partialCopy = (target: string): string => `${target}.partial`;
export const partialRestore = (target: string): string => `${target}.restoring`;

const named =
  /^\.before-(?:migration|restore)-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})(?:-schema-\d+)?(?:\.partial)?(?:-wal|-journal)?$/;
const unnamed = /^\.restoring(?:-wal|-shm|-journal)?$/;

interface Copy {
  readonly path: string;
  /** Epoch milliseconds. */
  readonly madeAt: number;
}

/** Returns the copies next to the file, complete or not. Files with other names are not ours. */
export async function copiesOf(file: string): Promise<readonly Copy[]> {
  const folder = dirname(file);
  const found: Copy[] = [];
  for (const name of (await readdir(folder)).sort()) {
    if (!name.startsWith(basename(file))) continue;
    const path = join(folder, name);
    const rest = name.slice(basename(file).length);
    const [, ...time] = named.exec(rest)?.map(Number) ?? [];
    const [year = 0, month = 1, ...others] = time;
    if (time.length > 0) found.push({ path, madeAt: Date.UTC(year, month - 1, ...others) });
    else if (unnamed.test(rest)) found.push({ path, madeAt: (await stat(path)).mtimeMs });
  }
  return found;
}

/** Deletes the copies next to the file that are at least `ageMs` old, and returns their paths. */
export async function deleteOldCopies(file: string, ageMs: number, now: number): Promise<readonly string[]> {
  const old = (await copiesOf(file)).filter(({ madeAt }) => now - madeAt >= ageMs);
  for (const { path } of old) await rm(path, { force: true });
  return old.map(({ path }) => path);
}
