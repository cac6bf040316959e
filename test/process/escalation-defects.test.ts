// The matrix of escalations can fail: every planted defect is caught by the case that is there for it.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { planted } from "./defects.ts";
import { escalationCaseNamed } from "./escalation-cases.ts";
import { escalationDefects } from "./escalation-defects.ts";
import { tellEscalation } from "./escalation-story.ts";
import { type EscalationWorld, openPlace, startEscalationWorld } from "./escalation-world.ts";

const names = Object.keys(escalationDefects);

describe("the edits planted into escalations", () => {
  it.each(names)("%s fits the sources", (name) => {
    for (const edit of escalationDefects[name]?.edits ?? []) {
      const source = readFileSync(new URL(`../../${edit.file}`, import.meta.url), "utf8");
      expect(planted(source, [edit])).not.toBe(source);
    }
  });
});

describe("planted defects of escalations", () => {
  let world: EscalationWorld;
  beforeAll(async () => {
    world = await startEscalationWorld();
  });
  afterAll(() => world?.close());

  for (const [index, name] of names.entries()) {
    const defect = escalationDefects[name];
    if (!defect) continue;
    it.concurrent(`catches that ${defect.what}`, { timeout: 600_000 }, async () => {
      const { story } = escalationCaseNamed(defect.caught);
      const place = await openPlace(world);
      try {
        const patience = defect.endless ? { patience: 8000 } : {};
        const found = await tellEscalation(place, index, { ...story, plant: [name], ...patience });
        const broken = [...new Set(found.map(({ invariant }) => invariant))];
        expect(
          broken.filter((one) => defect.by.includes(one)),
          JSON.stringify(found),
        ).not.toEqual([]);
      } finally {
        await place.close();
      }
    });
  }
});
