// Escalations and their notification targets: one per case, with any number of triggers; links that can be used once.

import { describe, expect, it } from "vitest";
import { leaveBehind } from "../../../src/escalation/move/rows.ts";
import {
  bindTargets,
  endNotifications,
  lastNotified,
  moveTargets,
  targetStates,
} from "../../../src/escalation/notify/rows.ts";
import { acknowledgeEscalation, candidatesAt } from "../../../src/escalation/reply/rows.ts";
import { passedOn } from "../../../src/escalation/trigger/rows.ts";
import { openEscalations } from "../../../src/escalation/trigger/stage.ts";
import type { Database } from "../../../src/store/driver.ts";
import { changeDraft } from "../../../src/store/tables/drafts.ts";
import {
  closeEscalation,
  dueEscalations,
  hastenEscalations,
  isTriggered,
  listEscalations,
  liveEscalation,
  moveEscalations,
  readEscalation,
  triggersOf,
} from "../../../src/store/tables/escalations.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import {
  dueNotifications,
  giveLinks,
  notificationStatesOf,
  notificationsOf,
  notifyTargets,
  sentIds,
  targetByLink,
} from "../../../src/store/tables/responders.ts";
import { clock, listen } from "../../support/pipeline/stage.ts";
import {
  addTrigger,
  contact,
  conversation,
  draft,
  fresh,
  migrated,
  type NewDatabase,
  notice,
  onEachDatabase,
  opens,
} from "../../support/store/databases.ts";

const minute = 60_000;

/** Two nodes; SQLite has one. */
async function nodes(newDatabase: NewDatabase): Promise<readonly [Database, Database]> {
  const at = await migrated(newDatabase);
  const one = await at.open();
  await one.tx((q) => ensureChannel(q, "c"));
  return [one, one.kind === "postgres" ? await at.open() : one];
}

/** A store with escalation `e`, and contact `k` of it. */
async function withContact(newDatabase: NewDatabase): Promise<Database> {
  const db = await fresh(newDatabase, async (q) => {
    await opens(q, "e");
    await contact(q, "k", "e");
  });
  return db;
}

onEachDatabase((newDatabase) => {
  describe("escalations", () => {
    it("is one for each trouble, however many open it at once", async () => {
      const [one, two] = await nodes(newDatabase);
      const all = await Promise.all(
        Array.from({ length: 12 }, (_, n) => (n % 2 ? one : two).tx((q) => opens(q, `e${n}`))),
      );
      expect(all.filter((row) => row !== null)).toHaveLength(1);
      const other = await one.tx((q) => opens(q, "other", { about: "channel:d:cap" }));
      const rows = await one.read((q) => listEscalations(q, { limit: 9 }));
      expect(rows).toHaveLength(2);
      expect(new Set(rows.map(({ number }) => number)).size).toBe(2);
      expect(other?.number).toBeGreaterThan(rows.find(({ id }) => id !== "other")?.number ?? Infinity);
    });

    it("is one when two nodes record the same trigger, and the same trigger counts once", async () => {
      const [one, two] = await nodes(newDatabase);
      const notices = (key: string) => ({
        key,
        source: "ours" as const,
        cause: "cap" as const,
        channel: "c",
        agent: "agent",
        conversation: null,
        topic: null,
        reason: key,
      });
      const { log } = listen();
      const keys = ["a", "b", "a", "c", "b", "a", "c", "a"];
      await Promise.all(
        keys.map((key, n) => (n % 2 ? one : two).tx((q) => openEscalations(q, [notices(key)], { clock, log }))),
      );
      const [row, ...more] = await one.read((q) => listEscalations(q, { limit: 9 }));
      expect(more).toEqual([]);
      const [sources] = (await one.read((q) => triggersOf(q, [row?.id ?? ""]))).values();
      expect(sources).toHaveLength(3);
      expect(new Set(sources?.map(({ detail }) => detail))).toEqual(new Set(["a", "b", "c"]));
    });

    it("is followed by another one when it is closed", async () => {
      const db = await fresh(newDatabase);
      const about = "channel:c:cap";
      await db.tx((q) => opens(q, "e1"));
      expect(await db.tx((q) => closeEscalation(q, "e1", "Dora"))).toBe(true);
      expect(await db.tx((q) => closeEscalation(q, "e1", "Emil"))).toBe(false);
      expect(await db.read((q) => liveEscalation(q, about))).toBeNull();
      expect(await db.read((q) => readEscalation(q, "e1"))).toMatchObject({ closed_by: "Dora" });
      expect(await db.tx((q) => opens(q, "e2"))).toMatchObject({ id: "e2", state: "open", tier: 0 });
      expect(await db.read((q) => liveEscalation(q, about))).toMatchObject({ id: "e2" });
      expect((await db.read((q) => listEscalations(q, { state: "closed", limit: 9 }))).length).toBe(1);
    });

    it("is acknowledged by a person, then by another one, and not when it is closed", async () => {
      const db = await withContact(newDatabase);
      const takes = (name: string, by: string | null) =>
        db.tx((q) => acknowledgeEscalation(q, "e", { name, target: by }));
      expect(await takes("Dora", "k")).toBe(true);
      expect(await takes("Dora", "k")).toBe(false);
      expect(await db.tx((q) => dueEscalations(q, 9))).toEqual([]);
      expect(await takes("Emil", null)).toBe(true);
      expect(await db.read((q) => readEscalation(q, "e"))).toMatchObject({
        acknowledged_by: "Emil",
        acknowledged_target: null,
      });
      await db.tx((q) => closeEscalation(q, "e", "Emil"));
      expect(await takes("Dora", "k")).toBe(false);
      expect(await db.read((q) => readEscalation(q, "e"))).toMatchObject({
        state: "closed",
        acknowledged_by: "Emil",
      });
    });

    it("is due in its steps, at once when a notification is stuck, and in bounded time after the clock was set back", async () => {
      const db = await fresh(newDatabase);
      const due = async () => (await db.tx((q) => dueEscalations(q, 9))).map(({ id }) => id);
      const at = async (dueMs: number | null, toldMs = 0) =>
        db.tx(async (q) => {
          const now = (await q.one<{ now: number }>("SELECT now_ms() AS now"))?.now ?? 0;
          const due_at = dueMs === null ? null : now + dueMs;
          await moveEscalations(q, [{ id: "e", tier: 1, entered_at: now - minute, notified_at: now + toldMs, due_at }]);
        });
      await db.tx((q) => opens(q, "e"));
      expect(await due()).toEqual(["e"]);
      await at(60 * minute, -1000);
      expect(await due()).toEqual([]);
      await db.tx((q) => hastenEscalations(q, ["e"], 300_000));
      expect(await due()).toEqual(["e"]);
      // No step was to follow: the last one again, but not at once.
      await at(null, -1000);
      await db.tx((q) => hastenEscalations(q, ["e"], 300_000));
      expect(await due()).toEqual([]);
      expect(await db.read((q) => readEscalation(q, "e"))).toMatchObject({
        due_at: expect.any(Number),
        notified_at: null,
      });
      await at(60 * minute, 5 * 60 * minute);
      expect(await due()).toEqual(["e"]);
      await db.tx((q) => closeEscalation(q, "e", "Dora"));
      await db.tx((q) => hastenEscalations(q, ["e"], 300_000));
      expect(await db.read((q) => readEscalation(q, "e"))).toMatchObject({ due_at: null });
      await at(0);
      expect(await due()).toEqual([]);
    });

    it("lists the recorded triggers of any escalation", async () => {
      const db = await withContact(newDatabase);
      await db.tx((q) => opens(q, "e2", { about: "channel:d:cap" }));
      const source = { key: "mode:1", source: "mode", detail: "d" };
      expect(await db.tx((q) => addTrigger(q, { ...source, escalation: "e" }))).toBe(true);
      expect(await db.tx((q) => addTrigger(q, { ...source, escalation: "e2" }))).toBe(false);
      expect(await db.read((q) => isTriggered(q, "mode:1"))).toBe(true);
      expect(await db.read((q) => isTriggered(q, "mode:2"))).toBe(false);
      expect(await db.read((q) => triggersOf(q, ["e2"]))).toEqual(new Map());
    });

    it("lists the newest triggers, and as many notes", async () => {
      const db = await withContact(newDatabase);
      await db.tx(async (q) => {
        for (const source of ["note", "ours"])
          for (const n of [1, 2, 3, 4])
            await addTrigger(q, { key: `${source}:${n}`, escalation: "e", source, detail: `${source} ${n}` });
      });
      const [newest] = (await db.read((q) => triggersOf(q, ["e"], 2))).values();
      expect(newest?.map(({ detail }) => detail).toSorted()).toEqual(["note 3", "note 4", "ours 3", "ours 4"]);
    });
  });

  describe("notification_targets", () => {
    it("is one for each way and address", async () => {
      const [one, two] = await nodes(newDatabase);
      const targets = () => one.read((q) => q.all("SELECT id FROM notification_targets"));
      await one.tx((q) => opens(q, "e"));
      await Promise.all(
        Array.from({ length: 6 }, (_, n) =>
          (n % 2 ? one : two).tx((q) => contact(q, `k${n}`, "e", "dora@example.org")),
        ),
      );
      expect(await targets()).toHaveLength(1);
      await one.tx((q) => contact(q, "emil", "e"));
      expect(await targets()).toHaveLength(2);
    });

    it("gives links that are valid until they expire or another one is given", async () => {
      const [one] = await nodes(newDatabase);
      await one.tx(async (q) => {
        await opens(q, "e");
        await contact(q, "k", "e");
        await giveLinks(q, [{ target: "k", link: "hash1" }], minute);
      });
      expect(await one.read((q) => targetByLink(q, "hash1"))).toMatchObject({ id: "k" });
      await one.tx((q) => giveLinks(q, [{ target: "k", link: "hash2" }], minute));
      expect(await one.read((q) => targetByLink(q, "hash1"))).toBeNull();
      expect((await one.read((q) => targetByLink(q, "hash2")))?.left).toBeGreaterThan(0);
      await one.tx((q) => giveLinks(q, [{ target: "k", link: "hash3" }], -1));
      expect((await one.read((q) => targetByLink(q, "hash3")))?.left).toBeLessThan(0);
    });

    it("is found by its address while the escalation is open, and for a while after", async () => {
      const db = await withContact(newDatabase);
      const at = (address: string, channel = "c") =>
        db.tx(async (q) => (await candidatesAt(q, channel, address, minute)).map(({ target: found }) => found));
      expect(await at("k@example.org")).toMatchObject([{ id: "k" }]);
      expect([await at("x@example.org"), await at("k@example.org", "d")]).toEqual([[], []]);
      await db.tx((q) => closeEscalation(q, "e", "Dora"));
      expect(await at("k@example.org")).toMatchObject([{ id: "k" }]);
      await db.tx((q) => q.run("UPDATE escalations SET closed_at = closed_at - $1", 2 * minute));
      expect(await at("k@example.org")).toEqual([]);
    });

    it("is found by what we sent, also when a later notice went into another conversation", async () => {
      const db = await withContact(newDatabase);
      await db.tx(async (q) => {
        for (const id of ["c1", "c2"]) {
          await conversation(q, id);
          await draft(q, `d-${id}`, id);
          await notice(q, `n-${id}`, "k", id === "c1" ? "opened" : "reminder");
          await endNotifications(q, [`n-${id}`], `rd-${id}`);
          await bindTargets(q, [{ target: "k", conversation: id }]);
          await changeDraft(q, `d-${id}`, { state: "sent", open: 0, externalId: `<${id}>` });
        }
      });
      for (const id of ["c1", "c2"]) {
        expect(await db.read((q) => sentIds(q, [id]))).toEqual(new Map([[id, [`<${id}>`]]]));
        expect(await db.read((q) => notificationsOf(q, `rd-${id}`))).toMatchObject([{ id: `n-${id}`, target: "k" }]);
      }
      expect(await db.read((q) => notificationsOf(q, "rd-none"))).toEqual([]);
    });
  });

  describe("notifications", () => {
    it("is recorded once, found when it is due, and sent once", async () => {
      const db = await withContact(newDatabase);
      const due = async () => (await db.tx((q) => dueNotifications(q, 9, 60_000))).map(({ id }) => id);
      expect(await db.tx((q) => notice(q, "n1", "k"))).toBe(true);
      expect(await db.tx((q) => notice(q, "n2", "k"))).toBe(false);
      expect(await db.tx((q) => notice(q, "n3", "k", "reminder", 60 * minute))).toBe(true);
      expect(await due()).toEqual(["n1"]);
      const moved = (ms: number) => db.tx((q) => q.run("UPDATE notifications SET made_at = made_at + $1", ms));
      await moved(2 * minute);
      expect((await due()).sort(), "as after a step of the clock").toEqual(["n1", "n3"]);
      await moved(-2 * minute);
      expect(await db.read((q) => lastNotified(q, [{ channel: "c", address: "k@example.org" }], 60_000))).toEqual(
        new Map(),
      );
      await db.tx(async (q) => {
        await conversation(q, "c1");
        await draft(q, "d", "c1");
        await endNotifications(q, ["n1"], "rd");
      });
      expect(await due()).toEqual([]);
      expect(await db.read((q) => lastNotified(q, [{ channel: "c", address: "k@example.org" }], 60_000))).toEqual(
        new Map([["c k@example.org", expect.any(Number)]]),
      );
      expect(await db.read((q) => notificationStatesOf(q, "e"))).toMatchObject([
        { kind: "opened", state: "queued" },
        { kind: "reminder", state: null },
      ]);
    });

    it("goes to the responder who has it, else to all, or to those who were notified", async () => {
      const db = await withContact(newDatabase);
      await db.tx(async (q) => {
        // The first notification of `k` is not written; `moved` replaces a target on a removed channel.
        await contact(q, "moved", "e");
        await notice(q, "n", "k");
      });
      let count = 0;
      const to = async (acknowledged_target: string | null, which: "owner" | "notified" | "all") => {
        const id = `x${++count}`;
        const text = { id, kind: "message", subject: id, text: "t" } as const;
        await db.tx((q) => notifyTargets(q, { id: "e", acknowledged_target }, text, which));
        const rows = await db.read((q) =>
          q.all<{ target: string }>("SELECT target FROM notifications WHERE subject = $1 ORDER BY target", id),
        );
        return rows.map(({ target }) => target);
      };
      expect([await to("k", "owner"), await to(null, "owner")]).toEqual([["k"], ["k", "moved"]]);
      expect([await to("k", "notified"), await to(null, "notified")]).toEqual([["k"], ["moved"]]);
      expect(await to("k", "all")).toEqual(["k", "moved"]);
    });

    it("waits to be read until the last notification was sent, or has failed", async () => {
      const db = await withContact(newDatabase);
      const waits = async () => {
        const states = await db.read((q) => targetStates(q, ["e"]));
        return states.get("e")?.some(({ due, waiting }) => due || waiting) ?? false;
      };
      expect(await waits()).toBe(false);
      await db.tx((q) => notice(q, "n0", "k", "message"));
      expect(await waits()).toBe(false);
      await db.tx((q) => notice(q, "n1", "k"));
      expect(await waits()).toBe(true);
      await db.tx((q) => endNotifications(q, ["n1"], null));
      expect(await waits()).toBe(false);
      await db.tx(async (q) => {
        await conversation(q, "c1");
        await draft(q, "d", "c1");
        await endNotifications(q, ["n1"], "rd");
      });
      const states: [string, boolean][] = [];
      for (const state of ["queued", "sending", "unknown", "sent", "delivered", "failed", "held", "dropped"]) {
        await db.tx((q) => q.run("UPDATE drafts SET state = $1", state));
        states.push([state, await waits()]);
      }
      expect(states.filter(([, yes]) => yes).map(([state]) => state)).toEqual(["queued", "sending", "unknown"]);
      await db.tx((q) => q.run("UPDATE drafts SET state = 'queued'"));
      expect(await waits()).toBe(true);
      await db.tx((q) => moveTargets(q, [{ id: "k", channel: "d" }]));
      expect(await waits(), "what its former channel keeps").toBe(false);
    });

    it("of a customer's message is alive until it has failed, or stays on a removed channel", async () => {
      const db = await withContact(newDatabase);
      await db.tx(async (q) => {
        await contact(q, "k2", "e");
        await notice(q, "n", "k", "customer");
        await conversation(q, "c1");
        await draft(q, "d", "c1");
        await q.run("UPDATE replies SET state = 'composed'");
      });
      const failed = { id: "n", target: "k", kind: "customer", subject: "", text: null, reply: null } as const;
      const alive = async () => {
        const on = (await db.tx((q) => passedOn(q, [{ ...failed, escalation: "e" }]))).get("n");
        return on?.map((one) => [one.channel, one.targets, one.written, one.alive]);
      };
      expect(await alive(), "it is not written").toEqual([["c", 2, 1, 1]]);
      await db.tx((q) => endNotifications(q, ["n"], "rd"));
      const states: string[] = [];
      for (const state of ["queued", "sending", "unknown", "sent", "delivered", "failed", "held", "dropped"]) {
        await db.tx((q) => q.run("UPDATE drafts SET state = $1", state));
        if ((await alive())?.[0]?.[3] === 1) states.push(state);
      }
      expect(states).toEqual(["queued", "sending", "unknown", "sent", "delivered"]);
      await db.tx((q) => q.run("UPDATE replies SET state = 'ready'"));
      expect(await alive(), "it is not composed").toEqual([["c", 2, 1, 1]]);
      await db.tx((q) => moveTargets(q, [{ id: "k", channel: "d" }]));
      expect(await alive()).toEqual(expect.arrayContaining([["d", 1, 1, 0]]));
      await db.tx((q) => q.run("UPDATE drafts SET state = 'queued'"));
      expect(await alive()).toEqual(expect.arrayContaining([["d", 1, 1, 0]]));
      await db.tx((q) => leaveBehind(q, ["n"]));
      expect(await alive()).toEqual(expect.arrayContaining([["d", 1, 0, 0]]));
    });
  });
});
