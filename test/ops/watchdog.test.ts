import type { Log } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/ops/clock.ts";
import { runWatchdog, type WatchdogOptions } from "../../src/ops/watchdog.ts";

/** Runs a watchdog of 40 ms with the real clock; `fed` counts, `said` is what it logged. */
function start(changes: Partial<WatchdogOptions>) {
  const abort = new AbortController();
  const seen = { fed: 0, said: [] as string[] };
  const say: Log["error"] = (fields, message) =>
    void seen.said.push(`${message} ${typeof fields["reason"] === "string" ? fields["reason"] : ""}`.trim());
  const ended = runWatchdog(
    {
      clock: systemClock,
      log: { debug: say, info: say, warn: say, error: say },
      intervalMs: 40,
      feed: async () => void (seen.fed += 1),
      probe: async () => {},
      stuck: () => [],
      ...changes,
    },
    abort.signal,
  );
  const stop = async (): Promise<void> => {
    abort.abort();
    await ended;
  };
  return { seen, stop };
}
const feedings = async (seen: { fed: number }, more: number): Promise<void> => {
  const from = seen.fed;
  await expect.poll(() => seen.fed, { interval: 5, timeout: 5000 }).toBeGreaterThanOrEqual(from + more);
};

describe("the watchdog", () => {
  it("is fed while all is well, and ends when asked", async () => {
    const { seen, stop } = start({});
    await feedings(seen, 3);
    await stop();
    expect(seen.said).toEqual([]);
  });

  it("is not fed while the store does not answer, and again when it does", async () => {
    let answers = true;
    const { seen, stop } = start({
      maxProbeAgeMs: 100,
      probe: async () => {
        if (!answers) throw new Error("database is locked");
      },
    });
    await feedings(seen, 2);
    answers = false;
    await expect.poll(() => seen.said).toContain("the watchdog is not fed the store does not answer");
    const starved = seen.fed;
    answers = true;
    await feedings(seen, 2);
    await stop();
    expect(seen.fed).toBeGreaterThan(starved);
    expect(seen.said.at(-1)).toBe("the watchdog is fed again");
  });

  it("is not fed while a probe hangs", async () => {
    const { seen, stop } = start({ maxProbeAgeMs: 60, probe: () => new Promise(() => {}) });
    await expect.poll(() => seen.said).toEqual(["the watchdog is not fed the store does not answer"]);
    await stop();
  });

  it("is not fed while a supervisor is stuck", async () => {
    const stuck: string[] = [];
    const { seen, stop } = start({ stuck: () => stuck });
    await feedings(seen, 1);
    stuck.push("support-mail");
    await expect.poll(() => seen.said).toEqual(["the watchdog is not fed stuck: support-mail"]);
    await stop();
  });

  it("is not fed after the event loop was blocked", async () => {
    const { seen, stop } = start({ maxLagMs: 50 });
    await feedings(seen, 2);
    const until = performance.now() + 150;
    while (performance.now() < until);
    await expect.poll(() => seen.said[0]).toBe("the watchdog is not fed the event loop was blocked");
    await feedings(seen, 1);
    await stop();
    expect(seen.said.at(-1)).toBe("the watchdog is fed again");
  });
});
