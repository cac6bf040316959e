// The matrix of texts can fail.

import { afterAll, beforeAll, describe } from "vitest";
import { textDefects } from "../support/process/defects.ts";
import { catchesAll } from "../support/process/mail/scenario.ts";
import { tellTexts, textCaseNamed } from "../support/process/sms/scenario.ts";
import { type LinesWorld, openPlace, startLinesWorld } from "../support/process/sms/servers.ts";

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
