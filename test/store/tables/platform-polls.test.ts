// Polls of the platform's conversations, texts of responders that supersede others, and external messages.

import { describe, expect, it } from "vitest";
import { insertSession } from "../../../src/calls/rows.ts";
import { beginPoll, duePolls, endPoll, loadPollFacts, postponePoll } from "../../../src/escalation/poll/rows.ts";
import { loadSubjects } from "../../../src/escalation/trigger/rows.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import type { EscalationTrigger } from "../../../src/pipeline/escalation.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { type Lease, releaseLane } from "../../../src/store/lanes.ts";
import { leaseIdleLane } from "../../../src/store/leases.ts";
import { erasePerson } from "../../../src/store/person/erase.ts";
import { bindPlatform, schedulePoll } from "../../../src/store/tables/conversations.ts";
import { enqueueDraft, insertReply } from "../../../src/store/tables/drafts.ts";
import {
  clearLanes,
  dropWaitingAnswers,
  earlierRelay,
  namePlatformId,
  wasReturned,
} from "../../../src/store/tables/takeover.ts";
import { transcriptsOf } from "../../../src/store/tables/transcript.ts";
import { endAttempt, enqueueTurn, readTurn, recordAsking } from "../../../src/store/tables/turns.ts";
import {
  concludeDraft,
  concludeTurn,
  conversation,
  dueChannels,
  fresh,
  leaseLanes,
  type NewDatabase,
  onEachDatabase,
  opens,
  put,
  stateOf,
  turn,
} from "../../support/store/databases.ts";

const minute = 60_000;

async function withConversation(newDatabase: NewDatabase): Promise<Database> {
  const db = await fresh(newDatabase, (q) => conversation(q, "k"));
  return db;
}

type Kind = "answer" | "human" | "notice" | "opening";

/** A reply of that kind, and its draft, due in `dueInMs`. */
async function says(q: Query, id: string, kind: Kind, text: string, dueInMs = minute): Promise<void> {
  const reply = { id: `r${id}`, conversation: "k", channel: "c", turn: null, text, kind, platformId: null };
  await insertReply(q, reply);
  await enqueueDraft(q, {
    id,
    conversation: "k",
    channel: "c",
    reply: `r${id}`,
    recipient: "a@example.org",
    body: "{}",
    dueAt: Date.now() + dueInMs,
  });
}

/** Another thread of the customer asks in the same conversation of the platform. */
async function askElsewhere(q: Query): Promise<void> {
  await conversation(q, "other");
  await q.run("UPDATE conversations SET platform_id = 'p'");
  await turn(q, "t", "other");
  await recordAsking(q, await readTurn(q, "t"), "n", 1);
}

onEachDatabase((newDatabase) => {
  describe("looks", () => {
    it("is due when it was wanted soonest", async () => {
      const db = await withConversation(newDatabase);
      const due = async () => (await db.read((q) => duePolls(q, "c", 9))).map((row) => row.conversation);
      const wants = (ms: number) => db.tx((q) => schedulePoll(q, { id: "k", channel: "c" }, ms));
      await wants(60 * minute);
      expect([await due(), await db.read((q) => dueChannels(q, "polls"))]).toEqual([[], []]);
      await wants(0);
      await wants(30 * minute);
      expect([await due(), await db.read((q) => dueChannels(q, "polls"))]).toEqual([["k"], ["c"]]);
      expect(await db.read((q) => duePolls(q, "c", 9))).toMatchObject([{ mode: null, mark: null, failures: 0 }]);
      await db.tx((q) => postponePoll(q, "k", minute));
      expect([await due(), await db.read((q) => dueChannels(q, "polls"))]).toEqual([[], []]);
    });

    it("is due again when it was wanted while the last one ran, and counts the failed ones", async () => {
      const db = await withConversation(newDatabase);
      const poll = async (failed: boolean, meanwhile: (q: Query) => Promise<void> = async () => undefined) => {
        await db.tx((q) => schedulePoll(q, { id: "k", channel: "c" }, 0));
        const until = await db.tx((q) => beginPoll(q, "k", minute));
        await db.tx(meanwhile);
        const read = { mode: "ai", mark: "m", position: 1, until, nextMs: 60 * minute, failed };
        await db.tx((q) => endPoll(q, "k", read));
        const due = (await db.read((q) => duePolls(q, "c", 9))).length === 1;
        return [due, (await db.read((q) => q.one<{ failures: number }>("SELECT failures FROM polls")))?.failures];
      };
      expect([await poll(false), await poll(true), await poll(true)]).toEqual([
        [false, 0],
        [false, 1],
        [false, 2],
      ]);
      expect(await poll(false, (q) => schedulePoll(q, { id: "k", channel: "c" }, 0))).toEqual([true, 0]);
    });

    it("knows no customer of a conversation that was erased while it was read", async () => {
      const db = await withConversation(newDatabase);
      const customer = async () => (await db.tx((q) => loadPollFacts(q, "k", "p"))).customer;
      expect(await customer()).toMatchObject({ person: "a@example.org" });
      const records = { addresses: ["a@example.org"], conversations: ["k"], events: [], platform: [], probable: [] };
      await erasePerson(db, records, () => undefined, standardTiming);
      expect(await customer()).toBeNull();
    });

    it("delivers a message once when two threads of one conversation of the platform are polled at once", async () => {
      const db = await withConversation(newDatabase);
      await db.tx(async (q) => {
        await conversation(q, "other");
        await q.run("UPDATE conversations SET platform_id = 'p'");
      });
      const polls = async (q: Query, of: string, loaded: () => void | Promise<void>): Promise<void> => {
        const { known } = await loadPollFacts(q, of, "p");
        await loaded();
        if (known.has("m")) return;
        const reply = { id: `r-${of}`, conversation: of, channel: "c", turn: null, text: "hello", platformId: "m" };
        await insertReply(q, { ...reply, kind: "human" });
      };
      const [first, second] = [Promise.withResolvers<void>(), { hasLoaded: false }];
      const waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
      const isSecondStopped = async () => second.hasLoaded || (await db.read((q) => q.one(waits))) !== undefined;
      await Promise.all([
        db.tx((q) =>
          polls(q, "k", async () => {
            first.resolve();
            if (db.kind === "postgres") await expect.poll(isSecondStopped, { timeout: minute }).toBe(true);
          }),
        ),
        first.promise.then(() => db.tx((q) => polls(q, "other", () => void (second.hasLoaded = true)))),
      ]);
      expect(await db.read((q) => q.all("SELECT platform_id FROM replies"))).toEqual([{ platform_id: "m" }]);
    });

    it("knows of a question that another thread asks in the same conversation of the platform", async () => {
      const db = await withConversation(newDatabase);
      await db.tx(askElsewhere);
      const isAsked = async () => (await db.tx((q) => loadPollFacts(q, "k", "p"))).isAskedElsewhere;
      expect(await isAsked()).toBe(true);
      await db.tx((q) => concludeTurn(q, "t", { state: "unknown", open: 1 }));
      expect(await isAsked()).toBe(true);
      await db.tx((q) => concludeTurn(q, "t", { state: "answered", open: 0, questionId: "q1" }));
      expect(await isAsked()).toBe(false);
    });

    it("reports an escalation about the same conversation of the platform in another thread", async () => {
      const db = await withConversation(newDatabase);
      const isKnown = async () => (await db.tx((q) => loadPollFacts(q, "k", "p"))).isKnownElsewhere;
      await db.tx(async (q) => {
        await conversation(q, "other");
        await q.run("UPDATE conversations SET platform_id = 'p'");
        await opens(q, "own", { about: "conversation:k", conversation: "k" });
      });
      expect(await isKnown()).toBe(false);
      await db.tx((q) => opens(q, "e", { about: "conversation:other", conversation: "other", cause: "topic" }));
      expect(await isKnown()).toBe(true);
      await db.tx((q) => q.run("UPDATE escalations SET cause = 'held' WHERE id = 'e'"));
      expect(await isKnown()).toBe(false);
      await db.tx((q) => q.run("UPDATE escalations SET cause = 'topic', state = 'closed' WHERE id = 'e'"));
      expect(await isKnown()).toBe(false);
    });

    it("reports how long a conversation has been quiet, and its open escalation", async () => {
      const db = await withConversation(newDatabase);
      await db.tx((q) => bindPlatform(q, "k", "p"));
      const activity = () => db.tx((q) => loadPollFacts(q, "k", "p"));
      expect(await activity()).toMatchObject({ quiet: null, escalation: null });
      await db.tx(async (q) => {
        await turn(q, "t", "k");
        await q.run("UPDATE turns SET made_at = made_at - $1", minute);
        await opens(q, "e", { about: "conversation:k", conversation: "k" });
      });
      const { quiet, escalation } = await activity();
      expect(quiet).toBeGreaterThanOrEqual(minute);
      expect(escalation?.id).toBe("e");
      await db.tx(async (q) => {
        await concludeTurn(q, "t", { state: "dropped", open: 0, questionId: "q1" });
        await turn(q, "u", "k");
        await concludeTurn(q, "u", { state: "answered", open: 0, questionId: "q2" });
      });
      expect((await activity()).turns).toMatchObject([{ state: "dropped", questionId: "q1" }]);
      // The response with its id has not arrived; that of the other one says that it was not accepted.
      await db.tx(async (q) => {
        for (const [id, outcome] of [
          ["v", "unknown"],
          ["w", "deferred"],
        ] as const) {
          await turn(q, id, "k");
          await recordAsking(q, await readTurn(q, id), "n", 1);
          await endAttempt(q, id, outcome, null);
          await concludeTurn(q, id, { state: "dropped", open: 0 });
        }
      });
      expect((await activity()).turns).toMatchObject([
        { state: "dropped", questionId: "q1" },
        { state: "dropped", questionId: null, text: "question v" },
      ]);
    });
  });

  describe("idle lanes", () => {
    const idle = (db: Database, node: string): Promise<Lease | null> =>
      db.tx((q) => leaseIdleLane(q, "k", node, minute));
    const asks = async (db: Database, node: string): Promise<Lease | null> =>
      (await db.tx((q) => leaseLanes(q, "in", "c", node, minute, 9)))[0] ?? null;

    it("is leased when nothing waits in it, to one at a time", async () => {
      const db = await withConversation(newDatabase);
      const lease = await idle(db, "a");
      expect(lease).toMatchObject({ conversation: "k", channel: "c" });
      expect(await idle(db, "b")).toBeNull();
      expect(await idle(db, "a")).toBeNull();
      if (lease) await db.tx((q) => releaseLane(q, lease, "in"));
      expect(await idle(db, "b")).not.toBeNull();
    });

    it("is not leased while a question waits, or is asked; no question is asked while it is leased", async () => {
      const db = await withConversation(newDatabase);
      const lease = await idle(db, "a");
      await db.tx((q) => turn(q, "t", "k"));
      expect(await asks(db, "b")).toBeNull();
      if (lease) await db.tx((q) => releaseLane(q, lease, "in"));
      expect(await idle(db, "a")).toBeNull();
      const asking = await asks(db, "b");
      expect(asking).not.toBeNull();
      expect(await idle(db, "a")).toBeNull();
      await db.tx((q) => concludeTurn(q, "t", { state: "answered", open: 0 }));
      expect(await idle(db, "a"), "the lease is another's until it is given back").toBeNull();
      if (asking) await db.tx((q) => releaseLane(q, asking, "in"));
      expect(await idle(db, "a")).not.toBeNull();
    });

    it("is not leased while another thread asks in the same conversation of the platform", async () => {
      const db = await withConversation(newDatabase);
      await db.tx(askElsewhere);
      expect(await idle(db, "a")).toBeNull();
      await db.tx((q) => concludeTurn(q, "t", { state: "answered", open: 0 }));
      expect(await idle(db, "a")).not.toBeNull();
    });

    it("is another node's while a call is there", async () => {
      const db = await withConversation(newDatabase);
      await db.tx((q) => insertSession(q, { channel: "c", id: "s", conversation: "k", node: "a" }));
      expect(await idle(db, "b")).toBeNull();
      expect(await idle(db, "a")).not.toBeNull();
    });

    it("is never leased to a poll and to a question at once, in either order", async () => {
      const at = await newDatabase();
      const db = await fresh(async () => at);
      const other = db.kind === "postgres" ? await at.open() : db;
      await db.tx((q) => conversation(q, "k"));
      for (let round = 0; round < 12; round++) {
        const [look, , question] = await Promise.all([
          idle(db, "a"),
          other.tx((q) => turn(q, `t${round}`, "k")),
          asks(other, "b"),
        ]);
        expect([look, question].filter((one) => one !== null).length).toBeLessThanOrEqual(1);
        await db.tx((q) => q.run("UPDATE turns SET state = 'answered', open = 0"));
        for (const lease of [look, question]) if (lease) await db.tx((q) => releaseLane(q, lease, "in"));
        await db.tx((q) => q.run("UPDATE lanes SET due_at = NULL"));
      }
    });
  });

  describe("takeover", () => {
    it.each([
      ["queued", null, true],
      ["unknown", null, true],
      ["sent", null, true],
      ["held", "shadow", true],
      ["held", "unknown-outcome", false],
      ["failed", "550", false],
      ["dropped", null, false],
    ] as const)("finds the same text of a human whose draft is %s (%s): %s", async (state, code, isFound) => {
      const db = await withConversation(newDatabase);
      await db.tx(async (q) => {
        await says(q, "h", "human", "On its way");
        await q.run("UPDATE drafts SET state = $1, code = $2", state, code);
      });
      expect((await db.read((q) => earlierRelay(q, "k", "On its way", minute))) !== null).toBe(isFound);
    });

    it("is no repetition of one that could not be composed", async () => {
      const db = await withConversation(newDatabase);
      await db.tx((q) => says(q, "h", "human", "On its way"));
      const found = () => db.read((q) => earlierRelay(q, "k", "On its way", minute));
      expect(await found()).toMatchObject({ state: "queued" });
      await db.tx(async (q) => {
        await q.run("DELETE FROM drafts");
        await q.run("UPDATE replies SET state = 'failed'");
      });
      expect(await found()).toBeNull();
    });

    it("drops the agent's answers that wait for their delay, and nothing else", async () => {
      const db = await withConversation(newDatabase);
      await db.tx(async (q) => {
        await says(q, "waits", "answer", "Later.");
        await says(q, "response", "answer", " A colleague helps. ");
        await says(q, "now", "answer", "Now.", 0);
        await says(q, "human", "human", "I am Dora.");
        await says(q, "notice", "notice", "A notice.");
        await says(q, "tried", "answer", "Tried.");
        await q.run("UPDATE drafts SET attempts = 1 WHERE id = 'tried'");
        await says(q, "sent", "answer", "Sent.");
        await concludeDraft(q, "sent", { state: "sent", open: 0 });
        await dropWaitingAnswers(q, "k", "a person has answered", (text) => text.includes("colleague"));
      });
      const states = await db.read((q) =>
        q.all<{ id: string }>(
          "SELECT id FROM drafts WHERE state = 'dropped' AND open = 0 AND reason = $1",
          "a person has answered",
        ),
      );
      expect(states).toEqual([{ id: "waits" }]);
      expect(await db.read((q) => stateOf(q, "drafts", "response"))).toBe("queued");
    });

    it("does not drop the rest of what has begun to go out", async () => {
      const db = await withConversation(newDatabase);
      await db.tx(async (q) => {
        await says(q, "one", "answer", "In two parts.");
        await q.run("UPDATE drafts SET state = 'sent', open = 0, attempts = 1");
        await enqueueDraft(q, {
          id: "two",
          conversation: "k",
          channel: "c",
          reply: "rone",
          recipient: "a@example.org",
          body: "{}",
          dueAt: Date.now() + minute,
        });
        await dropWaitingAnswers(q, "k", "a person has answered");
      });
      expect(await db.read((q) => stateOf(q, "drafts", "two"))).toBe("queued");
    });

    it("drops what is unsent of the agent when a person answers, however it waits", async () => {
      const db = await withConversation(newDatabase);
      const tried = async (q: Query, id: string, outcome: string | null) => {
        await put(q, "drafts", id, "attempts = 1");
        const attempt = "INSERT INTO attempts (subject, number, kind, node, token, started_at, outcome)";
        await q.run(`${attempt} VALUES ($1, 1, 'send', 'n', 1, now_ms(), $2)`, id, outcome);
      };
      const held = (q: Query, id: string, code: string) =>
        put(q, "drafts", id, `state = 'held', open = 0, code = '${code}'`);
      await db.tx(async (q) => {
        await says(q, "delayed", "answer", "In an hour.");
        for (const id of ["paused", "retried", "shadow", "old", "perhaps", "begun", "before", "released", "later"])
          await says(q, id, "answer", id, 0);
        await tried(q, "retried", "deferred");
        await held(q, "shadow", "shadow");
        await held(q, "old", "too-old");
        // What may have been sent stays, with the other parts of its reply.
        await tried(q, "perhaps", "unknown");
        const part = { conversation: "k", channel: "c", recipient: "a@example.org", body: "{}", dueAt: 0 };
        await enqueueDraft(q, { ...part, id: "part", reply: "rperhaps" });
        await tried(q, "begun", null);
        await put(q, "drafts", "begun", "state = 'sending'");
        await held(q, "before", "answered-before-restore");
        await put(q, "drafts", "released", "released = 1");
        // The agent has said this after the person's answer.
        await q.run("UPDATE replies SET platform_id = 'p2' WHERE id = 'rlater'");
        await says(q, "human", "human", "I am Dora.");
        await clearLanes(q, "k", new Set(["p2"]));
      });
      const rows = await db.read((q) =>
        q.all<{ id: string }>("SELECT id, code FROM drafts WHERE state = 'dropped' AND open = 0 ORDER BY id"),
      );
      const code = "human-answered";
      expect(rows).toEqual(["delayed", "old", "paused", "retried", "shadow"].map((id) => ({ id, code })));
    });

    it("does not wait for a question that has failed and blocks the lane", async () => {
      const db = await withConversation(newDatabase);
      await db.tx((q) => turn(q, "t", "k"));
      expect(await db.tx((q) => clearLanes(q, "k")), "no turn has changed").toBe(true);
      await db.tx((q) => concludeTurn(q, "t", { state: "failed", open: 1 }));
      expect(await db.tx((q) => clearLanes(q, "k"))).toBe(false);
      expect(await db.read((q) => q.all("SELECT state, open FROM turns"))).toEqual([{ state: "failed", open: 0 }]);
    });

    it("is not over while the return to the agent has failed", async () => {
      const db = await withConversation(newDatabase);
      const returned = () => db.read((q) => wasReturned(q, "k", 0));
      await db.tx(async (q) => {
        await turn(q, "t", "k");
        await q.run("UPDATE turns SET kind = 'mode', question = 'ai'");
      });
      expect(await returned()).toBe(true);
      await db.tx((q) => concludeTurn(q, "t", { state: "failed", open: 0 }));
      expect(await returned()).toBe(false);
    });

    it("stores the platform's id of a person's message", async () => {
      const db = await withConversation(newDatabase);
      await db.tx(async (q) => {
        await turn(q, "t", "k");
        await insertReply(q, {
          id: "r",
          conversation: "k",
          channel: "c",
          turn: "t",
          text: "x",
          kind: "human",
          platformId: null,
        });
        await namePlatformId(q, "t", "m1");
      });
      expect(await db.read((q) => q.all("SELECT platform_id FROM replies"))).toEqual([{ platform_id: "m1" }]);
    });
  });

  describe("transcripts", () => {
    it("contains the messages of all three, in the platform's order, with the newest", async () => {
      const db = await withConversation(newDatabase);
      const start = Date.now() - 10 * minute;
      const kinds = [
        ["t1", "question", "Where is my lamp?"],
        ["t2", "relayed", "On its way, says Dora."],
        ["t3", "mode", "ai"],
        ["t4", "question", "Thanks."],
      ] as const;
      await db.tx(async (q) => {
        for (const [at, [id, kind, question]] of kinds.entries())
          await enqueueTurn(q, {
            id,
            conversation: "k",
            channel: "c",
            person: "a@example.org",
            event: null,
            question,
            context: null,
            address: "{}",
            receivedAt: start + at * minute,
            kind,
          });
        await says(q, "d1", "answer", "I ask a colleague.");
        await says(q, "d2", "human", "On its way.");
        await says(q, "d3", "notice", "HELP: write to us.");
        await q.run("UPDATE replies SET created_at = $1 WHERE id = 'rd1'", start);
        await q.run("UPDATE replies SET created_at = $1 WHERE id = 'rd2'", start + minute);
      });
      const newest = async (most: number, total = 999) =>
        (await db.read((q) => transcriptsOf(q, ["k"], most, 99, total))).get("k") ?? [];
      const said = await newest(9);
      expect(said.map(({ who, text }) => [who, text])).toEqual([
        ["person", "Where is my lamp?"],
        ["agent", "I ask a colleague."],
        ["human", "On its way."],
        ["person", "Thanks."],
      ]);
      expect((await newest(2)).map(({ who }) => who)).toEqual(["human", "person"]);
      // The first message that exceeds the total is the last one read.
      expect((await newest(9, 8)).map(({ text }) => text)).toEqual(["On its way.", "Thanks."]);
      expect((await newest(9, 6)).map(({ text }) => text)).toEqual(["Thanks."]);
      const unsent = async () => (await newest(9)).flatMap(({ text, unsent }) => (unsent ? [text] : []));
      expect(await unsent()).toEqual([]);
      for (const state of ["held", "failed", "dropped"]) {
        await db.tx((q) => q.run("UPDATE drafts SET state = $1 WHERE id = 'd1'", state));
        expect(await unsent()).toEqual(["I ask a colleague."]);
      }
      await db.tx((q) => q.run("UPDATE drafts SET state = 'unknown' WHERE id = 'd1'"));
      await db.tx((q) => q.run("UPDATE replies SET state = 'failed' WHERE id = 'rd2'"));
      expect(await unsent()).toEqual(["On its way."]);
    });

    it("knows whether the person has written since", async () => {
      const db = await withConversation(newDatabase);
      await db.tx(async (q) => {
        await turn(q, "asked", "k");
        await turn(q, "relayed", "k");
        await turn(q, "begun", "k");
        await q.run("UPDATE turns SET kind = 'relayed' WHERE id = 'relayed'");
        await q.run("UPDATE turns SET opening = '{}' WHERE id = 'begun'");
      });
      const [asked] = await db.read((q) => q.all<{ seq: number }>("SELECT seq FROM turns WHERE id = 'asked'"));
      const trigger = { key: "t", source: "mode", cause: "topic", conversation: "k" } as EscalationTrigger;
      expect(await db.read((q) => loadSubjects(q, [trigger]))).toMatchObject([{ asked: asked?.seq }]);
    });
  });
});
