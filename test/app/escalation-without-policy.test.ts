// Without an escalation policy no responder is notified, and everything else works: escalations of the platform are
// detected, calls are transferred, and messages that appear on the platform reach the customer.

import { describe, expect, it } from "vitest";
import { touch } from "../../src/store/driver.ts";
import { eventually } from "../support/clock.ts";
import { colleague, topic } from "../support/daemon/escalation-daemon.ts";
import type { Finished } from "../support/daemon/mail-daemon.ts";
import { anna, type LinesOptions, type LinesWorld, openLines } from "../support/daemon/phone-daemon.ts";
import { echoed } from "../support/daemon/platform.ts";

const office = "+12025550150";
const detected = "escalation detected, no responder is configured";

const openWorld = (finished: Finished, options: LinesOptions = {}): Promise<LinesWorld> =>
  openLines(finished, { ...options, skills: { escalation: { escalations: [topic("refund")] } } });

/** Changes the conversation on the platform, as a human in the platform's own interface does. */
async function onPlatform(world: LinesWorld, method: string, path: string, body: object): Promise<void> {
  const [row] = await world.rows<{ platform_id: string }>("SELECT platform_id FROM conversations");
  const url = `${world.front.url}/external/conversations/${row?.platform_id ?? ""}/${path}`;
  const headers = { "agent-secret-key": world.env["AGENT_KEY"] ?? "", "content-type": "application/json" };
  const response = await fetch(url, { method, headers, body: JSON.stringify(body) });
  expect(response.ok).toBe(true);
}

/** Makes the next look at the only conversation due. */
const look = (world: LinesWorld): Promise<void> =>
  world.app().scheduler.commit(async (q) => {
    await q.run("UPDATE polls SET due_at = now_ms()");
    touch(q, "polls");
  });

const warnings = (world: LinesWorld) => world.log.filter(({ message }) => message === detected);

describe("without an escalation policy", () => {
  it.concurrent("a call is transferred after the agent's escalating answer", async ({ onTestFinished }) => {
    const rung: string[] = [];
    const world = await openWorld(onTestFinished, {
      voice: { collect: "50ms", speaking_rate: 40, transfer: { dial: [office] } },
      phone: { dialed: (target) => (rung.push(target), "completed") },
    });
    const call = await world.dial();
    call.say("I want a refund");
    await call.hears(colleague);
    expect(await call.over).toBe("hangup");
    expect(rung).toEqual([office]);
    await eventually(async () =>
      expect(await world.rows("SELECT state, transferring FROM sessions")).toEqual([
        { state: "closed", transferring: "escalated" },
      ]),
    );
    expect(warnings(world).map(({ fields }) => fields["topic"])).toContain("refund");
  });

  it.concurrent("the platform's escalation is detected: mode manual is read and logged, no rows are kept", async ({
    onTestFinished,
  }) => {
    const world = await openWorld(onTestFinished);
    await world.text("A refund, please");
    await eventually(() => expect(world.textsTo()).toEqual([colleague]));
    await eventually(async () => expect(await world.rows("SELECT mode FROM polls")).toEqual([{ mode: "manual" }]));
    expect(warnings(world)).toHaveLength(2); // the answer and the mode
    await world.text("Anybody?");
    await world.idle();
    expect(world.textsTo()).toEqual([colleague]);
    expect(await world.rows("SELECT 1 FROM escalations")).toEqual([]);
  });

  it.concurrent("messages from the platform reach the customer, each once", async ({ onTestFinished }) => {
    const world = await openWorld(onTestFinished);
    await world.text("Hello?");
    await eventually(() => expect(world.textsTo()).toEqual([echoed("Hello?")]));
    await world.idle();
    await onPlatform(world, "PUT", "mode", { mode: "manual" });
    await onPlatform(world, "POST", "send-manual-message", { message: "Here is Cleo." });
    await look(world);
    await eventually(() => expect(world.textsTo(anna)).toEqual([echoed("Hello?"), "Here is Cleo."]));
    await world.idle();
    // While a human may be writing, the conversation is looked at often.
    const [next] = await world.rows<{ ms: number }>("SELECT due_at - now_ms() AS ms FROM polls");
    expect(next?.ms).toBeLessThanOrEqual(20_000);
    await look(world);
    await eventually(async () =>
      expect((await world.rows<{ due: number }>("SELECT due_at > now_ms() AS due FROM polls"))[0]?.due).toBe(1),
    );
    await world.idle();
    expect(world.textsTo(anna)).toHaveLength(2);
  });
});
