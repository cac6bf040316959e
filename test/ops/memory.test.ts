import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { tidyAfterStart } from "../../src/ops/memory.ts";

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
