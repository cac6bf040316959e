// The matrix: at which point the daemon dies, and in what world.

import { type PointName, pointNames } from "../../src/ops/points.ts";
import type { Story } from "./story.ts";
import type { Place, PlaceOptions } from "./world.ts";

export interface Case {
  readonly name: string;
  readonly place: Omit<PlaceOptions, "user">;
  readonly story: Pick<Story, "deaths" | "holds" | "meanwhile" | "plant">;
}

type Point = PointName | "email.mark" | "email.sent-copy";
const phases = ["before", "after"] as const;

function both(point: Point, hit: number, variant = "", more: Partial<Case> = {}): Case[] {
  return phases.map((phase) => ({
    name: [point, phase, hit, variant].filter(Boolean).join(" "),
    place: {},
    story: { deaths: [`${point}:${phase}:${hit}`] },
    ...more,
  }));
}

const holding = (point: Point, hit = 1): Case[] =>
  both(point, hit, "hold").map((one) => ({
    ...one,
    place: { onUnknown: "hold", bounces: false, copies: false },
    story: { ...one.story, holds: true },
  }));

/** As a restore from a backup does: every mail gets another position. */
const renumber = (place: Place) => place.world.dovecot.changeUidValidity(place.options.user);

/** What the world must do for the point to be reached at all. */
const worlds: { readonly [point in PointName]?: Case["place"] } = { "verdict.commit": { resets: 1 } };

export const cases: readonly Case[] = [
  ...pointNames.flatMap((point) => both(point, 1, "", { place: worlds[point] ?? {} })),
  ...both("email.mark", 1),
  ...both("email.sent-copy", 1),
  // The first commit of events holds none: it only says where reading begins.
  ...both("event.commit", 2),
  // The second attempt may be another conversation's opening, the third is a question in any case.
  ...(
    ["ask.record", "ask.cross", "answer.commit", "send.record", "send.cross", "outcome.commit"] as const
  ).flatMap((point) => both(point, 2)),
  ...both("ask.record", 3),
  ...(["send.record", "send.cross", "outcome.commit"] as const).flatMap((point) => holding(point)),
  ...holding("verdict.commit").map((one) => ({ ...one, place: { ...one.place, resets: 1 } })),
  ...(["open.cross", "open.commit"] as const).flatMap((point) =>
    both(point, 1, "create", { place: { opening: "create" } }),
  ),
  ...(["event.commit", "email.mark"] as const).flatMap((point) =>
    both(point, point === "event.commit" ? 2 : 1, "move", { place: { move: true } }),
  ),
  ...(["answer.commit", "send.record"] as const).flatMap((point) =>
    both(point, 1, "late", { place: { agent: "late" } }),
  ),
  ...(["event.commit", "outcome.commit"] as const).flatMap((point) =>
    both(point, 1, "renumbered").map((one) => ({ ...one, story: { ...one.story, meanwhile: renumber } })),
  ),
  { name: "stalled holder", place: { slow: true }, story: { deaths: [], plant: ["short-lease"] } },
];

/** The case of that name; throws when there is none. */
export function caseNamed(name: string): Case {
  const found = cases.find((one) => one.name === name);
  if (!found) throw new Error(`there is no case ${name}`);
  return found;
}
