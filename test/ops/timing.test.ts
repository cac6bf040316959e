// Relations between the durations of the daemon that their areas cannot express.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { standardTiming, timingWith } from "../../src/ops/timing.ts";

const { scheduler, postgres, channels, calls, ask, send, fetch, http, shutdown, startup, commands } = standardTiming;

const unit = readFileSync(new URL("../../systemd/bridgehead.service", import.meta.url), "utf8");
const unitSeconds = (key: string): number => Number(new RegExp(`^${key}=(\\d+)$`, "m").exec(unit)?.[1]) * 1000;

describe("the standard durations", () => {
  it.each([
    ["a lost heartbeat does not cost the lease of a channel", 2 * channels.renewal, channels.lease],
    ["a lost heartbeat does not cost the lease of a node", 2 * calls.nodeRenewal, calls.nodeLease],
    ["work is aborted before its lease is over", scheduler.deadlineCheck, ask.leaseMargin],
    ["an attempt may begin with the margin of its lease left", send.crossing, send.leaseMargin],
    ["a download is aborted before its claim is over", scheduler.deadlineCheck, fetch.leaseMargin],
    ["a timer is set for all that the sweep would find too late", scheduler.sweep, scheduler.timerHorizon],
    ["the server cancels a statement before the client gives up", postgres.statement, postgres.response],
    ["a wait for a lock ends before its statement is cancelled", postgres.lock, postgres.statement],
    ["calls end while running work is still awaited", http.talk + http.lastRequest, shutdown.drain],
    ["the daemon stops before systemd kills it", shutdown.drain + http.closeGrace, unitSeconds("TimeoutStopSec")],
    ["the daemon is ready before systemd gives up", startup.firstConnections, unitSeconds("TimeoutStartSec")],
    ["systemd is asked again before the time that it gave is over", 2 * startup.extensionEvery, startup.extension],
    ["the first request comes before systemd gives up", 2 * startup.extensionEvery, unitSeconds("TimeoutStartSec")],
    ["a reload ends before systemd gives up", commands.reload, unitSeconds("TimeoutStartSec")],
  ])("%s", (_, shorter, longer) => {
    expect(shorter).toBeLessThan(longer);
  });

  it("are positive, and no longer than a timer can be", () => {
    for (const durations of Object.values(standardTiming))
      for (const ms of Object.values(durations)) {
        expect(ms).toBeGreaterThan(0);
        expect(ms).toBeLessThan(2 ** 31);
      }
  });
});

it("are overridden one by one", () => {
  const timing = timingWith({ ask: { read: 1 } }, timingWith({ ask: { rateWait: 2 }, send: { attempt: 3 } }));
  expect([timing.ask.read, timing.ask.rateWait, timing.send.attempt]).toEqual([1, 2, 3]);
  expect(timing.ask.leaseMargin).toBe(ask.leaseMargin);
  expect(standardTiming.send.attempt).not.toBe(3);
});
