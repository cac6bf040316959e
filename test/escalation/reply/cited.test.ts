// What links a message to notification targets: one statement for all that it cites.

import { describe, expect, it } from "vitest";
import { bindTargets, endNotifications } from "../../../src/escalation/notify/rows.ts";
import { citedTargets, type LinkSearch } from "../../../src/escalation/reply/rows.ts";
import type { Query } from "../../../src/store/driver.ts";
import { cite } from "../../../src/store/tables/conversations.ts";
import { closeEscalation, readEscalation } from "../../../src/store/tables/escalations.ts";
import {
  addParticipant,
  contact,
  conversation,
  draft,
  fresh,
  notice,
  onEachDatabase,
  opens,
} from "../../support/store/databases.ts";

const minute = 60_000;

/** Returns what is found, as `<by> <target>`. */
async function linked(q: Query, channel: string, over: Partial<LinkSearch>): Promise<readonly string[]> {
  const cited = { answers: [], tokens: [], number: null, sender: "a@example.org", closedMs: minute, ...over };
  const { inConversation, targets } = await citedTargets(q, channel, cited);
  return [...(inConversation ? ["in conversation"] : []), ...targets.map(({ by, target }) => `${by} ${target.id}`)];
}

onEachDatabase((newDatabase) => {
  describe("a message", () => {
    it("is linked by conversations with an id in which its sender takes part, newest first, and by tokens", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (const id of ["k1", "k2", "k3"]) await conversation(q, id);
        await conversation(q, "k9", "d");
        for (const id of ["k1", "k2"]) await cite(q, "c", "<m@x>", id, null);
        await cite(q, "c", "<m@x>", "k1", "draft"); // known already: stays as it was
        await cite(q, "d", "<m@x>", "k9", null);
        for (const id of ["k1", "k2", "k9"]) await addParticipant(q, id, "A@example.org");
        // Strangers who know the id have their own, newer conversations with it.
        for (let i = 0; i < 9; i++) {
          await conversation(q, `ka${i}`, "c", "stranger@example.net");
          await cite(q, "c", "<m@x>", `ka${i}`, null);
        }
        for (const id of ["k1", "k2", "k3", "k9", "ka8"]) {
          await opens(q, `e-${id}`, { about: id });
          await contact(q, id, `e-${id}`);
          await bindTargets(q, [{ target: id, conversation: id }]);
        }
      });
      const found = (channel: string, over: Partial<LinkSearch>) => db.read((q) => linked(q, channel, over));
      expect(await found("c", { answers: ["<m@x>"] })).toEqual(["in conversation", "thread k2", "thread k1"]);
      expect(await found("d", { answers: ["<m@x>"] })).toEqual(["in conversation", "thread k9"]);
      expect(await found("c", { answers: ["<n@x>"] })).toEqual([]);
      expect(await found("c", { tokens: ["tokenk3"] })).toEqual(["in conversation", "thread k3"]);
      expect(await found("d", { tokens: ["tokenk3"] })).toEqual([]);
      expect(await found("c", { answers: ["<n@x>", "<m@x>"], tokens: ["tokenk3"] })).toEqual([
        "in conversation",
        "thread k2",
        "thread k1",
        "thread k3",
      ]);
      // PostgreSQL has neither of these characters.
      expect(await found("c", { answers: ["<m@x>\0", "\ud800"], tokens: ["\0"] })).toHaveLength(3);
    });

    it("is linked by at most five conversations with an id", async () => {
      const db = await fresh(newDatabase, async (q) => {
        for (let i = 0; i < 9; i++) {
          await conversation(q, `k${i}`, "c", "a@example.org");
          await cite(q, "c", "<m@x>", `k${i}`, null);
          await opens(q, `e${i}`, { about: `k${i}` });
          await contact(q, `t${i}`, `e${i}`);
          await bindTargets(q, [{ target: `t${i}`, conversation: `k${i}` }]);
        }
      });
      expect(await db.read((q) => linked(q, "c", { answers: ["<m@x>"] }))).toEqual([
        "in conversation",
        ...["t8", "t7", "t6", "t5", "t4"].map((id) => `thread ${id}`),
      ]);
    });

    it("is linked by our notifications, also when a later one went into another conversation", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await opens(q, "e");
        await contact(q, "k", "e");
        for (const id of ["c1", "c2"]) {
          await conversation(q, id, "c", "k@example.org");
          await draft(q, `d-${id}`, id);
          await notice(q, `n-${id}`, "k", id === "c1" ? "opened" : "reminder");
          await endNotifications(q, [`n-${id}`], `rd-${id}`);
          await bindTargets(q, [{ target: "k", conversation: id }]);
          await cite(q, "c", `<${id}>`, id, `d-${id}`);
        }
        await cite(q, "c", "<customer>", "c1", null);
      });
      const found = (over: Partial<LinkSearch>) => db.read((q) => linked(q, "c", over));
      for (const id of ["c1", "c2"]) {
        const own = ["in conversation", "thread k", "notification k"];
        expect((await found({ answers: [`<${id}>`], sender: "k@example.org" })).toSorted()).toEqual(own.toSorted());
        expect(await found({ answers: [`<${id}>`] })).toEqual(["notification k"]);
      }
      expect(await found({ answers: ["<customer>"] })).toEqual([]);
    });

    it("is linked by the number in its subject, from the target's address, until a while after the end", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await opens(q, "e");
        await contact(q, "k", "e");
      });
      const { number } = await db.read((q) => readEscalation(q, "e"));
      const found = (over: Partial<LinkSearch>) => db.read((q) => linked(q, "c", { number, ...over }));
      expect(await found({ sender: "k@example.org" })).toEqual(["subject k"]);
      expect(await found({})).toEqual([]);
      expect(await found({ sender: "k@example.org", number: number + 1 })).toEqual([]);
      await db.tx((q) => closeEscalation(q, "e", "Dora"));
      expect(await found({ sender: "k@example.org" })).toEqual(["subject k"]);
      await db.tx((q) => q.run("UPDATE escalations SET closed_at = closed_at - $1", 2 * minute));
      expect(await found({ sender: "k@example.org" })).toEqual([]);
    });
  });
});
