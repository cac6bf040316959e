import { once } from "node:events";
import { createServer } from "node:net";
import type { Clock, Log } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { askHealth } from "../../src/http/health.ts";
import { systemClock } from "../../src/ops/clock.ts";
import { runWatchdog, type WatchdogOptions } from "../../src/ops/systemd.ts";
import { startTestListener } from "../support/http/listener.ts";
import { freePort } from "../support/machine/network.ts";

/** Time that passes when a test says so. */
function stillClock() {
  let at = 0;
  const looks = { count: 0 };
  const clock: Clock = {
    now: () => at,
    monotonic: () => at,
    async sleep(_ms, signal) {
      looks.count += 1;
      await systemClock.sleep(5, signal);
    },
  };
  return { clock, looks, forward: (ms: number) => void (at += ms) };
}

const unhurried = { lag: Number.POSITIVE_INFINITY, probe: 60_000 };

/** Runs a watchdog; `fed` counts the pings, `said` contains the log. Each health check increments `looks.count`. */
function start(changes: Partial<WatchdogOptions>) {
  const abort = new AbortController();
  const time = stillClock();
  const seen = { fed: 0, said: [] as string[] };
  const say: Log["error"] = (fields, message) =>
    void seen.said.push(`${message} ${typeof fields["reason"] === "string" ? fields["reason"] : ""}`.trim());
  const ended = runWatchdog(
    {
      clock: time.clock,
      log: { debug: say, info: say, warn: say, error: say },
      intervalMs: 40,
      timing: unhurried,
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
  const looks = async (more: number): Promise<void> => {
    const from = time.looks.count;
    await expect.poll(() => time.looks.count, { interval: 5 }).toBeGreaterThanOrEqual(from + more);
  };
  return { seen, stop, looks, forward: time.forward };
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
    const { seen, stop, looks, forward } = start({
      timing: unhurried,
      probes: {
        "the store": async () => {
          if (!answers) throw new Error("database is locked");
        },
        "the listener": async () => {},
      },
    });
    await feedings(seen, 2);
    answers = false;
    await looks(1);
    forward(unhurried.probe + 1);
    await expect.poll(() => seen.said).toContain("watchdog not notified the store does not answer");
    const starved = seen.fed;
    await looks(3);
    expect(seen.fed).toBe(starved);
    answers = true;
    await feedings(seen, 2);
    await stop();
    expect(seen.said.at(-1)).toBe("watchdog notified again");
  });

  it("is not fed while a probe hangs", async () => {
    const { seen, stop, looks, forward } = start({
      timing: unhurried,
      probes: { "the listener": () => new Promise(() => {}) },
    });
    await looks(1);
    forward(unhurried.probe + 1);
    await expect.poll(() => seen.said).toEqual(["watchdog not notified the listener does not answer"]);
    await stop();
  });

  it("asks the listener over a connection: one that is closed, or takes the connection only, does not answer", async () => {
    const front = await startTestListener({ listen: { host: "127.0.0.1", port: await freePort() } });
    let answers = 0;
    const { seen, stop, looks, forward } = start({
      timing: unhurried,
      probes: {
        "the listener": async (signal) => {
          await askHealth(front.url, signal);
          answers += 1;
        },
      },
    });
    await expect.poll(() => answers).toBeGreaterThan(1);
    expect(seen.said).toEqual([]);
    await front.close();
    forward(unhurried.probe + 1);
    const starved = "watchdog not notified the listener does not answer";
    await expect.poll(() => seen.said).toContain(starved);
    // Something has the port and says nothing.
    const mute = createServer().listen(Number(new URL(front.url).port), "127.0.0.1");
    await once(mute, "listening");
    await once(mute, "connection");
    await looks(3);
    expect(seen.said).not.toContain("watchdog notified again");
    await stop();
    mute.close();
  });

  it("is not fed while a supervisor is stuck", async () => {
    const stuck: string[] = [];
    const { seen, stop } = start({ stuck: () => stuck });
    await feedings(seen, 1);
    stuck.push("support-mail");
    await expect.poll(() => seen.said).toEqual(["watchdog not notified stuck: support-mail"]);
    await stop();
  });

  it("is not fed after the event loop was blocked", async () => {
    const { seen, stop, forward } = start({ timing: { ...unhurried, lag: 50 } });
    await feedings(seen, 2);
    forward(150);
    await expect.poll(() => seen.said[0]).toBe("watchdog not notified the event loop was blocked");
    await feedings(seen, 1);
    await stop();
    expect(seen.said.at(-1)).toBe("watchdog notified again");
  });
});
