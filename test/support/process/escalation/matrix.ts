// Kills the daemon at each of these cases, on the way from the agent's answer to the human's, and back.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EscalationCase } from "./cases.ts";
import { tellEscalation } from "./scenario.ts";
import { type EscalationWorld, openPlace, startEscalationWorld } from "./servers.ts";

/** Defines one test per case. */
export const matrixOfEscalations = (cases: readonly EscalationCase[]) =>
  describe("the daemon that finds a human, killed and started again", () => {
    let world: EscalationWorld;
    beforeAll(async () => {
      world = await startEscalationWorld();
    });
    afterAll(() => world?.close());

    for (const [index, { name, story }] of cases.entries()) {
      it.concurrent(`at ${name}`, { timeout: 600_000 }, async () => {
        const place = await openPlace(world);
        try {
          expect(await tellEscalation(place, index, story)).toEqual([]);
        } finally {
          await place.close();
        }
      });
    }
  });
