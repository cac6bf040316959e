// Opt-outs by an operator: what they suppress, what they leave alone, and who may lift them.

import { describe, expect, it } from "vitest";
import type { Database } from "../../../src/store/driver.ts";
import { releaseEvent } from "../../../src/store/operators/inbox.ts";
import { listOptOuts, optOut, senderOf, undoOptOut } from "../../../src/store/operators/opt-outs.ts";
import { recordOutcome } from "../../../src/store/tables/events.ts";
import { hideSuppressions, lift, strike, suppress, suppressOptedOut } from "../../../src/store/tables/suppressions.ts";
import { conversation, draft, fresh, onEachDatabase, storeEvent } from "../../support/store/databases.ts";

const operator = { actor: "dora", reason: "asked by phone" };
const anna = { channel: "c", addresses: ["a@example.org"] };
const suppressions = (db: Database) => db.read((q) => listOptOuts(q, { limit: 10 }));

onEachDatabase((newDatabase) => {
  describe("opt-outs", () => {
    it("suppress the sender of a held message and its Reply-To, and drop the message", async () => {
      const db = await fresh(newDatabase);
      const body = JSON.stringify({ kind: "message", text: "stop it", replyTo: { address: "Other@example.org" } });
      const id = await db.tx(async (q) => {
        const stored = await storeEvent(q, "e", { sender: "a@example.org", body });
        await recordOutcome(q, stored, { state: "held", code: "possible-opt-out" });
        await conversation(q, "k");
        await draft(q, "d", "k", 3_600_000);
        return stored;
      });
      const done = await db.tx(async (q) => optOut(q, await senderOf(q, id), operator));
      expect(done).toEqual([
        { channel: "c", address: "a@example.org", waiting: 1, earlier: null },
        { channel: "c", address: "other@example.org", waiting: 0, earlier: null },
      ]);
      const listed = (await suppressions(db)).toSorted((a, b) => a.address.localeCompare(b.address));
      expect(listed).toMatchObject(
        ["a@example.org", "other@example.org"].map((address) => ({
          address,
          source: "operator",
          reason: "opted out by dora: asked by phone",
        })),
      );
      const event = await db.read((q) => q.one("SELECT state, code, reason FROM events WHERE id = $1", id));
      expect(event).toEqual({
        state: "ignored",
        code: "possible-opt-out",
        reason: "dropped by an operator: the sender was opted out: asked by phone",
      });
      const actions = await db.read((q) => q.all("SELECT action, actor, event FROM actions ORDER BY id"));
      expect(actions).toEqual(["opt-out", "drop"].map((action) => ({ action, actor: "dora", event: id })));
    });

    it("outlast a bounce", async () => {
      const db = await fresh(newDatabase, (q) => suppress(q, "c", "a@example.org", "said STOP"));
      expect(await db.tx((q) => strike(q, "c", "a@example.org", 2, "bounced"))).toBe(true);
      expect(await suppressions(db)).toMatchObject([{ address: "a@example.org", source: "stop", reason: "said STOP" }]);
    });

    it("leave a message that was answered or dropped as it is", async () => {
      const db = await fresh(newDatabase);
      const id = await db.tx((q) => storeEvent(q, "e", { sender: "a@example.org" }));
      await db.tx((q) => recordOutcome(q, id, { state: "ignored", code: "denied" }));
      await db.tx(async (q) => optOut(q, await senderOf(q, id), { actor: "dora" }));
      expect(await db.read((q) => q.one("SELECT state, code, reason FROM events"))).toEqual({
        state: "ignored",
        code: "denied",
        reason: null,
      });
      await db.tx((q) => releaseEvent(q, id));
      expect((await suppressions(db)).map(({ reason }) => reason)).toEqual(["opted out by dora"]);
    });

    it("are lifted by an operator, as are those of bounces, and by START", async () => {
      const db = await fresh(newDatabase, (q) => optOut(q, anna, operator));
      expect(await db.tx((q) => undoOptOut(q, anna, operator))).toMatchObject([{ source: "operator" }]);
      expect(await suppressions(db)).toEqual([]);
      await db.tx((q) => strike(q, "c", "a@example.org", 1, "550 no such user"));
      expect(await suppressions(db)).toMatchObject([{ source: "bounces" }]);
      expect(await db.tx((q) => undoOptOut(q, anna, operator))).toMatchObject([{ reason: "550 no such user" }]);
      await expect(db.tx((q) => undoOptOut(q, anna, operator))).rejects.toThrow("is not opted out of channel c");
      await db.tx((q) => optOut(q, anna, operator));
      await db.tx((q) => lift(q, "c", "a@example.org"));
      expect(await suppressions(db)).toEqual([]);
    });

    it("of the person or the provider are not lifted, and not replaced by one that could be", async () => {
      const db = await fresh(newDatabase);
      for (const own of [suppress, suppressOptedOut]) {
        await db.tx((q) => own(q, "c", "a@example.org", "own words"));
        const [before] = await suppressions(db);
        const [done] = await db.tx((q) => optOut(q, anna, operator));
        expect(done?.earlier?.reason).toContain("own words");
        expect(await suppressions(db)).toEqual([before]);
        await expect(db.tx((q) => undoOptOut(q, anna, operator))).rejects.toThrow("START");
      }
      await db.tx((q) => lift(q, "c", "a@example.org"));
      await db.tx((q) => optOut(q, anna, operator));
      await db.tx((q) => suppress(q, "c", "a@example.org", "own words"));
      await expect(db.tx((q) => undoOptOut(q, anna, operator))).rejects.toThrow("only their START lifts it");
    });

    it("of the person from one address of ours stay, and are named", async () => {
      const db = await fresh(newDatabase);
      await db.tx((q) => suppress(q, "c", "a@example.org", "said STOP", { own: "us@example.org" }));
      const undo = () => db.tx((q) => undoOptOut(q, anna, operator));
      await expect(undo()).rejects.toThrow("only their START lifts it");
      const [done] = await db.tx((q) => optOut(q, anna, operator));
      expect(done?.earlier).toMatchObject({ source: "stop", own_address: "us@example.org" });
      expect(await suppressions(db)).toHaveLength(2);
      expect(await undo()).toMatchObject([{ source: "operator", stays: ["us@example.org"] }]);
      expect(await suppressions(db)).toMatchObject([{ source: "stop", own_address: "us@example.org" }]);
    });

    it("stay after an erasure, and are lifted by address", async () => {
      const db = await fresh(newDatabase);
      for (const by of ["operator", "stop"] as const) {
        await db.tx((q) => suppress(q, "c", "a@example.org", "words of the person", { source: by }));
        await db.tx((q) => hideSuppressions(q, ["a@example.org"]));
        expect(await suppressions(db)).toMatchObject([{ source: by, reason: "they opted out, and were erased" }]);
        const undo = db.tx((q) => undoOptOut(q, anna, operator));
        if (by === "stop") await expect(undo).rejects.toThrow("START");
        else expect(await undo).toMatchObject([{ address: "a@example.org" }]);
      }
    });

    it("name messages only, of senders that are known", async () => {
      const db = await fresh(newDatabase);
      const [message, receipt] = await db.tx(async (q) => [
        await storeEvent(q, "e", { sender: null }),
        await storeEvent(q, "r", { kind: "delivery" }),
      ]);
      await expect(db.read((q) => senderOf(q, message ?? 0))).rejects.toThrow("was forgotten");
      for (const id of [receipt ?? 0, 4711])
        await expect(db.read((q) => senderOf(q, id))).rejects.toThrow(`there is no message ${id}`);
    });
  });
});
