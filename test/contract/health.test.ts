// The health of a channel with several sides.

import { type ChannelStatus, Health } from "bridgehead/contract";
import { describe, expect, it } from "vitest";

const ready: ChannelStatus = { state: "ready" };
const degraded: ChannelStatus = { state: "degraded", code: "connection", reason: "the connection failed" };
const unauthorized: ChannelStatus = { state: "unauthorized", code: "login", reason: "the login failed" };

function healthOf() {
  const reports: ChannelStatus[] = [];
  return { reports, health: new Health({ report: (status) => reports.push(status) }) };
}

describe("the health of a channel with several sides", () => {
  it("reports the worst status of all sides", () => {
    const { reports, health } = healthOf();
    health.set("imap", ready);
    health.set("smtp", unauthorized);
    health.set("imap", degraded);
    health.set("smtp", ready);
    expect(reports).toEqual([ready, unauthorized, degraded]);
    expect(health.of("smtp")).toEqual(ready);
    expect(health.of("other")).toBeNull();
  });

  it("reports changes only", () => {
    const { reports, health } = healthOf();
    for (let n = 0; n < 3; n += 1) health.set("imap", { ...degraded });
    health.set("smtp", ready);
    expect(reports).toEqual([degraded]);
  });

  it("reports the first of equally bad sides", () => {
    const { reports, health } = healthOf();
    health.set("imap", degraded);
    health.set("smtp", { ...degraded, reason: "another" });
    expect(reports).toEqual([degraded]);
  });
});
