// The suite as vitest tests. The only file here that needs vitest, an optional peer of the package.

import { describe, expect, it } from "vitest";
import type { AdapterDefinition } from "../index.ts";
import { checks, exemption } from "./checks.ts";
import type { Harness } from "./harness.ts";

// Every wait inside a check is bounded by the harness's patience; this only ends what hangs in the harness itself.
const limitMs = 120_000;

/** One test for every rule of the contract. Rules of abilities declared lacking are no tests (a skipped test would say
 *  that something could not be tried here); one more test names those abilities and why they are lacking. That the
 *  adapter really has no such part is a rule of its own. */
export function describeAdapter(definition: AdapterDefinition, harness: Harness): void {
  describe(`adapter ${definition.name}`, () => {
    for (const check of checks) {
      if (exemption(check, harness) !== null) continue;
      it(check.name, { timeout: limitMs }, () => check.run({ definition, harness }));
    }
    const lacking = Object.entries(harness.lacks ?? {});
    const named = lacking.map(([ability, reason]) => `${ability}: ${reason}`).join("; ");
    it(lacking.length === 0 ? "lacks nothing" : `says why it lacks ${named}`, () => {
      const known = new Set<string>(checks.flatMap((check) => check.needs));
      for (const [ability, reason] of lacking) {
        expect(known, "an ability that no rule needs").toContain(ability);
        expect(reason, `why ${ability} is lacking`).toMatch(/\w/);
      }
    });
  });
}
