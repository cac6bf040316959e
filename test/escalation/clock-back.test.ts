// The clock is set back by an hour during an escalation: nothing is lost, and nothing is opened or notified twice.

import { expect, it } from "vitest";
import { healthStage } from "../../src/escalation/health/stage.ts";
import { notifyStage } from "../../src/escalation/notify/stage.ts";
import { insertPlatformWebhook } from "../../src/escalation/platform-webhook/rows.ts";
import { platformWebhookStage } from "../../src/escalation/platform-webhook/stage.ts";
import { openEscalations } from "../../src/escalation/trigger/stage.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { EscalationTrigger } from "../../src/pipeline/escalation.ts";
import type { Query } from "../../src/store/driver.ts";
import { hastenDue } from "../../src/store/due.ts";
import { closeEscalation, listEscalations } from "../../src/store/tables/escalations.ts";
import { escalationsIn, policyOf } from "../support/escalation/policy.ts";
import { testClock } from "../support/pipeline/pipeline.ts";
import { lineOf, listen } from "../support/pipeline/stage.ts";
import { conversation, fresh, sqliteDatabase, turn } from "../support/store/databases.ts";

const hour = 3_600_000;
const minute = 60_000;

/** A store that follows the clock wherever it goes, as one does across a restart. */
async function fixture() {
  const clock = testClock(true);
  const db = await fresh(() => sqliteDatabase(() => clock.now()));
  const { log } = listen();
  const of = (source: EscalationTrigger["source"], key: string): EscalationTrigger => ({
    key,
    source,
    cause: "topic",
    channel: "c",
    agent: "agent",
    conversation: "k",
    topic: "refund",
    reason: "because",
  });
  return {
    clock,
    db,
    log,
    raises: (source: EscalationTrigger["source"], key: string) =>
      db.tx(
        async (q) =>
          (await openEscalations(q, [of(source, key)], { clock, log })).get("conversation:k")?.number ?? null,
      ),
    closes: async () => {
      const [row] = await db.read((q) => listEscalations(q, { limit: 1 }));
      await db.tx((q) => closeEscalation(q, row?.id ?? "", "Dora"));
      return row?.number;
    },
  };
}

it("opens for a customer's newer message, and ignores a late trigger for a closed one", async () => {
  const { clock, db, raises, closes } = await fixture();
  await db.tx(async (q) => {
    await conversation(q, "k");
    await turn(q, "t1", "k");
  });
  expect(await raises("response", "response:1")).toBe(1);
  expect(await closes()).toBe(1);
  clock.set(-hour);
  expect(await raises("mode", "mode:1"), "the same, said late").toBe(null);
  await db.tx((q) => turn(q, "t2", "k"));
  expect(await raises("webhook", "webhook:2"), "they have written since").toBe(2);
  clock.forward(minute);
  expect(await closes(), "the newest").toBe(2);
  expect(await raises("mode", "mode:2"), "the same, said late").toBe(null);
  expect(await raises("response", "response:2"), "the same, said later").toBe(null);
  clock.forward(2 * hour);
  expect(await raises("webhook", "webhook:3"), "the same, said much later").toBe(null);
  await db.tx((q) => turn(q, "t3", "k"));
  expect(await raises("mode", "mode:3")).toBe(3);
});

it("a channel that fails again is notified again, once, and its end once", async () => {
  const { clock, db, log } = await fixture();
  const policy = policyOf({ downAfter: 0 });
  let state: "ready" | "degraded" = "degraded";
  const look = async () => {
    // A new process knows nothing of the one before.
    const pulses = () => [{ channel: "c", agent: "agent", state, reason: "it is down", forMs: 0 }];
    const stage = healthStage({ policy: () => policy, pulses, clock, log });
    await db.tx((q) => stage.run(q));
    return (await escalationsIn(db)).map((one) => one.state);
  };
  expect(await look()).toEqual(["open"]);
  state = "ready";
  expect(await look()).toEqual(["closed"]);
  clock.set(-hour);
  state = "degraded";
  expect(await look()).toEqual(["closed", "open"]);
  expect(await look()).toEqual(["closed", "open"]);
  clock.forward(minute);
  state = "ready";
  expect(await look()).toEqual(["closed", "closed"]);
  expect(await look()).toEqual(["closed", "closed"]);
  state = "degraded";
  expect(await look()).toEqual(["closed", "closed", "open"]);
});

it("a responder notified an hour ahead is notified again when the repetition is due, not an hour later", async () => {
  const { clock, db, log, raises } = await fixture();
  await db.tx((q) => conversation(q, "k"));
  const dora = { id: "dora", name: "Dora", email: "dora@people.example", sms: null, webhook: null };
  const policy = policyOf({
    responders: new Map([["dora", { ...dora, timeZone: "UTC", hours: [], away: [] }]]),
    fallback: { notify: ["dora"], by: null, repeat: 10 * minute },
  });
  const outbound = { compose: () => [], send: () => Promise.reject(new Error("nothing is sent")) };
  const lines = new Map([["c", lineOf({ outbound })]]);
  const stage = notifyStage({
    policy: () => policy,
    lines: () => lines,
    clock,
    log,
    timing: standardTiming,
    link: () => null,
  });
  const told = async () => {
    await db.tx((q) => stage.run(q));
    // Marks the notifications as sent, so that a repetition does not wait for them.
    await db.tx((q) => q.run("UPDATE replies SET state = 'composed'"));
    return db.read((q: Query) => q.all("SELECT kind FROM notifications ORDER BY id")).then((all) => all.length);
  };
  await raises("response", "response:1");
  expect(await told()).toBe(1);
  clock.set(-hour);
  expect(await told(), "not at once").toBe(1);
  clock.forward(9 * minute);
  expect(await told()).toBe(1);
  clock.forward(2 * minute);
  expect(await told()).toBe(2);
  expect(await told()).toBe(2);
});

it("an escalation of a conversation that is not known waits for it no longer than without the step", async () => {
  const { clock, db, log } = await fixture();
  const { strangerEscalation } = standardTiming.platformWebhook;
  const lines = new Map([["c", lineOf()]]);
  const stage = platformWebhookStage({
    policy: () => policyOf({}),
    lines: () => lines,
    clock,
    log,
    timing: standardTiming,
  });
  const body = JSON.stringify({ conversationId: "p" });
  await db.tx((q) => insertPlatformWebhook(q, { agent: "agent", id: "d", kind: "escalation", body }, null));
  clock.set(-hour);
  await db.tx((q) => hastenDue(q, hour));
  const opened = async () => {
    await db.tx((q) => stage.run(q));
    return (await escalationsIn(db)).length;
  };
  expect(await opened()).toBe(0);
  clock.forward(strangerEscalation + minute);
  expect(await opened()).toBe(1);
});
