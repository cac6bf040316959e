// The matrix can fail; and whatever can be planted, for any matrix, still fits the sources.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeReal, need } from "../real/debian.ts";
import { caseNamed } from "./cases.ts";
import { catchesAll } from "./catching.ts";
import { defects } from "./defects.ts";
import { planted } from "./planting.ts";
import { editsOf, plantable } from "./plants.ts";
import { tell } from "./story.ts";
import { openPlace, startWorld, type World } from "./world.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

describe("the planted edits", () => {
  it.each([...plantable])("%s fits the sources", (name) => {
    for (const file of new Set(editsOf(name).map((edit) => edit.file))) {
      const source = readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
      const edits = editsOf(name).filter((edit) => edit.file === file);
      expect(planted(source, edits)).not.toBe(source);
    }
  });
});

describeReal("planted defects", missing, () => {
  let world: World;
  beforeAll(async () => {
    // However slow the machine: who forgets that an answer was to wait is far too early.
    world = await startWorld(Object.keys(defects), 600);
  });
  afterAll(() => world?.close());

  const patience = 15_000;
  catchesAll({
    defects,
    patience,
    async tell(caught, { plant, ...more }, { name }) {
      const { place: options, story } = caseNamed(caught);
      const place = await openPlace(world, { user: name, ...options });
      const waits = options.agent === "late" ? { patience } : {};
      try {
        return await tell(place, { ...story, ...waits, ...more, plant: [...(story.plant ?? []), ...plant] });
      } finally {
        await place.close();
      }
    },
  });
});
