// The matrix of escalations can fail.

import { afterAll, beforeAll, describe } from "vitest";
import { escalationDefects } from "../support/process/defects.ts";
import { escalationCaseNamed, tellEscalation } from "../support/process/escalation/scenario.ts";
import { type EscalationWorld, openPlace, startEscalationWorld } from "../support/process/escalation/servers.ts";
import { catchesAll } from "../support/process/mail/scenario.ts";

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
