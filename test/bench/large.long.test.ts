// The benchmark of large stores. Its platform and its provider are parts of the benchmark, which must follow the interfaces
// of the daemon.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { root } from "../support/machine/command.ts";

const stages = ["accept", "route", "ask", "send", "commit", "all steps"];

it("npm run bench -- --quick --only large prints the time of each stage", async () => {
  const args = ["--conditions=source", "test/bench/run.ts", "--quick", "--only", "large"];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  for (const stage of stages) expect(stdout).toMatch(new RegExp(`with 100000 messages: ${stage} +[\\d.]+ +[\\d.]+ us`));
});
