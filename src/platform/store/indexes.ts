// Merges the segments of the full-text indexes. Every commit adds a segment, and FTS5 merges some of them at later commits;
// a search reads all that are left. Merging all rewrites the whole index, so it is done once a day, in short transactions.

import { type Clock, day, type Log, minute } from "bridgehead/contract";
import { count } from "./lists.ts";
import type { Db, PlatformStore } from "./store.ts";

const delayMs = minute;
const everyMs = day;
/** Pages of one transaction: about 2 ms. */
const pagesAtOnce = 16;

export function prepareIndexes(db: Db) {
  return ["wording", "passage"].map((name) => prepareIndex(db, name));
}

function prepareIndex(db: Db, name: string) {
  const merge = db.prepare<[number]>(`INSERT INTO ${name} (${name}, rank) VALUES ('merge', ?)`);
  const changes = count<[]>(db, "SELECT total_changes()");
  return {
    /** Returns the number of segments in the file, of which another process may have written some. */
    segments: count<[]>(
      db,
      `WITH RECURSIVE segment (id) AS (
         SELECT min(segid) FROM ${name}_idx
         UNION ALL SELECT (SELECT min(segid) FROM ${name}_idx WHERE segid > id) FROM segment WHERE id IS NOT NULL)
       SELECT count(id) FROM segment`,
    ),
    /** Merges about `pages` pages; a negative number begins to merge all segments. Returns false when none are left to
     *  merge. */
    merge: (pages: number): boolean => {
      const before = changes();
      merge.run(pages);
      return changes() - before > 1;
    },
  };
}

/** Runs until the signal aborts. What a process leaves unfinished is merged by the next one. */
export async function mergeSegments(
  { indexes, commits }: Pick<PlatformStore, "indexes" | "commits">,
  { clock, log, signal }: { readonly clock: Clock; readonly log: Log; readonly signal: AbortSignal },
): Promise<void> {
  await clock.sleep(delayMs, signal);
  while (!signal.aborted) {
    try {
      for (const index of indexes) {
        if (index.segments() < 2) continue;
        let pages = -pagesAtOnce;
        while (!signal.aborted && (await commits.write(() => index.merge(pages)))) pages = pagesAtOnce;
      }
    } catch (error) {
      log.error({ err: error }, "merging the search index failed");
    }
    await clock.sleep(everyMs, signal);
  }
}
