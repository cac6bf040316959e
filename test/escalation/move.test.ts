// Targets of acknowledged escalations on channels that were removed: they move to another channel of the responder, or
// their notifications count as failed.

import { describe, expect, it } from "vitest";
import type { Person, Policy } from "../../src/domain/policy.ts";
import { acknowledge } from "../../src/escalation/actions.ts";
import { notifyStage } from "../../src/escalation/notify/stage.ts";
import { EscalationHandler } from "../../src/escalation/trigger/stage.ts";
import { standardTiming } from "../../src/ops/timing.ts";
import type { Query } from "../../src/store/driver.ts";
import { enqueueDraft } from "../../src/store/tables/drafts.ts";
import { closeEscalation, readEscalation, reconsiderEscalations } from "../../src/store/tables/escalations.ts";
import { ensureChannel } from "../../src/store/tables/events.ts";
import { addTargets, notifyTargets } from "../../src/store/tables/responders.ts";
import { clock, listen } from "../support/pipeline/stage.ts";
import { policyOf, responder, runtimeOf } from "../support/rows.ts";
import {
  addNotification,
  conversation,
  fresh,
  type NewDatabase,
  onEachDatabase,
  opens,
} from "../support/store/databases.ts";

const [ann, bob] = [responder("ann", { sms: "+1" }), responder("bob", { sms: "+2" })];
const withMail = responder("ann", { sms: "+1", email: "ann@people.example" });

/** Escalation `e`, of which Ann, and Bob where wanted, were notified by texts from channel `old`. */
async function notified(newDatabase: NewDatabase, people: readonly Person[], via: Policy["via"]) {
  const db = await fresh(newDatabase);
  const lines = new Map(["c", "old", "new", "mail"].map((channel) => [channel, runtimeOf(channel)]));
  const heard = listen();
  let policy = policyFor(people, { sms: "old", email: "mail" });
  const deps = { policy: () => policy, lines: () => lines, clock, log: heard.log, timing: standardTiming };
  const stage = notifyStage({ ...deps, link: () => null });
  const run = () => db.tx((q) => stage.run(q));
  await db.tx(async (q) => {
    for (const channel of lines.keys()) await ensureChannel(q, channel);
    await conversation(q, "k");
    await opens(q, "e", { about: "conversation:k", conversation: "k", cause: "topic" });
    await q.run("UPDATE escalations SET due_at = NULL");
    for (const { id, sms } of people) {
      const target = { id, escalation: "e", person: id, name: id, way: "sms", address: sms ?? "" } as const;
      await addTargets(q, [{ ...target, channel: "old" }]);
      await addNotification(q, { id: `n-${id}`, target: id, kind: "opened", subject: "", text: null }, 0);
    }
  });
  await run();
  return {
    db,
    heard,
    deps,
    run,
    acknowledged: (target: string | null) =>
      db.tx(async (q) => acknowledge(q, await readEscalation(q, "e"), { name: target ?? "olga", target }, deps)),
    /** A channel is removed. */
    removed: (channel = "old", instead = via) => {
      lines.delete(channel);
      policy = policyFor(people, instead);
    },
    reconsidered: async () => {
      await db.tx(reconsiderEscalations);
      await run();
    },
    /** The customer writes, and what is due is written. */
    asks: async (turn: string) => {
      await db.tx((q) => tells(q, turn));
      await run();
      await run();
    },
    state: async () => db.read(async (q) => (await readEscalation(q, "e")).state),
    /** Where the customer's messages were written. */
    received: () =>
      db.read((q) =>
        q.all<{ text: string; channel: string; person: string }>(
          `SELECT notifications.subject AS text, replies.channel, notification_targets.person FROM notifications
           JOIN replies ON replies.id = reply JOIN notification_targets ON notification_targets.id = target
           WHERE notifications.kind = 'customer' ORDER BY notifications.made_at, notifications.id`,
        ),
      ),
    due: () =>
      db.read(async (q) => [
        ...(await q.all("SELECT id FROM notifications WHERE due_at IS NOT NULL")),
        ...(await q.all("SELECT id FROM escalations WHERE due_at IS NOT NULL AND state <> 'open'")),
      ]),
  };
}

const policyFor = (people: readonly Person[], via: Policy["via"]): Policy =>
  policyOf({
    responders: new Map(people.map((one) => [one.id, one])),
    tiers: [{ notify: people.map(({ id }) => id), by: ["sms"], repeat: 0, next: 60_000 }],
    via,
  });

async function tells(q: Query, turn: string): Promise<void> {
  await notifyTargets(
    q,
    await readEscalation(q, "e"),
    { id: turn, kind: "customer", subject: turn, text: turn },
    "notified",
  );
}

const none = { sms: null, email: null };
const movedLine = "escalation moved to another channel";

onEachDatabase((newDatabase) => {
  describe("a target on a removed channel", () => {
    it.each([
      ["keeps its address on another channel", [ann], { sms: "new", email: null }, "new"],
      ["is replaced by another address of the responder", [withMail], { sms: null, email: "mail" }, "mail"],
    ] as const)("%s, after a reload and without one", async (_, people, via, channel) => {
      for (const target of ["ann", null])
        for (const isReload of [true, false]) {
          const one = await notified(newDatabase, people, via);
          await one.acknowledged(target);
          await one.run();
          one.removed();
          if (isReload) await one.reconsidered();
          await one.asks("t1");
          await one.asks("t2");
          if (isReload) await one.reconsidered();
          expect(await one.received()).toEqual(["t1", "t2"].map((text) => ({ text, channel, person: "ann" })));
          expect([await one.state(), await one.due()]).toEqual(["acknowledged", []]);
          expect(one.heard.lines.filter((line) => line.includes("failed"))).toEqual([]);
          expect(one.heard.lines.filter((line) => line === movedLine)).toEqual([movedLine]);
        }
    });

    it("opens the escalation again after a reload when its responder has no other channel", async () => {
      for (const target of ["ann", null]) {
        const one = await notified(newDatabase, [ann], none);
        await one.acknowledged(target);
        one.removed();
        await one.reconsidered();
        expect(await one.state()).toBe("open");
        expect(await one.db.read((q) => readEscalation(q, "e"))).toMatchObject({ acknowledged_target: null });
      }
    });

    it("leaves the customer's message to the other targets, and opens the escalation again without any", async () => {
      const one = await notified(newDatabase, [ann, bob], none);
      await one.acknowledged("ann");
      await one.run();
      await one.db.tx((q) => q.run("UPDATE notification_targets SET channel = 'new' WHERE id = 'bob'"));
      one.removed();
      await one.asks("t1");
      expect(await one.received()).toEqual([{ text: "t1", channel: "new", person: "bob" }]);
      expect([await one.state(), await one.due()]).toEqual(["acknowledged", []]);
      await one.db.tx((q) => q.run("UPDATE notification_targets SET channel = 'old'"));
      await one.asks("t2");
      expect([await one.state(), await one.due()]).toEqual(["open", []]);
      expect(one.heard.lines).toContain("escalation reopened: no responder receives the customer's messages");
    });

    it("gets an unsent message of the customer again, once, and its late failure opens nothing", async () => {
      const one = await notified(newDatabase, [ann], { sms: "new", email: null });
      await one.acknowledged("ann");
      await one.run();
      await one.asks("t1");
      const draft = await one.db.tx(async (q) => {
        const [row] = await q.all<{ id: string; conversation: string }>(
          "SELECT replies.id, replies.conversation FROM replies JOIN notifications ON reply = replies.id WHERE notifications.kind = 'customer'",
        );
        const { id: reply, conversation: of } = row ?? { id: "", conversation: "" };
        await q.run("UPDATE replies SET state = 'composed' WHERE id = $1", reply);
        await enqueueDraft(q, {
          id: "d",
          conversation: of,
          channel: "old",
          reply,
          recipient: "+1",
          body: "{}",
          dueAt: 0,
        });
        return { id: "d", conversation: of, reply };
      });
      one.removed();
      await one.reconsidered();
      await one.reconsidered();
      const twice = ["old", "new"].map((channel) => ({ text: "t1", channel, person: "ann" }));
      expect(await one.received()).toEqual(twice);
      expect(one.heard.lines.filter((line) => line === movedLine)).toEqual([movedLine]);
      await one.db.tx(async (q) => {
        await q.run("UPDATE drafts SET state = 'failed', open = 0 WHERE id = 'd'");
        const why = { state: "failed", reason: "no such number" } as const;
        await new EscalationHandler(one.deps).undeliverable(q, runtimeOf("old"), draft, why);
      });
      await one.run();
      expect([await one.state(), await one.received(), await one.due()]).toEqual(["acknowledged", twice, []]);
    });

    it("gets an unsent message again after each move, and logs the channels", async () => {
      const one = await notified(newDatabase, [ann], { sms: "new", email: null });
      await one.acknowledged("ann");
      await one.run();
      await one.asks("t1");
      one.removed();
      await one.reconsidered();
      one.removed("new", { sms: "c", email: null });
      await one.reconsidered();
      await one.reconsidered();
      const channels = ["old", "new", "c"];
      expect(await one.received()).toEqual(channels.map((channel) => ({ text: "t1", channel, person: "ann" })));
      const moves = [
        ["old", "new"],
        ["new", "c"],
      ].map(([from_channel, to_channel]) => ({ escalation: 1, from_channel, to_channel }));
      expect(one.heard.entries.filter(({ text }) => text === movedLine).map(({ fields }) => fields)).toEqual(moves);
      expect([await one.state(), await one.due()]).toEqual(["acknowledged", []]);
    });

    it("ends the notifications of a closed escalation", async () => {
      const one = await notified(newDatabase, [ann], none);
      await one.db.tx(async (q) => {
        await closeEscalation(q, "e", "olga");
        await notifyTargets(
          q,
          await readEscalation(q, "e"),
          { id: "m", kind: "message", subject: "m", text: "m" },
          "all",
        );
      });
      one.removed();
      await one.run();
      expect(await one.due()).toEqual([]);
      expect(one.heard.lines).toContain("escalation notification not delivered");
    });

    it("makes the next step of an open escalation due, once", async () => {
      const one = await notified(newDatabase, [ann], none);
      const dueIn = () => one.db.read((q) => q.all("SELECT due_at <= now_ms() AS due FROM escalations"));
      await one.db.tx(async (q) => {
        await q.run("UPDATE escalations SET notified_at = now_ms(), due_at = now_ms() + 3600000");
        await addNotification(q, { id: "r", target: "ann", kind: "reminder", subject: "r", text: null }, 0);
      });
      one.removed();
      await one.run();
      expect((await dueIn()).map((row) => Boolean(row["due"]))).toEqual([true]);
      expect(await one.due()).toEqual([]);
    });
  });

  it("a reload changes nothing in an acknowledged escalation whose channels run", async () => {
    const one = await notified(newDatabase, [ann], none);
    await one.acknowledged("ann");
    const before = await one.db.read((q) => readEscalation(q, "e"));
    await one.reconsidered();
    expect(await one.db.read((q) => readEscalation(q, "e"))).toEqual(before);
    expect(await one.due()).toEqual([]);
  });
});
