// The heartbeat: requests a URL regularly while the daemon is ready, so that a dead-man's switch (healthchecks.io, Uptime
// Kuma, Cronitor) raises the alarm when the requests stop. That covers what the daemon cannot report itself: a dead
// process, a dead machine, a lost network.

import type { Clock, Log } from "bridgehead/contract";
import type { Statistics } from "../../ops/statistics.ts";

export interface HeartbeatOptions {
  readonly url: string;
  /** Milliseconds between two requests. */
  readonly every: number;
  /** Longest request, in milliseconds. */
  readonly timeout: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly statistics: Statistics;
  /** Returns whether the daemon is ready: see /readyz. */
  ready(): Promise<boolean>;
}

/** Runs until the signal aborts. Never rejects. A failed request is one warning until one succeeds. */
export async function beat(options: HeartbeatOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, statistics } = options;
  let isFailing = false;
  let wasReady = true;
  while (!signal.aborted) {
    const isReady = await options.ready().catch(() => false);
    if (isReady !== wasReady && !signal.aborted) {
      if (isReady) log.info({}, "heartbeat resumed: the daemon is ready again");
      else log.warn({}, "heartbeat paused: the daemon is not ready");
    }
    wasReady = isReady;
    const problem = isReady && !signal.aborted ? await request(options, signal) : null;
    if (isReady && !signal.aborted) {
      statistics.count("heartbeats_total", { outcome: problem === null ? "sent" : "failed" });
      if (problem !== null && !isFailing) log.warn({ reason: problem }, "heartbeat request failed, retrying");
      if (problem === null && isFailing) log.info({}, "heartbeat request succeeds again");
      isFailing = problem !== null;
    }
    await clock.sleep(options.every, signal);
  }
}

/** Returns null, or the reason of the failure, without the URL, which is a secret. */
async function request({ url, timeout }: HeartbeatOptions, signal: AbortSignal): Promise<string | null> {
  try {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeout)]);
    const response = await fetch(url, { signal: limit, redirect: "follow" });
    await response.body?.cancel();
    return response.ok ? null : `rejected with status ${response.status}`;
  } catch (error) {
    const { name, cause } = error as Error;
    if (name === "TimeoutError") return `timeout after ${timeout} ms`;
    return cause instanceof Error ? cause.message : name;
  }
}
