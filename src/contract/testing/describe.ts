// The suite as vitest tests. The only file here that needs vitest, an optional peer of the package.

import { describe, it } from "vitest";
import type { AdapterDefinition } from "../index.ts";
import { checks, exemption } from "./checks.ts";
import type { Harness } from "./harness.ts";

// Every wait inside a check is bounded by the harness's patience; this only ends what hangs in the harness itself.
const limitMs = 120_000;

/** One test for every rule of the contract; rules of abilities declared lacking are skipped, with the reason. */
export function describeAdapter(definition: AdapterDefinition, harness: Harness): void {
  describe(`adapter ${definition.name}`, () => {
    for (const check of checks) {
      const reason = exemption(check, harness);
      if (reason === null) it(check.name, { timeout: limitMs }, () => check.run({ definition, harness }));
      else it.skip(`${check.name} (lacks ${reason})`, () => undefined);
    }
  });
}
