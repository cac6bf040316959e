// A vitest reporter that ends a run with one line of counts, for people and for machines; and the run fails when tests
// were skipped where none may be.

import { appendFileSync } from "node:fs";
import type { Reporter, TestModule, TestResult } from "vitest/node";

/** `12 passed, 0 failed, 1 skipped`. A file that could not even be loaded counts as one failure. */
export function closingLine(states: readonly TestResult["state"][], brokenFiles: number): string {
  const count = (state: TestResult["state"]): number => states.filter((found) => found === state).length;
  // What was still waiting when the run was cut off did not pass.
  const failed = count("failed") + count("pending") + brokenFiles;
  return `${count("passed")} passed, ${failed} failed, ${count("skipped")} skipped`;
}

/** One line per failure: `failed: <file> > <suite> > <test>: <message>`. */
function failuresOf(modules: readonly TestModule[], unhandled: readonly { readonly message: string }[]): string[] {
  const lineOf = (where: string, message = "did not end"): string => `failed: ${where}: ${message.split("\n")[0]}`;
  return [
    ...modules.flatMap((module) => [
      ...module.errors().map(({ message }) => lineOf(module.relativeModuleId, message)),
      ...[...module.children.allTests()]
        .filter((test) => ["failed", "pending"].includes(test.result().state))
        .map((test) => lineOf(`${module.relativeModuleId} > ${test.fullName}`, test.result().errors?.[0]?.message)),
    ]),
    ...unhandled.map(({ message }) => lineOf("outside of tests", message)),
  ];
}

export default function closingLineReporter(): Reporter {
  return {
    onTestRunEnd(modules: readonly TestModule[], unhandled) {
      const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state));
      const broken = modules.filter((module) => module.errors().length > 0).length + unhandled.length;
      if (process.env["BRIDGEHEAD_REQUIRE_ALL"] === "1" && states.includes("skipped")) {
        process.stdout.write("tests were skipped, and BRIDGEHEAD_REQUIRE_ALL=1 allows none\n");
        process.exitCode = 1;
      }
      const line = closingLine(states, broken);
      process.stdout.write(`${line}\n`);
      // `.ci/run` adds up the lanes, and repeats at its end what failed: a log that was cut off still shows it.
      const counts = process.env["BRIDGEHEAD_COUNTS"];
      if (counts) appendFileSync(counts, [line, ...failuresOf(modules, unhandled), ""].join("\n"));
    },
  };
}
