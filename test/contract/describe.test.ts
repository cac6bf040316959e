// describeAdapter as its user sees it: vitest in a process of its own, over the adapters of conformance.test.ts.

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { checks, exemption } from "bridgehead/contract/testing";
import { expect, it } from "vitest";
import { newFolder } from "../support/resources.ts";
import { callHarness } from "./call-adapter.ts";
import { hookHarness } from "./hook-adapter.ts";
import { lineHarness } from "./line-peer.ts";

interface Report {
  readonly testResults: readonly { readonly assertionResults: readonly Result[] }[];
}
interface Result {
  readonly ancestorTitles: readonly string[];
  readonly title: string;
  readonly status: string;
}

it("makes a test of every rule, and of what an adapter says it lacks", async () => {
  const folder = newFolder();
  const file = path.join(folder, "report.json");
  const vitest = ["node_modules/vitest/vitest.mjs", "run", "--reporter=json", `--outputFile=${file}`];
  await promisify(execFile)(process.execPath, [...vitest, "test/contract/conformance.test.ts"]);
  const report = JSON.parse(await readFile(file, "utf8")) as Report;
  const results = report.testResults.flatMap((file) => file.assertionResults);
  for (const [name, harness] of Object.entries({ line: lineHarness, hook: hookHarness, call: callHarness })) {
    const seen = results
      .filter((one) => one.ancestorTitles.includes(`adapter ${name}`))
      .map((one) => [one.title, one.status]);
    const due = checks.filter((check) => exemption(check, harness) === null);
    expect(due.length).toBeLessThan(checks.length);
    const lacks = Object.entries(harness.lacks ?? {}).map(([ability, reason]) => `${ability}: ${reason}`);
    expect(seen).toEqual([
      ...due.map((check) => [check.name, "passed"]),
      [`says why it lacks ${lacks.join("; ")}`, "passed"],
    ]);
  }
});
