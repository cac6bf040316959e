// Replays recorded file operations, cuts the power after each, and examines what the disk may then hold.

import { rmSync, writeFileSync } from "node:fs";
import Sqlite from "better-sqlite3";
import { Disk, type Files, type Survival } from "./disk.ts";
import type { FileOperation } from "./file-trace.ts";

/** The name of the store's file in the recorded operations. */
export const storeName = "store.db";

/** Numbers below 1, the same in every run. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** What the store in `file` says: the problem of the file, or how many transactions it holds, from the first on. */
function examine(file: string): { readonly damage: string | null; readonly present: number } {
  const db = new Sqlite(file);
  try {
    db.pragma("locking_mode = EXCLUSIVE"); // needs no shared memory file
    db.pragma("synchronous = OFF");
    const check = db.pragma("integrity_check(1)", { simple: true });
    if (check !== "ok") return { damage: String(check), present: 0 };
    const tables = db
      .prepare("SELECT count(*) FROM sqlite_master WHERE name IN ('meta', 'files')")
      .pluck()
      .get();
    if (tables !== 2) return { damage: null, present: 0 };
    const broken = db.pragma("foreign_key_check") as unknown[];
    const count = (sql: string) => Number(db.prepare(sql).pluck().get() ?? -1);
    const present = count("SELECT count(*) FROM events");
    const parts = [
      count(
        "SELECT count(*) FROM events WHERE external_id IN (SELECT 'n' || substr(id, 2) FROM turns) AND state = 'routed'",
      ),
      count("SELECT count(*) FROM conversations"),
      count("SELECT count(*) FROM drafts"),
      count("SELECT count(*) FROM lanes") / 2,
      count("SELECT coalesce(max(CAST(substr(id, 2) AS INTEGER)), -1) FROM turns") + 1,
      count("SELECT value FROM meta WHERE name = 'written'") + 1,
    ];
    const whole = broken.length === 0 && parts.every((part) => part === present);
    return { damage: whole ? null : `a transaction is there in part: ${present} ${parts.join()}`, present };
  } catch (error) {
    return { damage: String(error), present: 0 };
  } finally {
    db.close();
  }
}

export interface Findings {
  readonly states: number;
  readonly lost: number;
  readonly corrupt: number;
  readonly first: string;
}

/** Cuts the power after every operation, and examines four of the possible states. States that were examined before are
 *  not counted again. `obeys` says which syncs the disk obeys; the replay ends after `enough` losses. */
export function replay(
  operations: readonly FileOperation[],
  place: string,
  obeys: (call: string) => boolean = () => true,
  enough = Number.POSITIVE_INFINITY,
): Findings {
  const disk = new Disk(obeys);
  const random = randomNumbers(7);
  const known = new Map<string, ReturnType<typeof examine>>();
  const counted = new Set<string>();
  let acknowledged = 0;
  const found = { states: 0, lost: 0, corrupt: 0, first: "" };
  const look = (survival: Survival, index: number) => {
    const { files, key } = disk.contents(survival, random);
    if (counted.has(`${key} ${acknowledged}`)) return;
    counted.add(`${key} ${acknowledged}`);
    let state = known.get(key);
    if (!state) {
      put(place, files);
      state = examine(place);
      known.set(key, state);
    }
    found.states += 1;
    if (state.damage !== null) found.corrupt += 1;
    else if (state.present < acknowledged) found.lost += 1;
    else return;
    const what = state.damage ?? `${state.present} of ${acknowledged} acknowledged`;
    found.first ||= `operation ${index}, ${survival}: ${what}`;
  };
  for (const [index, operation] of operations.entries()) {
    const changes = disk.apply(operation);
    if (operation.kind === "output") {
      for (const [, n] of operation.text.matchAll(/ack (\d+)\n/g))
        acknowledged = Math.max(acknowledged, Number(n) + 1);
    } else if (!changes) continue;
    for (const survival of ["none", "all", "writes", "sectors"] as const) look(survival, index);
    if (found.lost >= enough) break;
  }
  return found;
}

/** Replaces the files of the last state. */
function put(place: string, files: Files): void {
  for (const suffix of ["", "-wal", "-shm", "-journal"]) rmSync(place + suffix, { force: true });
  for (const [file, content] of files)
    if (file.startsWith(storeName)) writeFileSync(place + file.slice(storeName.length), content);
}
