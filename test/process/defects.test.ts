// The matrix can fail: every planted defect is caught by the case that is there for it.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { describeReal, need } from "../real/debian.ts";
import { caseNamed } from "./cases.ts";
import { circumstances, defects, editsOf, planted } from "./defects.ts";
import { tell } from "./story.ts";
import { openPlace, startWorld, type World } from "./world.ts";

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");
const names = Object.keys(defects);

describe("the planted edits", () => {
  it.each([...names, ...Object.keys(circumstances)])("%s fits the sources", (name) => {
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
    world = await startWorld(names, 600);
  });
  afterAll(() => world?.close());

  for (const name of names) {
    const defect = defects[name];
    if (!defect) continue;
    it.concurrent(`catches that ${defect.what}`, { timeout: 300_000 }, async () => {
      const { place: options, story } = caseNamed(defect.caught);
      const place = await openPlace(world, { user: name, ...options });
      try {
        const plant = [...(story.plant ?? []), name];
        const waits = options.agent === "late";
        const patience = defect.endless || waits ? { patience: 15_000 } : {};
        const found = await tell(place, { ...story, plant, ...patience });
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
