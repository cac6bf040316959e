// Relations between the durations of the daemon that their areas cannot express.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { standardTiming as email } from "../../adapters/email/timing.ts";
import { standardTiming as sms } from "../../adapters/sms/timing.ts";
import { standardTiming as voice } from "../../adapters/voice/timing.ts";
import { delayAfter } from "../../src/domain/retry.ts";
import { standardTiming, timingWith } from "../../src/ops/timing.ts";

const { scheduler, postgres, channels, calls, route, ask, send, fetch, reconcile } = standardTiming;
const { http, shutdown, startup, commands } = standardTiming;
const hour = 3_600_000;

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

  const flat = (value: unknown): readonly unknown[] =>
    typeof value === "object" && value !== null ? Object.values(value).flatMap(flat) : [value];

  it("are positive, and no longer than a timer can be", () => {
    const all = flat([standardTiming, email, sms, voice]);
    expect(all).toContain(send.retry.mail[0]);
    for (const ms of all) {
      expect(ms).toBeGreaterThan(0);
      expect(ms).toBeLessThan(2 ** 31);
    }
  });

  it.each([
    ["mail", send.retry.mail, [30_000, 300_000, 900_000, hour, 2 * hour, 4 * hour]],
    ["text messages and calls", send.retry.phone, [2000, 5000, 15_000, 30_000, 60_000, 120_000, 300_000]],
    ["route", route.retry, [1000, 2000, 4000, 8000, 16_000]],
    ["ask", ask.retry, [1000, 5000, 15_000, 60_000, 300_000]],
    ["lookups of questions", ask.lookup, [500, 2000, 5000, 15_000, 60_000]],
    ["lookups of drafts", reconcile.lookup, [500, 2000, 5000, 15_000, 60_000]],
  ])("retry sooner at first, and then less often: %s", (_, schedule, expected) => expect(schedule).toEqual(expected));

  it("retry mail over days, as often as RFC 5321 4.5.4.1 wants", () => {
    let tries = 0;
    for (let at = 0; at < send.lifetime; at += delayAfter(tries, send.retry.mail)) tries++;
    expect(tries).toBeGreaterThan(15);
  });
});

it("are overridden one by one", () => {
  const timing = timingWith({ ask: { read: 1 } }, timingWith({ ask: { rateWait: 2 }, send: { attempt: 3 } }));
  expect([timing.ask.read, timing.ask.rateWait, timing.send.attempt]).toEqual([1, 2, 3]);
  expect(timing.ask.leaseMargin).toBe(ask.leaseMargin);
  expect(standardTiming.send.attempt).not.toBe(3);
});

it("are overridden in a record of an area; a schedule is replaced as a whole", () => {
  const timing = timingWith({ send: { retry: { mail: [1] }, pause: { phone: { login: [2, 3] } } } });
  expect(timing.send.retry).toEqual({ ...send.retry, mail: [1] });
  expect(timing.send.pause).toEqual({ ...send.pause, phone: { ...send.pause.phone, login: [2, 3] } });
  expect(timing.send.attempt).toBe(send.attempt);
  expect(standardTiming.send.retry.mail[0]).toBe(30_000);
});
