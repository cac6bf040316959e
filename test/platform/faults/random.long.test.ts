// Whatever is sent, the platform answers in the form that is documented, goes on, and has nothing to report.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { type Plan, plans, requestOf } from "../../support/platform/random-requests.ts";
import {
  formProblem,
  furnish,
  keys,
  operationNames,
  operations,
  organizationKeys,
  startGrounds,
} from "../../support/platform/tenants.ts";

/** Each is 1,000 requests to a platform of its own: a failure names its seed and the request, shrunk. */
const seeds = [11, 22, 33, 44, 55, 66, 77, 88, 99, 110];

/** What the interface documents, beside the success of an operation; a strange id may also name another one. */
const refusals = [400, 403, 404, 413];

const own = { agent: keys.own, organization: organizationKeys.own };

async function run(seed: number, tally: Map<string, number>): Promise<void> {
  const grounds = await startGrounds();
  const things = await furnish(grounds, "own");
  // What is deleted is gone for the rest of the run: it has things of its own.
  const spare = await furnish(grounds, "own", "spare");
  const property = fc.asyncProperty(plans, async (plan) => {
    const answered = await grounds.ask(
      requestOf(plan, plan.operation.startsWith("delete") ? spare : things, own),
    );
    const { status, text } = answered;
    if (status >= 400)
      expect([status, refusals.includes(status), formProblem(answered)]).toEqual([status, true, null]);
    else if (text !== "" && String(answered.headers["content-type"]).startsWith("application/json"))
      JSON.parse(text);
    expect(answered.headers["x-injected"]).toBeUndefined();
    expect(grounds.errors).toEqual([]);
    note(tally, plan, status);
  });
  await fc.assert(property, { seed, numRuns: 1_000 });
  // And it still knows what is right.
  const right: Plan = {
    operation: "startConversation",
    ids: [],
    query: [],
    headers: [],
    key: "right",
    body: { kind: "fields", over: { email: "last@example.test" } },
  };
  expect(await grounds.ask(requestOf(right, things, own))).toMatchObject({ status: 201 });
  expect((await furnish(grounds, "sister")).message).not.toBe("");
  expect(({} as { polluted?: string }).polluted).toBeUndefined();
}

function note(tally: Map<string, number>, { operation }: Plan, status: number): void {
  const group = status === operations[operation].answer.status ? "done" : status >= 400 ? "refused" : "other";
  const key = `${operation} ${group}`;
  tally.set(key, (tally.get(key) ?? 0) + 1);
}

test("10,000 random requests get documented answers, and the platform goes on", async () => {
  const tally = new Map<string, number>();
  for (const seed of seeds) await run(seed, tally);
  // They reach every operation, and get both through and refused.
  for (const name of operationNames)
    for (const group of ["done", "refused"])
      expect([name, group, (tally.get(`${name} ${group}`) ?? 0) > 0]).toEqual([name, group, true]);
}, 900_000);
