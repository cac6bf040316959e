// The organization's rate on this side of the line.

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { createClient, createRate } from "../../src/client/index.ts";
import { conversationRecord, startPacedClient } from "../support/client/client.ts";
import { json, status } from "../support/machine/network.ts";

/** A clock that advances only during a sleep, and then is late by `lateness`. */
function virtualClock(lateness: () => number = () => 0) {
  let time = 0;
  return {
    pass: (ms: number) => void (time += ms),
    clock: {
      now: () => time,
      monotonic: () => time,
      sleep: async (ms: number, signal?: AbortSignal) => {
        await Promise.resolve();
        if (!signal?.aborted) time += ms + lateness();
      },
    },
  };
}
const always = new AbortController().signal;

test("never lets more leave in any span than it may, and does not waste the span either", async () => {
  const property = fc.asyncProperty(
    fc.integer({ min: 2, max: 30 }),
    fc.array(fc.integer({ min: 0, max: 2_000 }), { minLength: 1, maxLength: 60 }),
    fc.integer({ min: 0, max: 3_000 }),
    async (requests, gaps, late) => {
      const { clock, pass } = virtualClock(() => late);
      const rate = createRate({ requests, perSeconds: 10, clock });
      const left: number[] = [];
      for (const gap of gaps) {
        pass(gap);
        expect(await rate.turn(always)).toBe(true);
        left.push(clock.now());
      }
      for (const [index, at] of left.entries())
        expect(left.slice(index).filter((other) => other <= at + 10_000).length).toBeLessThanOrEqual(requests);
    },
  );
  await fc.assert(property, { numRuns: 200 });
  const { clock } = virtualClock();
  const rate = createRate({ clock });
  for (let sent = 0; sent < 2_000; sent++) await rate.turn(always);
  // 100 at once, the rest at 15 a second.
  expect(clock.now()).toBeGreaterThan(120_000);
  expect(clock.now()).toBeLessThan(130_000);
});

test("keeps the order, and forgets who leaves", async () => {
  const { clock } = virtualClock();
  const rate = createRate({ requests: 4, perSeconds: 1, burst: 1, clock });
  const stop = new AbortController();
  const order: number[] = [];
  const turns = [0, 1, 2, 3].map(async (n) => {
    if (await rate.turn(n === 2 ? stop.signal : always)) order.push(n);
  });
  stop.abort();
  await Promise.all(turns);
  expect(order).toEqual([0, 1, 3]);
  expect(clock.now()).toBeLessThan(800);
  expect(await rate.turn(AbortSignal.abort())).toBe(false);
  expect(() => createRate({ requests: 5, burst: 5 })).toThrow(RangeError);
});

test("is shared by clients; one's 429 makes all of them wait", async () => {
  const { clock } = virtualClock();
  const rate = createRate({ clock });
  const { server, client } = await startPacedClient({ rate, clock, tries: 1 });
  server.script(status(429, { "retry-after": "30" }), json(conversationRecord()));
  const other = createClient({ url: server.url, agentKey: "other", timeoutMs: 60_000, rate, clock });
  expect(await client.conversations.get("c-1")).toMatchObject({ kind: "deferred", limited: true });
  expect(clock.now()).toBe(0);
  expect(await other.conversations.get("c-1")).toMatchObject({ kind: "ok" });
  expect(clock.now()).toBeGreaterThanOrEqual(30_000);
  await other.close();
});

test("a call that is stopped while it waits has sent nothing", async () => {
  const rate = createRate({ requests: 2, perSeconds: 3600, burst: 1 });
  const { server, client } = await startPacedClient({ rate, tries: 1 });
  server.script(json(conversationRecord()));
  await client.conversations.get("c-1");
  const stop = new AbortController();
  const waiting = client.conversations.get("c-1", { signal: stop.signal });
  stop.abort();
  expect(await waiting).toEqual({ kind: "deferred", reason: "stopped by the caller" });
  expect(server.received).toHaveLength(1);
});
