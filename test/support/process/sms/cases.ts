// The matrix of texts: at which point the daemon dies, and in what world.

import type { FailpointName } from "../../../../src/ops/failpoints.ts";
import type { TextStory } from "./scenario.ts";
import type { PlaceOptions } from "./servers.ts";

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
