// Power-cut replay of the real driver: acknowledged transactions are there in every state of the disk, each is whole or absent, and
// no file is damaged.

import { tmpdir } from "node:os";
import { join } from "node:path";
import type Sqlite from "better-sqlite3";
import { expect, it } from "vitest";
import { describeReal, need } from "../../support/machine/debian.ts";
import {
  type Evidence,
  type FileOperation,
  folder,
  hasTables,
  numberOf,
  type Output,
  replay,
  report,
  storeName,
  traceFiles,
} from "../../support/store/power-cut.ts";

interface Numbered {
  /** How many transactions the store holds, from the first on. */
  readonly present: number;
  readonly isWhole: boolean;
  readonly parts: readonly number[];
}

/** The transactions of `test/support/store/child.ts`. They are numbered in the order of their commits: where a later one is, all
 *  earlier ones are, also those with `durable: false`. */
class Transactions implements Evidence<Numbered> {
  #acknowledged = 0;
  #resolved = 0;
  /** States without a transaction that had resolved with `durable: false`. */
  taken = 0;

  note({ to, text }: Output): boolean {
    const before = this.#acknowledged;
    for (const [, what, n] of to === "stdout" ? text.matchAll(/^(\w+) (\d+)$/gm) : []) {
      if (what === "done") this.#resolved = Math.max(this.#resolved, Number(n) + 1);
      if (what === "ack" || what === "seen") this.#acknowledged = Math.max(this.#acknowledged, Number(n) + 1);
    }
    return this.#acknowledged > before;
  }

  read(db: Sqlite.Database): Numbered {
    if (!hasTables(db, "meta", "files")) return { present: 0, isWhole: true, parts: [] };
    const count = (sql: string) => numberOf(db, sql);
    const present = count("SELECT count(*) FROM events");
    const parts = [
      count("SELECT max(CAST(substr(external_id, 2) AS INTEGER)) FROM events") + 1,
      count(
        "SELECT count(*) FROM events WHERE external_id IN (SELECT 'n' || substr(id, 2) FROM turns) AND state = 'routed'",
      ),
      count("SELECT count(*) FROM conversations"),
      count("SELECT count(*) FROM drafts"),
      count("SELECT count(*) FROM lanes") / 2,
      count("SELECT coalesce(max(CAST(substr(id, 2) AS INTEGER)), -1) FROM turns") + 1,
      count("SELECT value FROM meta WHERE name = 'written'") + 1,
    ];
    return { present, isWhole: parts.every((part) => part === present), parts };
  }

  broken({ present, isWhole, parts }: Numbered): ReturnType<Evidence<Numbered>["broken"]> {
    if (!isWhole) return { kind: "corrupt", what: `a transaction is there in part: ${present} ${parts.join()}` };
    if (present < this.#acknowledged) return { kind: "lost", what: `${present} of ${this.#acknowledged} acknowledged` };
    if (present < this.#resolved) this.taken += 1;
    return null;
  }
}

const missing = await need("strace", "/usr/bin/strace");
const program = new URL("../../support/store/child.ts", import.meta.url).pathname;

/** Two processes that die and one that closes the store, one after the other on the same file. */
async function record(): Promise<FileOperation[]> {
  const file = join(folder(tmpdir()), storeName);
  const node = [process.execPath, "--conditions=source", program, "write", file];
  const operations: FileOperation[] = [];
  for (const [first, count, end] of [
    [0, 49, "crash"],
    [49, 33, "close"],
    [82, 31, "die"],
  ] as const)
    operations.push(...(await traceFiles(file, [...node, String(first), String(count), end])));
  return operations;
}

describeReal("a power cut", missing, () => {
  it("loses nothing acknowledged and damages nothing, at every instant", async () => {
    const operations = await record();
    const lines = operations.flatMap((one) => (one.kind === "output" ? one.text.trim().split("\n") : []));
    const numbers = (what: RegExp) => lines.filter((line) => what.test(line)).map((line) => Number(line.split(" ")[1]));
    expect(numbers(/^commit /)).toEqual(Array.from({ length: 113 }, (_, n) => n));
    expect(numbers(/^done /).length).toBeGreaterThanOrEqual(25);
    // The second process reads what the first has left.
    expect(numbers(/^seen /)).toContain(48);
    // Maintenance has made statistics, and returned pages to the file system: a checkpoint made the file shorter.
    expect(numbers(/^statistics /).filter((n) => n > 0)).toHaveLength(2);
    const sizes = operations.flatMap((one) => (one.kind === "truncate" && one.file === storeName ? [one.size] : []));
    expect(sizes.at(-1)).toBeLessThan(Math.max(...sizes));
    const transactions = new Transactions();
    const found = replay(operations, transactions);
    report("which obeys every sync", found);
    expect(found).toMatchObject({ lost: 0, corrupt: 0, first: "" });
    expect(found.states).toBeGreaterThanOrEqual(20_000);
    expect(transactions.taken).toBeGreaterThan(0);

    // Without the syncs of the driver, those of SQLite still keep the file whole.
    const forgetful = replay(operations, new Transactions(), (call) => call !== "fdatasync", 10);
    report("which obeys only SQLite's", forgetful);
    expect(forgetful.lost).toBeGreaterThanOrEqual(10);
    expect(forgetful.corrupt).toBe(0);

    const careless = replay(operations, new Transactions(), () => false, 10);
    report("which obeys none", careless);
    expect(careless.lost).toBeGreaterThanOrEqual(10);
  }, 1_200_000);
});
