// Kills the daemon of texts at each of these cases, and states what is left of it after the next start.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TextCase } from "./cases.ts";
import { tellTexts } from "./scenario.ts";
import { type LinesWorld, openPlace, startLinesWorld } from "./servers.ts";

/** Defines one test per case. */
export const matrixOfTexts = (cases: readonly TextCase[]) =>
  describe("the daemon of texts, killed and started again", () => {
    let world: LinesWorld;
    beforeAll(async () => {
      world = await startLinesWorld();
    });
    afterAll(() => world?.close());

    for (const [index, { name, place: options, story }] of cases.entries()) {
      it.concurrent(`at ${name}`, { timeout: 300_000 }, async () => {
        const place = await openPlace(world, options);
        try {
          expect(await tellTexts(place, index, story)).toEqual([]);
        } finally {
          await place.close();
        }
      });
    }
  });
