// The matrix of texts: at which point the daemon dies, and in what world.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FailpointName } from "../../../../src/ops/failpoints.ts";
import { type TextStory, tellTexts } from "./scenario.ts";
import { type LinesWorld, openPlace, type PlaceOptions, startLinesWorld } from "./servers.ts";

export interface TextCase {
  readonly name: string;
  readonly place: PlaceOptions;
  readonly story: TextStory;
}

function both(
  point: FailpointName,
  hit: number,
  variant = "",
  place: PlaceOptions = {},
  story: Partial<TextStory> = {},
): TextCase[] {
  return (["before", "after"] as const).map((phase) => ({
    name: [point, phase, hit, variant].filter(Boolean).join(" "),
    place,
    story: { deaths: [`${point}:${phase}:${hit}`], ...story },
  }));
}

export const textCases: readonly TextCase[] = [
  // The first commit of events holds none: it only says up to when nothing is missing.
  ...[1, 2, 3].flatMap((hit) => both("event.commit", hit)),
  ...(
    [
      "route.commit",
      "ask.record",
      "open.cross",
      "open.commit",
      "ask.cross",
      "answer.commit",
      "draft.commit",
      "receipt.commit",
    ] as const
  ).flatMap((point) => both(point, 1)),
  // One of the later ones is the second part of a long answer.
  ...(["send.record", "send.cross", "outcome.commit"] as const).flatMap((point) =>
    [1, 2, 3].flatMap((hit) => both(point, hit)),
  ),
  ...both("reconcile.commit", 1, "unanswered", {}, { fault: "cut-stored" }),
  ...both("reconcile.commit", 1, "lost", {}, { fault: "cut" }),
  ...both("event.commit", 3, "joined", { debounce: "400ms" }),
  ...both("ask.record", 1, "joined", { debounce: "400ms" }),
  // Before these commits, which are one, nobody could know of the STOP.
  ...both("event.commit", 3, "stop", { agent: "late" }, { plot: "stop" }).slice(1),
  ...both("route.commit", 2, "stop", { agent: "late" }, { plot: "stop" }).slice(1),
  { name: "unanswered", place: {}, story: { deaths: [], fault: "cut-stored" } },
  ...both("event.commit", 2, "picture", {}, { plot: "picture" }),
  ...both("fetch.commit", 1, "picture", {}, { plot: "picture" }),
  { name: "stop during the delay", place: { agent: "late" }, story: { deaths: [], plot: "stop" } },
];

/** The case of that name; throws when there is none. */
export function textCaseNamed(name: string): TextCase {
  const found = textCases.find((one) => one.name === name);
  if (!found) throw new Error(`there is no case ${name}`);
  return found;
}

// Kills the daemon of texts at each of these cases, and states what is left of it after the next start.

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
