// The matrix of escalations: in which act the daemon dies, and at which point.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FailpointName } from "../../../../src/ops/failpoints.ts";
import { type Act, type EscalationStory, tellEscalation } from "./scenario.ts";
import { type EscalationWorld, openPlace, startEscalationWorld } from "./servers.ts";

export interface EscalationCase {
  readonly name: string;
  readonly story: EscalationStory;
}

const phases = ["before", "after"] as const;

function at(
  act: Act,
  point: FailpointName,
  hits: readonly number[] = [1],
  in_: readonly (typeof phases)[number][] = phases,
  by: EscalationStory["by"] = "text",
): EscalationCase[] {
  return hits.flatMap((hit) =>
    in_.map((phase) => ({
      name: [act, by === "mail" ? "mail" : "", point, phase, hit].filter(Boolean).join(" "),
      story: { act, deaths: [`${point}:${phase}:${hit}`], by },
    })),
  );
}

const twice = (act: Act, ...deaths: readonly [string, string]): EscalationCase[] => [
  { name: `${act} ${deaths.join(", then ")}`, story: { act, deaths } },
];

const after = ["after"] as const;

export const escalationCases: readonly EscalationCase[] = [
  // The answer that hands over, and in its commit the escalation and whoever is told of it.
  ...(["ask.cross", "answer.commit", "notify.commit", "send.record", "poll.commit"] as const).flatMap(
    (point) => at("hands over", point),
  ),
  // What the customer gets, a text, a mail and a page, in any order.
  ...at("hands over", "send.cross", [1, 4]),
  ...at("hands over", "send.cross", [2, 3], after),
  ...at("hands over", "outcome.commit"),
  ...at("hands over", "outcome.commit", [2, 4], after),
  // The platform says the same by its webhook, and somebody takes it by a link.
  ...at("tells us", "platform-webhook.commit"),
  ...at("takes", "action.commit"),
  // The human's words, taken down once, to the platform and to the customer; and the others, who learn of it.
  ...(["route.commit", "ask.cross", "answer.commit", "send.record"] as const).flatMap((point) =>
    at("answers", point),
  ),
  ...at("answers", "send.cross", [1, 2]),
  ...at("answers", "outcome.commit"),
  ...at("answers", "outcome.commit", [2], after),
  ...(["route.commit", "ask.cross", "outcome.commit"] as const).flatMap((point) =>
    at("answers", point, [1], after, "mail"),
  ),
  // What the customer writes to the human.
  ...(["ask.cross", "answer.commit", "send.cross"] as const).flatMap((point) => at("writes on", point)),
  ...(["notify.commit", "outcome.commit"] as const).flatMap((point) => at("writes on", point, [1], after)),
  ...at("writes on", "answer.commit", [1], after, "mail"),
  // Back to the agent.
  ...(["route.commit", "ask.cross", "answer.commit"] as const).flatMap((point) => at("gives back", point)),
  // Death again while the first one is being cleared up.
  ...twice("hands over", "answer.commit:after:1", "send.cross:after:1"),
  ...twice("answers", "route.commit:after:1", "outcome.commit:before:1"),
  ...twice("answers", "ask.cross:after:1", "answer.commit:before:1"),
];

/** The case of that name; throws when there is none. */
export function escalationCaseNamed(name: string): EscalationCase {
  const found = escalationCases.find((one) => one.name === name);
  if (!found) throw new Error(`there is no case ${name}`);
  return found;
}

// Kills the daemon at each of these cases, on the way from the agent's answer to the human's, and back.

/** Defines one test per case. */
export const matrixOfEscalations = (cases: readonly EscalationCase[]) =>
  describe("the daemon that finds a human, killed and started again", () => {
    let world: EscalationWorld;
    beforeAll(async () => {
      world = await startEscalationWorld();
    });
    afterAll(() => world?.close());

    for (const [index, { name, story }] of cases.entries()) {
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
