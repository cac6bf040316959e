// The matrix: at which point the daemon dies, and in what world.

import { afterAll, beforeAll, expect, it } from "vitest";
import { type FailpointName, failpointNames } from "../../../../src/ops/failpoints.ts";
import { describeReal, need } from "../../machine/debian.ts";
import { type Story, tell } from "./scenario.ts";
import { openPlace, type Place, type PlaceOptions, startWorld, type World } from "./servers.ts";

export interface Case {
  readonly name: string;
  readonly place: Omit<PlaceOptions, "user">;
  readonly story: Pick<Story, "deaths" | "holds" | "meanwhile" | "plant" | "stalls">;
}

type Point = FailpointName | "email.mark" | "email.sent-copy";
const phases = ["before", "after"] as const;

function both(point: Point, hit: number, variant = "", more: Partial<Case> = {}): Case[] {
  return phases.map((phase) => ({
    name: [point, phase, hit, variant].filter(Boolean).join(" "),
    place: {},
    story: { deaths: [`${point}:${phase}:${hit}`] },
    ...more,
  }));
}

const held: Case["place"] = { onUnknown: "hold", bounces: false, copies: false };

const holding = (point: Point, hit = 1): Case[] =>
  both(point, hit, "hold").map((one) => ({
    ...one,
    place: held,
    story: { ...one.story, holds: "in flight" as const },
  }));

/** As a restore from a backup does: every mail gets another position. */
const renumber = (place: Place) => place.world.dovecot.changeUidValidity(place.options.user);

/** What the world must do for the point to be reached at all. */
const worlds: { readonly [point in FailpointName]?: Case["place"] } = { "reconcile.commit": { resets: 1 } };

/** No call comes by mail, a mail brings its attachments along, nobody is told of anything here, and pauses, repairs, backups and
 *  copies are made by commands (test/commands kills them: pause, backup and store-copy). */
const elsewhere: ReadonlySet<FailpointName> = new Set([
  "session.commit",
  "fetch.commit",
  "notify.commit",
  "poll.commit",
  "platform-webhook.commit",
  "action.commit",
  "pause.commit",
  "repair.commit",
  "backup.copy",
  "restore.swap",
  "store.copy",
  "store.copied",
]);

export const cases: readonly Case[] = [
  ...failpointNames
    .filter((point) => !elsewhere.has(point))
    .flatMap((point) => both(point, 1, "", { place: worlds[point] ?? {} })),
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
  ...holding("reconcile.commit").map((one) => ({ ...one, place: { ...one.place, resets: 1 } })),
  ...(["open.cross", "open.commit"] as const).flatMap((point) =>
    both(point, 1, "create", { place: { opening: "create" } }),
  ),
  ...(["event.commit", "email.mark"] as const).flatMap((point) =>
    both(point, point === "event.commit" ? 2 : 1, "move", { place: { move: true } }),
  ),
  ...both("answer.commit", 1, "late", { place: { agent: "late" } }),
  ...(["event.commit", "outcome.commit"] as const).flatMap((point) =>
    both(point, 1, "renumbered").map((one) => ({ ...one, story: { ...one.story, meanwhile: renumber } })),
  ),
  { name: "silent relay hold", place: { ...held, resets: 1 }, story: { deaths: [], holds: 1 } },
  {
    name: "stalled holder",
    // However long the other one takes: the answer has come when the first one wakes, and is not late.
    place: { slow: true, bounces: false, timeout: "10m" },
    story: { deaths: [], stalls: true, plant: ["shared-store"] },
  },
];

const life = (place: Case["place"], story: Case["story"]): Case => ({
  name: story.deaths.map((death) => death.replaceAll(":", " ")).join(", then "),
  place,
  story,
});

/** Death again while the first one is being cleared up. */
export const doubleDeaths: readonly Case[] = [
  life({}, { deaths: ["settings.commit:before:1", "settings.commit:after:1"] }),
  life({}, { deaths: ["event.commit:after:2", "ask.record:after:1"] }),
  life({ opening: "create" }, { deaths: ["open.cross:after:1", "open.commit:before:1"] }),
  life({}, { deaths: ["ask.cross:after:1", "answer.commit:before:1"] }),
  life({}, { deaths: ["answer.commit:after:1", "send.record:before:1"] }),
  life({}, { deaths: ["send.cross:after:1", "reconcile.commit:before:1"] }),
  life({}, { deaths: ["send.cross:after:1", "send.cross:after:1"] }),
  life({}, { deaths: ["outcome.commit:before:1", "outcome.commit:before:1"] }),
  life(held, { deaths: ["send.cross:after:1", "reconcile.commit:after:1"], holds: "in flight" }),
];

interface Dies {
  readonly story: { readonly deaths: readonly string[] };
}

/** One case for each failpoint: the process dies once, after its first hit. */
export function firstOfEach<T extends Dies>(all: readonly T[]): T[] {
  const chosen = new Map<string, T>();
  for (const one of all) {
    const [death = "", second] = one.story.deaths;
    const point = /^(.*):after:1$/.exec(death)?.[1];
    if (point !== undefined && second === undefined && !chosen.has(point)) chosen.set(point, one);
  }
  return [...chosen.values()];
}

/** The case of that name; throws when there is none. */
export function caseNamed(name: string): Case {
  const found = cases.find((one) => one.name === name);
  if (!found) throw new Error(`there is no case ${name}`);
  return found;
}

// Kills the daemon of a mailbox at each of these cases, and states what is left of it after the next start.

const missing = await need("dovecot-imapd", "/usr/sbin/dovecot");

/** Defines one test per case, on one Dovecot. */
export const matrix = (cases: readonly Case[]) =>
  describeReal("the daemon, killed and started again", missing, () => {
    const users = cases.map((_, index) => `m${index}`);
    let world: World;
    beforeAll(async () => {
      world = await startWorld(users);
    });
    afterAll(() => world?.close());

    for (const [index, { name, place: options, story }] of cases.entries()) {
      it.concurrent(`at ${name}`, { timeout: 300_000 }, async () => {
        const place = await openPlace(world, { user: users[index] ?? "", ...options });
        try {
          expect(await tell(place, story)).toEqual([]);
        } finally {
          await place.close();
        }
      });
    }
  });
