// Escalations: death before and after every durable step on the way from the agent's answer to the human's, and back.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { escalationCases } from "./escalation-cases.ts";
import { tellEscalation } from "./escalation-story.ts";
import { type EscalationWorld, openPlace, startEscalationWorld } from "./escalation-world.ts";

describe("the daemon that finds a human, killed and started again", () => {
  let world: EscalationWorld;
  beforeAll(async () => {
    world = await startEscalationWorld();
  });
  afterAll(() => world?.close());

  for (const [index, { name, story }] of escalationCases.entries()) {
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
