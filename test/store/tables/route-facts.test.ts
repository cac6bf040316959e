// What route loads about messages: the conversation that they belong to, and the counts of their caps.

import { channelId, externalId, threadToken } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { type Facts, type Incoming, messageOf } from "../../../src/pipeline/route/facts.ts";
import { extendTurn, loadConversations, loadFacts, loadReferenced } from "../../../src/pipeline/route/rows.ts";
import type { Query } from "../../../src/store/driver.ts";
import { citeAll } from "../../../src/store/tables/conversations.ts";
import { capUse } from "../../../src/store/tables/turns.ts";
import { eventRow, lineOf } from "../../support/pipeline/stage.ts";
import { addParticipant, conversation, fresh, onEachDatabase, turn } from "../../support/store/databases.ts";

const minute = 60_000;

const letter = (
  address: string,
  thread: { answers?: string[]; tokens?: string[] } = {},
  more: Partial<Incoming["event"]> = {},
): Incoming =>
  messageOf(eventRow(), {
    ...more,
    kind: "message",
    id: externalId("m"),
    from: { address },
    to: [],
    text: "hello",
    thread: {
      answers: (thread.answers ?? []).map(externalId),
      tokens: (thread.tokens ?? []).map(threadToken),
    },
    sentAt: new Date(1),
  } as unknown as Incoming["event"]);

async function factsOf(q: Query, message: Incoming, line: ChannelRuntime = lineOf()): Promise<Facts> {
  const loaded = await loadFacts(q, line, [message], standardTiming.route);
  if (loaded.get(message)?.conversation) await loadConversations(q, line, loaded, { known: [message], joining: [] });
  const facts = loaded.get(message);
  if (!facts) throw new Error("no facts were loaded");
  return facts;
}

onEachDatabase((newDatabase) => {
  describe("facts of route", () => {
    it.each([
      ["opens a conversation when nothing is cited", {}, null],
      ["skips conversations in which the sender takes no part", { answers: ["bob", "ann-1"] }, "ann-1"],
      ["never adds a stranger to a cited conversation", { answers: ["bob"], tokens: ["token-bob"] }, null],
      ["follows the order of the references", { answers: ["ann-2", "ann-1"] }, "ann-2"],
      ["prefers references to tokens", { answers: ["ann-1"], tokens: ["token-ann-2"] }, "ann-1"],
      ["finds a conversation by its token alone", { tokens: ["token-bob", "token-ann-2"] }, "ann-2"],
    ])("%s", async (_, thread, expected) => {
      const db = await fresh(newDatabase);
      const found = await db.tx(async (q) => {
        for (const id of ["bob", "ann-1", "ann-2"]) {
          await conversation(q, id);
          await q.run("UPDATE conversations SET token = $2 WHERE id = $1", id, `token-${id}`);
          await q.run("DELETE FROM participants WHERE conversation = $1", id);
          await addParticipant(q, id, id === "bob" ? "bob@example.org" : "ann@example.org");
          await citeAll(q, [{ channel: channelId("c"), externalId: externalId(id), conversation: id, draft: null }]);
        }
        return factsOf(q, letter("Ann@Example.org", thread));
      });
      expect(found.conversation).toBe(expected);
    });

    it("finds the conversations of several messages, each for its own sender", async () => {
      const db = await fresh(newDatabase);
      const messages = [
        letter("ann@example.org", { answers: ["shared"] }),
        letter("bob@example.org", { answers: ["other", "shared"] }),
        letter("ann@example.org", { answers: ["other"], tokens: ["token-ann"] }),
        letter("ann@example.org"),
        letter("eve@example.org", { answers: ["shared"], tokens: ["token-ann"] }),
      ];
      const found = await db.tx(async (q) => {
        for (const id of ["ann", "bob"]) {
          await conversation(q, id);
          await q.run("UPDATE conversations SET token = $2 WHERE id = $1", id, `token-${id}`);
          await q.run("DELETE FROM participants WHERE conversation = $1", id);
          await addParticipant(q, id, `${id}@example.org`);
          const cited = { channel: channelId("c"), externalId: externalId("shared"), conversation: id, draft: null };
          await citeAll(q, [cited]);
        }
        return loadReferenced(q, "c", messages);
      });
      expect(messages.map((message) => found.get(message))).toEqual(["ann", "bob", "ann", null, null]);
    });

    it("counts turns by sender, conversation and channel within a window, from when they were made", async () => {
      const db = await fresh(newDatabase, async (q) => {
        await conversation(q, "k1");
        await conversation(q, "k2");
        await addParticipant(q, "k1", "a@example.org");
        await citeAll(q, [
          { channel: channelId("c"), externalId: externalId("first"), conversation: "k1", draft: null },
        ]);
        await turn(q, "t1", "k1");
        await q.run("UPDATE turns SET made_at = made_at - 90000 WHERE id = 't1'");
        // The mail of t2 was in the mailbox for a long time before it was accepted.
        await turn(q, "t2", "k1", { receivedAt: 1 });
        await turn(q, "t3", "k2");
        await turn(q, "t4", "k2", { person: "b@example.org" });
      });
      const cap = (per: number) => ({ max: 9, per });
      const caps = { sender: [cap(minute), cap(2 * minute)], conversation: [cap(minute)], channel: [] };
      const line = lineOf({ rules: { caps } });
      const { counts } = await db.tx((q) => factsOf(q, letter("a@example.org", { answers: ["first"] }), line));
      expect(counts.map(({ name, count }) => `${name} ${count}`)).toEqual(["sender 2", "sender 3", "conversation 1"]);
      const used = await db.read(async (q) => [
        (await capUse(q, "c", minute)).total,
        (await capUse(q, "d", minute)).total,
      ]);
      expect(used).toEqual([3, 0]);
    });

    it("counts turns for the Reply-To of their messages, too", async () => {
      const db = await fresh(newDatabase);
      const one = { conversation: "k", turn: "t1", trace: "", context: null, question: "q", address: "{}" };
      await db.tx(async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k", { person: "b@example.org" });
        await turn(q, "t2", "k", { person: "c@example.org", replyTo: "a@example.org" });
        // The answer of a debounced turn goes to the Reply-To of its last message.
        await extendTurn(q, { ...one, receivedAt: 1, dueAt: 1, replyTo: "a@example.org", untagged: null });
      });
      const caps = { sender: [{ max: 9, per: minute }], conversation: [], channel: [] };
      const countsFor = async (address: string, replyTo?: string) => {
        const more = replyTo === undefined ? {} : { replyTo: { address: replyTo } };
        const { counts } = await db.tx((q) => factsOf(q, letter(address, {}, more), lineOf({ rules: { caps } })));
        return counts.map(({ count, isReplyTo }) => [count, isReplyTo ?? false]);
      };
      expect(await countsFor("d@example.org", "A@Example.org")).toEqual([
        [0, false],
        [2, true],
      ]);
      expect(await countsFor("a@example.org")).toEqual([[2, false]]);
      expect(await countsFor("c@example.org", "c@example.org")).toEqual([[1, false]]);
    });

    it("counts the turns of all tags of the address of the answer, for a larger cap", async () => {
      const db = await fresh(newDatabase);
      const one = { conversation: "k", turn: "t1", trace: "", context: null, question: "q", address: "{}" };
      await db.tx(async (q) => {
        await conversation(q, "k");
        await turn(q, "t1", "k", { person: "a+0@example.org", untagged: "a@example.org" });
        await turn(q, "t2", "k", { person: "a+1@example.org", untagged: "a@example.org" });
        await turn(q, "t3", "k", { person: "a+2@example.com", untagged: "a@example.com" });
        await extendTurn(q, { ...one, receivedAt: 1, dueAt: 1, replyTo: "b@example.org", untagged: null });
      });
      const caps = { sender: [{ max: 9, per: minute }], conversation: [], channel: [] };
      const { counts } = await db.tx((q) => factsOf(q, letter("A+3@example.org", {}), lineOf({ rules: { caps } })));
      expect(counts).toEqual([
        { name: "sender", cap: { max: 9, per: minute }, count: 0 },
        { name: "tags", cap: { max: 45, per: minute }, count: 1 },
      ]);
    });
  });
});
