import { once } from "node:events";
import { createServer } from "node:net";
import type { Log } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { askHealth, startListener } from "../../src/http/index.ts";
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
      probes: { "the store": async () => {} },
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
  await expect.poll(() => seen.fed, { interval: 5 }).toBeGreaterThanOrEqual(from + more);
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
      probes: {
        "the store": async () => {
          if (!answers) throw new Error("database is locked");
        },
        "the listener": async () => {},
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
    const { seen, stop } = start({
      maxProbeAgeMs: 60,
      probes: { "the store": async () => {}, "the listener": () => new Promise(() => {}) },
    });
    await expect.poll(() => seen.said).toEqual(["the watchdog is not fed the listener does not answer"]);
    await stop();
  });

  it("asks the listener over a connection: one that is closed, or takes the connection only, does not answer", async () => {
    const front = await startListener({
      listen: { host: "127.0.0.1", port: 0 },
      clock: systemClock,
      log: { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} },
      routes: () => null,
      ready: async () => ({ ready: true }),
      metrics: async () => ({ contentType: "text/plain", body: "" }),
    });
    const { seen, stop } = start({
      maxProbeAgeMs: 200,
      probes: { "the listener": (signal) => askHealth(front.url, signal) },
    });
    await feedings(seen, 3);
    await front.close();
    const fed = "the watchdog is not fed the listener does not answer";
    await expect.poll(() => seen.said).toContain(fed);
    // Something has the port and says nothing.
    const mute = createServer().listen(Number(new URL(front.url).port), "127.0.0.1");
    await once(mute, "listening");
    await once(mute, "connection");
    expect(seen.said.at(-1)).not.toBe("the watchdog is fed again");
    await stop();
    mute.close();
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
