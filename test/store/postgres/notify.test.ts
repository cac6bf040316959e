// Notifications of other nodes share one connection, which executes one query at a time.

import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { WakeListener } from "../../../src/store/postgres/listener.ts";
import { RefusedConnections } from "../../../src/store/postgres/refusals.ts";
import { describeReal } from "../../support/machine/debian.ts";
import { startTcpProxy } from "../../support/machine/network.ts";
import { needPostgres, sharedPostgres } from "../../support/store/postgres.ts";

describeReal("notifications", await needPostgres(), () => {
  it("wait for the one in progress while the server does not respond", async () => {
    const url = new URL((await sharedPostgres()).url);
    const proxy = await startTcpProxy(Number(url.port));
    onTestFinished(() => proxy.close());
    url.hostname = "127.0.0.1";
    url.port = String(proxy.port);
    const warnings: string[] = [];
    const note = ({ message }: Error) => void warnings.push(message);
    process.on("warning", note);
    onTestFinished(() => void process.off("warning", note));
    let pauses = 0;
    const clock = { ...systemClock, sleep: async () => void pauses++ };
    const listener = new WakeListener("one-after-the-other", {
      setup: { connectionString: url.href },
      settings: { text: "SELECT 1" },
      clock,
      timing: standardTiming.postgres,
      refused: new RefusedConnections(undefined, clock, 1),
    });
    await listener.open();
    proxy.swallow();
    for (let n = 0; n < 10; n++) {
      listener.notify();
      await new Promise((resolve) => setImmediate(resolve));
    }
    proxy.cut();
    await listener.close();
    expect(pauses).toBeGreaterThan(0);
    expect(warnings).toEqual([]);
  });
});
