// The suite as vitest tests. Only this file needs vitest, an optional peer dependency of the package.

import { describe, expect, it } from "vitest";
import type { AdapterDefinition } from "../index.ts";
import { checks, exemption } from "./checks/index.ts";
import type { Harness } from "./harness.ts";

// Milliseconds. The harness's timeouts bound every wait inside a check; this limit ends only a harness that hangs.
const limitMs = 120_000;

/** Defines one test for every rule of the contract. Rules of lacking abilities are omitted instead of
 *  skipped, because a skip means that a check could not run here. One more test names those abilities
 *  and their reasons. A separate rule checks that the adapter really lacks the part. */
export function describeAdapter(definition: AdapterDefinition, harness: Harness): void {
  describe(`adapter ${definition.name}`, () => {
    for (const check of checks) {
      if (exemption(check, harness) !== null) continue;
      it(check.name, { timeout: limitMs }, () => check.run({ definition, harness }));
    }
    const lacking = Object.entries(harness.lacks ?? {});
    const named = lacking.map(([ability, reason]) => `${ability}: ${reason}`).join("; ");
    it(lacking.length === 0 ? "lacks nothing" : `says why it lacks ${named}`, () => {
      // `absence` omits no rule: it changes what `reconcile` must answer.
      const known = new Set<string>(["absence", ...checks.flatMap((check) => check.needs)]);
      for (const [ability, reason] of lacking) {
        expect(known, "an ability that no rule needs").toContain(ability);
        expect(reason, `why ${ability} is lacking`).toMatch(/\w/);
      }
    });
  });
}
