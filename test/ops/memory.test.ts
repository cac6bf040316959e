import { setTimeout as delay } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { allowOptimization, deferOptimization, tidyAfterStart } from "../../src/ops/memory.ts";

/** A clock whose first `busy` sleeps block the event loop for their time. */
function clockWith(busy: number) {
  const counts = { sleeps: 0 };
  const sleep = async (): Promise<void> => {
    counts.sleeps += 1;
    const until = performance.now() + 50;
    if (counts.sleeps <= busy) while (performance.now() < until);
    else await delay(200);
  };
  return { counts, clock: { ...systemClock, sleep } };
}

describe("the collection after startup", () => {
  it("waits while the event loop is busy", async () => {
    const { clock, counts } = clockWith(3);
    await tidyAfterStart(clock, 10, new AbortController().signal);
    expect(counts.sleeps).toBeGreaterThan(3);
  });

  it("is left out when the daemon stops first", async () => {
    const { clock, counts } = clockWith(3);
    await tidyAfterStart(clock, 10, AbortSignal.abort());
    expect(counts.sleeps).toBe(1);
  });
});

describe("the optimizing compilers", () => {
  it("optimize code again when the daemon is ready", () => {
    setFlagsFromString("--allow-natives-syntax");
    // The function's status has this bit while it runs optimized code.
    const isOptimized = runInNewContext(`(() => {
      const sum = (n) => { let all = 0; for (let i = 0; i < n; i += 1) all += i; return all; };
      return () => {
        for (let round = 0; round < 3000; round += 1) sum(1000);
        return (%GetOptimizationStatus(sum) & 16) !== 0;
      };
    })()`) as () => boolean;
    deferOptimization();
    expect(isOptimized()).toBe(false);
    allowOptimization();
    expect(isOptimized()).toBe(true);
  });
});
