// Without an escalation policy no responder is notified, and everything else works: escalations of the platform are
// detected, calls are transferred, and messages that appear on the platform reach the customer.

import { describe, expect, it } from "vitest";
import { touch } from "../../../src/store/driver.ts";
import { eventually } from "../../support/clock.ts";
import { colleague, topic } from "../../support/daemon/escalation-daemon.ts";
import type { Finished } from "../../support/daemon/mail-daemon.ts";
import {
  anna,
  type PhoneDaemon,
  type PhoneDaemonOptions,
  startPhoneDaemon,
} from "../../support/daemon/phone-daemon.ts";
import { echoed } from "../../support/daemon/platform.ts";

const office = "+12025550150";
const detected = "escalation detected, no responder is configured";

const openFixture = (finished: Finished, options: PhoneDaemonOptions = {}): Promise<PhoneDaemon> =>
  startPhoneDaemon(finished, { ...options, skills: { escalation: { escalations: [topic("refund")] } } });

/** Changes the conversation on the platform, as a human in the platform's own interface does. */
async function onPlatform(daemon: PhoneDaemon, method: string, path: string, body: object): Promise<void> {
  const [row] = await daemon.rows<{ platform_id: string }>("SELECT platform_id FROM conversations");
  const url = `${daemon.proxy.url}/external/conversations/${row?.platform_id ?? ""}/${path}`;
  const headers = { "agent-secret-key": daemon.env["AGENT_KEY"] ?? "", "content-type": "application/json" };
  const response = await fetch(url, { method, headers, body: JSON.stringify(body) });
  expect(response.ok).toBe(true);
}

/** Makes the next look at the only conversation due. */
const look = (daemon: PhoneDaemon): Promise<void> =>
  daemon.app().scheduler.commit(async (q) => {
    await q.run("UPDATE polls SET due_at = now_ms()");
    touch(q, "polls");
  });

const warnings = (daemon: PhoneDaemon) => daemon.log.filter(({ message }) => message === detected);

describe("without an escalation policy", () => {
  it.concurrent("a call is transferred after the agent's escalating answer", async ({ onTestFinished }) => {
    const rung: string[] = [];
    const daemon = await openFixture(onTestFinished, {
      voice: { collect: "50ms", speaking_rate: 40, transfer: { dial: [office] } },
      phone: { dialed: (target) => (rung.push(target), "completed") },
    });
    const call = await daemon.dial();
    call.say("I want a refund");
    await call.hears(colleague);
    expect(await call.over).toBe("hangup");
    expect(rung).toEqual([office]);
    await eventually(async () =>
      expect(await daemon.rows("SELECT state, transferring FROM sessions")).toEqual([
        { state: "closed", transferring: "escalated" },
      ]),
    );
    expect(warnings(daemon).map(({ fields }) => fields["topic"])).toContain("refund");
  });

  it.concurrent("the platform's escalation is detected: mode manual is read and logged, no rows are kept", async ({
    onTestFinished,
  }) => {
    const daemon = await openFixture(onTestFinished);
    await daemon.text("A refund, please");
    await eventually(() => expect(daemon.textsTo()).toEqual([colleague]));
    await eventually(async () => expect(await daemon.rows("SELECT mode FROM polls")).toEqual([{ mode: "manual" }]));
    expect(warnings(daemon)).toHaveLength(2); // the answer and the mode
    await daemon.text("Anybody?");
    await daemon.idle();
    expect(daemon.textsTo()).toEqual([colleague]);
    expect(await daemon.rows("SELECT 1 FROM escalations")).toEqual([]);
  });

  it.concurrent("messages from the platform reach the customer, each once", async ({ onTestFinished }) => {
    const daemon = await openFixture(onTestFinished);
    await daemon.text("Hello?");
    await eventually(() => expect(daemon.textsTo()).toEqual([echoed("Hello?")]));
    await daemon.idle();
    await onPlatform(daemon, "PUT", "mode", { mode: "manual" });
    await onPlatform(daemon, "POST", "send-manual-message", { message: "Here is Cleo." });
    await look(daemon);
    await eventually(() => expect(daemon.textsTo(anna)).toEqual([echoed("Hello?"), "Here is Cleo."]));
    await daemon.idle();
    // While a human may be writing, the conversation is looked at often.
    const [next] = await daemon.rows<{ ms: number }>("SELECT due_at - now_ms() AS ms FROM polls");
    expect(next?.ms).toBeLessThanOrEqual(20_000);
    await look(daemon);
    await eventually(async () =>
      expect((await daemon.rows<{ due: number }>("SELECT due_at > now_ms() AS due FROM polls"))[0]?.due).toBe(1),
    );
    await daemon.idle();
    expect(daemon.textsTo(anna)).toHaveLength(2);
  });
});
