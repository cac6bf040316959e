// The matrix of escalations can fail.

import { afterAll, beforeAll, describe } from "vitest";
import { catchesAll } from "./catching.ts";
import { escalationCaseNamed } from "./escalation-cases.ts";
import { escalationDefects } from "./escalation-defects.ts";
import { tellEscalation } from "./escalation-story.ts";
import { type EscalationWorld, openPlace, startEscalationWorld } from "./escalation-world.ts";

describe("planted defects of escalations", () => {
  let world: EscalationWorld;
  beforeAll(async () => {
    world = await startEscalationWorld();
  });
  afterAll(() => world?.close());

  catchesAll({
    defects: escalationDefects,
    timeout: 600_000,
    async tell(caught, planted, { number }) {
      const { story } = escalationCaseNamed(caught);
      const place = await openPlace(world);
      try {
        return await tellEscalation(place, number, { ...story, ...planted });
      } finally {
        await place.close();
      }
    },
  });
});
