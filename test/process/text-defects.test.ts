// The matrix of texts can fail: every planted defect is caught by the case that is there for it.

import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { planted } from "./defects.ts";
import { type LinesWorld, openPlace, startLinesWorld } from "./lines-world.ts";
import { textCaseNamed } from "./text-cases.ts";
import { textDefects } from "./text-defects.ts";
import { tellTexts } from "./text-story.ts";

const names = Object.keys(textDefects);

describe("the edits planted into texts", () => {
  it.each(names)("%s fits the sources", (name) => {
    for (const edit of textDefects[name]?.edits ?? []) {
      const source = readFileSync(new URL(`../../${edit.file}`, import.meta.url), "utf8");
      expect(planted(source, [edit])).not.toBe(source);
    }
  });
});

describe("planted defects of texts", () => {
  let world: LinesWorld;
  beforeAll(async () => {
    world = await startLinesWorld();
  });
  afterAll(() => world?.close());

  for (const [index, name] of names.entries()) {
    const defect = textDefects[name];
    if (!defect) continue;
    it.concurrent(`catches that ${defect.what}`, { timeout: 300_000 }, async () => {
      const { place: options, story } = textCaseNamed(defect.caught);
      const place = await openPlace(world, options);
      try {
        const patience = defect.endless ? { patience: 8000 } : {};
        const found = await tellTexts(place, index, { ...story, plant: [name], ...patience });
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
