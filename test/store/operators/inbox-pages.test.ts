// Pages of the list of events: each reads a bounded number of them.

import { describe, expect, it } from "vitest";
import { listEvents } from "../../../src/store/operators/inbox.ts";
import { recordOutcome } from "../../../src/store/tables/events.ts";
import { conversation, fresh, onEachDatabase, put, storeEvent, turn } from "../../support/store/databases.ts";

const day = 86_400_000;

onEachDatabase((newDatabase) => {
  describe("the list of events", () => {
    it("reads a bounded number of events for a page, and reports where the next one continues", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let n = 1; n <= 220; n++) {
          const id = await storeEvent(q, String(n));
          const stopped = { state: "ignored", code: n === 1 ? "loop" : "list" } as const;
          await recordOutcome(q, id, n % 2 === 1 ? stopped : { state: "routed" });
        }
      });
      const list = async (wanted: Omit<Parameters<typeof listEvents>[1], "limit">) => {
        const { events, readTo } = await db.read((q) => listEvents(q, { limit: 1, ...wanted }));
        return [...events.map(({ external_id: id }) => id), `to ${readTo?.id ?? "the end"}`];
      };
      expect(await list({ state: "answered", channel: "other" })).toEqual(["to 121"]);
      expect(await list({ state: "answered", channel: "other", after: 121 })).toEqual(["to 21"]);
      expect(await list({ state: "answered", channel: "other", after: 21 })).toEqual(["to the end"]);
      expect(await list({ state: "answered", after: 21 })).toEqual(["20", "to the end"]);
      expect(await list({ state: "all", code: "loop" })).toEqual(["to 121"]);
      expect(await list({ state: "ignored", code: "loop" })).toEqual(["to 21"]);
      expect(await list({ state: "ignored", code: "loop", after: 21 })).toEqual(["1", "to the end"]);
      expect(await list({ state: "ignored", since: Date.now() + day })).toEqual(["to the end"]);
    });

    it("gives the reason for which a message waits, and no longer that of a question that is closed", async () => {
      const db = await fresh(newDatabase, async (q) => {
        const id = await storeEvent(q, "m1");
        await conversation(q, "k1");
        await turn(q, "t1", "k1");
        await recordOutcome(q, id, { state: "routed" });
        await q.run("UPDATE events SET turn = 't1'");
        await put(q, "turns", "t1", "reason = '503 Service Unavailable'");
      });
      const reasons = async (state: "waiting" | "answered") =>
        (await db.read((q) => listEvents(q, { state, limit: 9 }))).events.map(({ reason }) => reason);
      expect(await reasons("waiting")).toEqual(["503 Service Unavailable"]);
      await db.tx((q) => put(q, "turns", "t1", "state = 'answered', open = 0"));
      expect([await reasons("waiting"), await reasons("answered")]).toEqual([[], [null]]);
    });
  });
});
