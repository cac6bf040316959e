// At most 1000 requests of an organization in any 60 seconds, under any of its keys.

import type { Clock } from "bridgehead/contract";
import * as fc from "fast-check";
import { Hono } from "hono";
import { expect, onTestFinished, test } from "vitest";
import { Roster } from "../../../src/platform/agents/roster.ts";
import { readAgents } from "../../../src/platform/index.ts";
import { gate, Limiter, type RouteEnv } from "../../../src/platform/routes/exchange.ts";
import { openPlatformStore } from "../../../src/platform/store/store.ts";
import { silentLog } from "../../support/resources.ts";

const most = 1_000;
const windowMs = 60_000;

const acme = `
organization: { name: Acme, key: acme-organization-key }
agents: { one: { key: first-agent-key }, two: { key: second-agent-key } }
`;
const other = "organization: { name: Other }\nagents: { three: { key: third-agent-key } }";

/** Under each key, with the organization whose it is. */
const callers = [
  { whose: "acme", path: "/external/agents/users", headers: { "agent-secret-key": "first-agent-key" } },
  { whose: "acme", path: "/external/conversations", headers: { "agent-secret-key": "second-agent-key" } },
  {
    whose: "acme",
    path: "/external/agents/x/users",
    headers: { "organization-secret-key": "acme-organization-key" },
  },
  { whose: "other", path: "/external/agents/users", headers: { "agent-secret-key": "third-agent-key" } },
  { whose: "nobody", path: "/external/agents/users", headers: { "agent-secret-key": "a-wrong-key" } },
] as const;

/** The gate with nothing behind it, at a time that is set by hand. */
function gateAt(clock: { now: number }) {
  const hand: Clock = { now: () => clock.now, monotonic: () => clock.now, sleep: () => Promise.resolve() };
  const store = openPlatformStore(":memory:", "normal");
  onTestFinished(() => store.close());
  const agents = [...readAgents(acme, "acme.yaml"), ...readAgents(other, "other.yaml")];
  const limiter = new Limiter({ requests: most, perSeconds: windowMs / 1_000 });
  const app = new Hono<RouteEnv>();
  app.use("/external/*", gate(new Roster(store, agents, hand, silentLog), limiter, hand));
  app.all("*", (c) => c.body(null, 204));
  return (caller: number) => {
    const { path, headers } = callers[caller] ?? callers[0];
    return app.request(path, { headers });
  };
}

interface Burst {
  readonly gapMs: number;
  readonly count: number;
  readonly caller: number;
}

/** Arrivals as they come: in floods, drop by drop, and just around the edge of the window. */
const bursts = (length: number): fc.Arbitrary<Burst[]> =>
  fc.array(
    fc.record({
      gapMs: fc.oneof(
        fc.integer({ min: 0, max: 100 }),
        fc.integer({ min: 0, max: 20_000 }),
        fc.double({ min: 0, max: 3_000, noNaN: true }),
        fc.constantFrom(0, 59_999, 60_000, 60_001, 59_999.999),
      ),
      count: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.constantFrom(1, 400, 999, 1_000, 1_001)),
      caller: fc.integer({ min: 0, max: callers.length - 1 }),
    }),
    { minLength: 1, maxLength: length },
  );

/** How many of these sorted times lie within the window that ends at `at`, both ends included. */
const within = (times: readonly number[], at: number) => {
  let from = times.length;
  while (from > 0 && (times[from - 1] ?? 0) >= at - windowMs) from -= 1;
  return times.length - from;
};

/** No window has too many: each admission is later than the one `most` before it by more than a window. */
function expectKept(times: readonly number[]): void {
  const broken = times.findIndex((at, index) => at - (times[index - most] ?? -Infinity) <= windowMs);
  expect(broken).toBe(-1);
}

test("holds in any window of any arrivals, and no request is refused without need", () => {
  const property = fc.property(bursts(60), (arrivals) => {
    const limiter = new Limiter({ requests: most, perSeconds: windowMs / 1_000 });
    const admitted: number[] = [];
    let now = 0;
    for (const { gapMs, count } of arrivals) {
      now += gapMs;
      for (let n = 0; n < count; n += 1) {
        const admission = limiter.admit("acme", now);
        const room = within(admitted, now) < most;
        if (admission.admitted !== room) expect([now, admission, room]).toBe("the same");
        if (admission.admitted) admitted.push(now);
      }
    }
    expectKept(admitted);
  });
  fc.assert(property, { seed: 60, numRuns: 50 });
});

test("holds across all keys of an organization; others, and wrong keys, have nothing to do with it", async () => {
  const property = fc.asyncProperty(bursts(12), async (arrivals) => {
    const clock = { now: 1_000_000 };
    const knock = gateAt(clock);
    const admitted: { [whose: string]: number[] } = { acme: [], other: [] };
    for (const { gapMs, count, caller } of arrivals) {
      clock.now += gapMs;
      for (let n = 0; n < count; n += 1) {
        const { status } = await knock(caller);
        const times = admitted[callers[caller]?.whose ?? ""];
        const expected = times === undefined ? 403 : within(times, clock.now) < most ? 204 : 429;
        if (status !== expected) expect([clock.now, caller, status]).toEqual([clock.now, caller, expected]);
        if (status === 204) times?.push(clock.now);
      }
    }
    for (const times of Object.values(admitted)) expectKept(times);
  });
  await fc.assert(property, { seed: 61, numRuns: 8 });
});

test("a refusal has the form of the others, and its Retry-After is neither too short nor a second too long", async () => {
  const clock = { now: 0 };
  const knock = gateAt(clock);
  for (let n = 0; n < most; n += 1) {
    clock.now = n * 7.3;
    expect((await knock(n % 3)).status).toBe(204);
  }
  const refused = await knock(0);
  expect([refused.status, await refused.json()]).toEqual([
    429,
    { status: 429, name: "TOO_MANY_REQUESTS_ERROR", message: "RATE_LIMIT_EXCEEDED", details: [] },
  ]);
  const seconds = Number(refused.headers.get("retry-after"));
  expect(Number.isInteger(seconds)).toBe(true);
  const at = clock.now;
  clock.now = at + (seconds - 1) * 1_000;
  expect((await knock(1)).status).toBe(429);
  clock.now = at + seconds * 1_000;
  expect((await knock(1)).status).toBe(204);
});
