// The suite can fail: every rule catches the flaw it is there for, and no rule cries wolf.

import { checks, exemption } from "bridgehead/contract/testing";
import { describe, expect, it } from "vitest";
import { type Flaw, makingFlaws, readingFlaws, serveFlaws } from "../support/contract/flaws.ts";
import {
  capacityFlaws,
  composeFlaws,
  fileFlaws,
  lookFlaws,
  sendFlaws,
} from "../support/contract/flaws-sending.ts";
import { eventFlaws, sessionFlaws } from "../support/contract/flaws-sessions.ts";

const flaws = [
  ...makingFlaws,
  ...readingFlaws,
  ...composeFlaws,
  ...sendFlaws,
  ...capacityFlaws,
  ...fileFlaws,
  ...lookFlaws,
  ...serveFlaws,
  ...sessionFlaws,
  ...eventFlaws,
];

/** What fails, by the name of the check, with its message. Only what is to fail may take long to do so: what a sound check
 *  waits for comes, on a slow machine as well. */
async function failures({ definition, harness, caught }: Flaw): Promise<Record<string, string>> {
  const failed: Record<string, string> = {};
  const applying = checks.filter((check) => exemption(check, harness) === null);
  await Promise.all(
    applying.map((check) => {
      const patienceMs = check.name in caught ? 4000 : 60_000;
      return check.run({ definition, harness: { ...harness, patienceMs } }).catch((error: unknown) => {
        failed[check.name] = error instanceof Error ? error.message : String(error);
      });
    }),
  );
  return failed;
}

describe("a planted flaw is caught by the right rules, and by no other", () => {
  it.concurrent.each(flaws.map((flaw) => [flaw.what, flaw] as const))("%s", async (_what, flaw) => {
    const expected = Object.entries(flaw.caught).map(([name, text]) => [name, expect.stringMatching(text)]);
    expect(await failures(flaw)).toEqual(Object.fromEntries(expected));
  });
});

describe("the suite as a whole", () => {
  it("has a planted flaw for every rule", () => {
    const caught = new Set(flaws.flatMap((flaw) => Object.keys(flaw.caught)));
    expect(checks.map((check) => check.name).filter((name) => !caught.has(name))).toEqual([]);
  });

  it("gives every rule a name of its own", () => {
    expect(new Set(checks.map((check) => check.name)).size).toBe(checks.length);
  });

  it("names the ability and the reason of an exemption", () => {
    const check = checks.find((one) => one.name.startsWith("reconcile"));
    expect(
      check && exemption(check, { start: () => Promise.reject(), lacks: { reconcile: "no search" } }),
    ).toBe("reconcile: no search");
  });
});
