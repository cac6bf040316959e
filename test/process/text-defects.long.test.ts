// The matrix of texts can fail.

import { afterAll, beforeAll, describe } from "vitest";
import { catchesAll } from "./catching.ts";
import { type LinesWorld, openPlace, startLinesWorld } from "./lines-world.ts";
import { textCaseNamed } from "./text-cases.ts";
import { textDefects } from "./text-defects.ts";
import { tellTexts } from "./text-story.ts";

describe("planted defects of texts", () => {
  let world: LinesWorld;
  beforeAll(async () => {
    world = await startLinesWorld();
  });
  afterAll(() => world?.close());

  catchesAll({
    defects: textDefects,
    async tell(caught, planted, { number }) {
      const { place: options, story } = textCaseNamed(caught);
      const place = await openPlace(world, options);
      try {
        return await tellTexts(place, number, { ...story, ...planted });
      } finally {
        await place.close();
      }
    },
  });
});
