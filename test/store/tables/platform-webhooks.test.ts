// Platform webhooks and our registrations: each is stored once, on both databases, with the deadlines of
// pending ones.

import { describe, expect, it } from "vitest";
import { alarmRows } from "../../../src/escalation/alarm/rows.ts";
import { endNotifications } from "../../../src/escalation/notify/rows.ts";
import {
  beginRegistration,
  conversationsBoundTo,
  dropRegistration,
  duePlatformWebhooks,
  endPlatformWebhooks,
  endRegistration,
  insertPlatformWebhook,
  postponePlatformWebhooks,
  registrationsOf,
  signingSecretsOf,
} from "../../../src/escalation/platform-webhook/rows.ts";
import { bindPlatform } from "../../../src/store/tables/conversations.ts";
import { addTargets } from "../../../src/store/tables/responders.ts";
import {
  addNotification,
  conversation,
  draft,
  fresh,
  insertEscalation,
  onEachDatabase,
} from "../../support/store/databases.ts";

const told = { agent: "agent", id: "msg_1", kind: "escalation", body: "{}" } as const;

onEachDatabase((newDatabase) => {
  describe("what the platform has reported", () => {
    it("is stored once by its id, and again only when it may come again", async () => {
      const db = await fresh(newDatabase);
      const store = (id: string, againMs: number | null) =>
        db.tx((q) => insertPlatformWebhook(q, { ...told, id }, againMs));
      const both = await Promise.all([store("msg_1", null), store("msg_1", null)]);
      expect(both.filter(Boolean)).toHaveLength(1);
      expect(await store("msg_2", null)).toBe(true);
      expect(await store("msg_1", 0), "it is not worked off yet").toBe(false);
      await db.tx(async (q) => {
        for (const row of await duePlatformWebhooks(q, 9)) await endPlatformWebhooks(q, [{ row, state: "done" }]);
      });
      expect(await store("msg_1", null)).toBe(false);
      expect(await store("msg_1", 3_600_000)).toBe(false);
      expect(await store("msg_1", 0)).toBe(true);
      expect((await db.read((q) => duePlatformWebhooks(q, 9))).map(({ id, attempts }) => [id, attempts])).toEqual([
        ["msg_1", 0],
      ]);
    });

    it("is due at once, then when it was put off to, then never again", async () => {
      const db = await fresh(newDatabase, (q) => insertPlatformWebhook(q, told, null));
      await db.tx((q) => insertPlatformWebhook(q, { ...told, id: "m", kind: "message", body: "words" }, null));
      // Within one millisecond there is no order.
      const due = await db.read((q) => duePlatformWebhooks(q, 9));
      const row = due.find(({ kind }) => kind === "escalation");
      const message = due.find(({ kind }) => kind === "message");
      if (!row || !message) throw new Error("nothing is due");
      await db.tx((q) => postponePlatformWebhooks(q, [{ row, ms: 3_600_000 }]));
      await db.tx((q) => endPlatformWebhooks(q, [{ row: message, state: "done" }]));
      expect(await db.read((q) => duePlatformWebhooks(q, 9))).toEqual([]);
      expect(
        await db.read((q) => q.all("SELECT id, state, attempts, body FROM platform_webhooks ORDER BY id")),
      ).toEqual([
        { id: "m", state: "done", attempts: 1, body: "" },
        { id: "msg_1", state: "stored", attempts: 1, body: "{}" },
      ]);
    });

    it("is ended once: processing that ends later changes nothing", async () => {
      const db = await fresh(newDatabase, (q) => insertPlatformWebhook(q, told, null));
      const [row] = await db.read((q) => duePlatformWebhooks(q, 1));
      if (!row) throw new Error("nothing is due");
      const end = (state: "done" | "lost") => db.tx((q) => endPlatformWebhooks(q, [{ row, state }]));
      await end("lost");
      await end("done");
      expect(await db.read((q) => q.all("SELECT state, attempts FROM platform_webhooks"))).toEqual([
        { state: "lost", attempts: 1 },
      ]);
    });

    it("is about the newest conversation that is bound to that one", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (const id of ["k1", "k2"]) await bindPlatform(q, await conversation(q, id), "p");
      });
      expect(await db.read((q) => conversationsBoundTo(q, ["p", "q"]))).toEqual(
        new Map([["p", { id: "k2", channel: "c", agent: "agent" }]]),
      );
    });
  });

  it("notes a webhook that is asked for once, with what became of it", async () => {
    const db = await fresh(newDatabase);
    const one = { agent: "agent", trigger: "each_message", url: "https://a.test/", digest: "d" };
    const both = await Promise.all([1, 2].map(() => db.tx((q) => beginRegistration(q, one))));
    expect(both.filter(Boolean)).toHaveLength(1);
    const rows = () => db.read((q) => registrationsOf(q, "agent", "each_message"));
    expect(await rows()).toMatchObject([{ ...one, platform_id: null }]);
    await db.tx((q) => endRegistration(q, one, { platformId: "w", secret: "whsec_x" }));
    expect(await rows()).toMatchObject([{ platform_id: "w" }]);
    expect((await rows())[0]?.requested_ago).toBeGreaterThanOrEqual(0);
    expect(await db.read((q) => signingSecretsOf(q, "agent"))).toEqual(["whsec_x"]);
    expect(await db.read((q) => signingSecretsOf(q, "other"))).toEqual([]);
    await db.tx((q) => dropRegistration(q, one));
    expect(await rows()).toEqual([]);
  });

  it("counts what became of the notices of each escalation, channel by channel", async () => {
    const db = await fresh(newDatabase, async (q) => {
      const about = { conversation: null, channel: "c", agent: "a", cause: "topic", topic: null, reason: "" };
      for (const id of ["e1", "e2", "e3"]) await insertEscalation(q, { ...about, id, about: id });
      await q.run("UPDATE escalations SET state = 'closed' WHERE id = 'e3'");
      await conversation(q, "k");
      for (const [n, state] of ["sent", "failed"].entries()) {
        const who = { person: "p", name: "P", way: "email", address: `a${n}`, channel: "c" } as const;
        const id = `contact${n}`;
        await addTargets(q, [{ id, escalation: "e1", ...who }]);
        await addNotification(q, { id: `n${n}`, target: id, kind: "opened", subject: "", text: null }, 0);
        await draft(q, `d${n}`, "k");
        await endNotifications(q, [`n${n}`], `rd${n}`);
        await q.run("UPDATE drafts SET state = $2 WHERE id = $1", `d${n}`, state);
      }
    });
    const { notifications, oldest, numbers } = await db.read(alarmRows);
    expect(notifications.toSorted((a, b) => (a.escalation < b.escalation ? -1 : 1))).toEqual([
      { escalation: "e1", state: "open", notified: 0, channel: "c", delivered: 1, failed: 1, stuck: 1 },
      { escalation: "e2", state: "open", notified: 0, channel: null, delivered: 0, failed: 0, stuck: 0 },
    ]);
    expect(oldest).toBeGreaterThanOrEqual(0);
    expect(numbers).toEqual([1, 2]);
  });
});
