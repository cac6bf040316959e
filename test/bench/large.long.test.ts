// The benchmark of large stores. Its platform and its provider are parts of the benchmark, which must follow the interfaces
// of the daemon.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import Sqlite from "better-sqlite3";
import { expect, it } from "vitest";
import { root } from "../support/machine/command.ts";
import { printSection, sections } from "./report.ts";
import { largeStore } from "./store/large-store.ts";

const stages = ["accept", "route", "ask", "send", "commit", "all steps"];

it("npm run bench -- --quick --only large prints the time of each stage", async () => {
  const args = ["--conditions=source", "test/bench/run.ts", "--quick", "--only", "large"];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  for (const stage of stages)
    for (const customers of ["", ", returning customers"])
      expect(stdout).toMatch(new RegExp(`with 100000 messages${customers}: ${stage} +[\\d.]+ +[\\d.]+ us`));
  expect(stdout, "the breakdown").toMatch(/^COMMIT( +-?[\d.]+){5}$/m);
});

it("the goal is missed by a store that reads its conversations for each mail", async () => {
  printSection("a large store without an index");
  await largeStore(50_000, 4, (file) => {
    const db = new Sqlite(file);
    db.exec("DROP INDEX conversations_person");
    db.close();
  });
  const figures = sections.at(-1)?.figures.filter(({ name }) => name.endsWith(": accept")) ?? [];
  expect(figures.map(({ name, goal }) => [name, goal?.met])).toEqual([
    ["store with 50000 messages: accept", false],
    ["store with 50000 messages, returning customers: accept", false],
  ]);
});
