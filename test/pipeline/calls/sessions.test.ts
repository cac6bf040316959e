// A call from its first connection to its end: how it opens, asks, answers, is interrupted, lost and closed.

import { externalId } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { writeOpening } from "../../../src/domain/turn.ts";
import { accept } from "../../../src/pipeline/accept/stage.ts";
import { pause, resume } from "../../../src/store/operators/channels.ts";
import { enqueueTurn } from "../../../src/store/tables/turns.ts";
import { callOf, openCallPipeline, openedCall, testClock } from "../../support/pipeline/pipeline.ts";
import { refusing } from "../../support/pipeline/stage.ts";
import { concludeDraft } from "../../support/store/databases.ts";

const minute = 60_000;

describe("a call", () => {
  it("binds the platform's conversation before the first message, and sends nothing on its own", async () => {
    const { pipeline, call } = await openedCall();
    expect(pipeline.platform.calls).toEqual(["start ada@example.org"]);
    expect([await pipeline.state(), pipeline.said]).toEqual([{ turns: ["answered"], drafts: [] }, []]);
    expect(await call.facts()).toMatchObject({ state: "open", node: "n", openings: 1, pending: null });
    await call.says("hello");
    await pipeline.settles();
    expect(pipeline.platform.calls).toEqual(["start ada@example.org", "ask hello"]);
  });

  it("answers in the session at once, with any delay of the agent", async () => {
    const { pipeline, call } = await openedCall({ delay: 600 });
    const words = await call.says("hello");
    await pipeline.settles();
    expect(pipeline.said).toEqual([{ text: "answer to hello", session: "call", answers: words, kind: "answer" }]);
    const sessions = await pipeline.db.read((q) => q.all("SELECT session FROM drafts UNION SELECT session FROM turns"));
    expect(sessions).toEqual([{ session: "call" }]);
  });

  it("knows neither caps nor age", async () => {
    const one = [{ max: 1, per: minute }];
    const pipeline = await openCallPipeline({
      rules: { caps: { sender: one, conversation: one, channel: one }, max_age: 1000 },
    });
    const call = callOf(pipeline);
    await call.opens();
    for (const text of ["one", "two", "three"]) {
      await call.says(text, { sentAt: new Date(0) });
      await pipeline.settles();
    }
    expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to one", "answer to two", "answer to three"]);
  });

  it("is the person's conversation again when they call again, and another one while the first call lives", async () => {
    const pipeline = await openCallPipeline();
    const [first, second, third] = [callOf(pipeline, "first"), callOf(pipeline, "second"), callOf(pipeline, "third")];
    await first.opens();
    await second.opens();
    await first.tells("closed", { durationMs: 61_000.4, reason: "hung-up" });
    await third.opens();
    const conversations = await Promise.all(
      [first, second, third].map(async (call) => (await call.facts())?.conversation),
    );
    expect(new Set(conversations).size).toBe(2);
    expect(conversations[2]).toBe(conversations[0]);
    expect(pipeline.platform.count("start")).toBe(2);
    const ended = await pipeline.db.read((q) =>
      q.one("SELECT state, reason, duration FROM sessions WHERE id = 'first'"),
    );
    expect(ended).toEqual({ state: "closed", reason: "hung-up", duration: 61_000 });
  });

  it("does not begin with callers who get no answer", async () => {
    const { pipeline, call } = await openedCall({ rules: { deny: ["ada@*"] } });
    await call.says("hello");
    await pipeline.settles();
    expect([pipeline.platform.calls, await pipeline.listed("ignored")]).toEqual([[], ["denied"]]);
    expect((await call.facts())?.state).toBe("open");
  });

  it("opens no conversation at the platform while its channel is paused or in shadow mode", async () => {
    for (const mode of ["live", "shadow"] as const) {
      const pipeline = await openCallPipeline({ rules: { mode } });
      if (mode === "live") await pause(pipeline.db, { channel: "c", reason: "test", forMs: null });
      await callOf(pipeline).opens();
      await pipeline.settles();
      expect([pipeline.platform.calls, (await pipeline.state()).turns]).toEqual([[], []]);
      if (mode === "shadow") continue;
      await resume(pipeline.db, "c");
      await callOf(pipeline, "next").opens();
      await pipeline.settles();
      expect(pipeline.platform.calls).toEqual(["start ada@example.org"]);
    }
  });

  it("opens with the first question when it could not be opened before", async () => {
    const pipeline = await openCallPipeline();
    const call = callOf(pipeline);
    pipeline.platform.faults.start = refusing(400);
    await call.opens();
    expect((await pipeline.state()).turns).toEqual(["failed"]);
    delete pipeline.platform.faults.start;
    await call.says("hello");
    await pipeline.settles();
    expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to hello"]);
    expect(await pipeline.listed("failed")).toEqual([]);
  });

  it("ignores messages of no session, and those after the end", async () => {
    const pipeline = await openCallPipeline();
    const call = callOf(pipeline);
    for (const state of ["interrupted", "transferring", "lost", "closed"] as const) await call.tells(state);
    await call.says("nobody there?");
    expect(await pipeline.listed("ignored")).toEqual(Array(5).fill("no-session"));
    await call.opens();
    await call.tells("closed");
    await call.says("one thing more");
    await pipeline.settles();
    expect(await pipeline.listed("ignored")).toEqual(Array(6).fill("no-session"));
    expect(pipeline.asked()).toEqual([]);
  });

  it("records the text that was played, and the target of the transfer", async () => {
    const { pipeline, call } = await openedCall();
    const first = await call.says("one");
    await pipeline.settles();
    await call.says("two");
    await pipeline.settles();
    await call.tells("interrupted", { heard: "answer to o", about: first });
    await call.tells("interrupted", { heard: "ans" });
    await call.tells("interrupted");
    await call.tells("transferring", { reason: "asked" });
    const heard = await pipeline.db.read((q) => q.all("SELECT heard FROM drafts ORDER BY seq"));
    expect(heard).toEqual([{ heard: "answer to o" }, { heard: "ans" }]);
    expect((await call.facts())?.transferring).toBe("asked");
    // The transfer was not answered: the call returns to the agent.
    await call.opens();
    expect((await call.facts())?.transferring).toBeNull();
  });

  it("drops what waits when it ends, and ends what is being asked", async () => {
    const { pipeline, call } = await openedCall();
    pipeline.platform.faults.ask = () => undefined; // for ever
    await call.says("hello");
    await pipeline.called("ask", 1);
    expect((await call.facts())?.pending).toMatch(/^mail-/);
    await call.tells("closed");
    await pipeline.settles();
    expect((await pipeline.state()).turns).toEqual(["answered", "dropped"]);
    expect((await call.facts())?.pending).toBeNull();
    await pipeline.passes(minute, 5000);
    expect([pipeline.platform.count("look"), pipeline.said]).toEqual([0, []]);
  });

  it("sends our introduction in an outbound session", async () => {
    const pipeline = await openCallPipeline();
    await callOf(pipeline).opens();
    const enqueue = (id: string, introduction: string | null) =>
      pipeline.scheduler.commit(async (q) => {
        const row = await q.one<{ id: string }>("SELECT id FROM conversations");
        await enqueueTurn(q, {
          id,
          conversation: row?.id ?? "",
          channel: "c",
          person: "ada@example.org",
          event: null,
          question: "",
          context: null,
          address: JSON.stringify({ to: [{ address: "ada@example.org" }], cc: [], history: [] }),
          receivedAt: 0,
          opening: writeOpening({ introduction, subject: null, context: null, speak: true }),
        });
      });
    await enqueue("a", "Good morning!");
    await enqueue("b", null);
    await pipeline.settles();
    expect(pipeline.said.map(({ kind, text }) => [kind, text])).toEqual([
      ["opening", "Good morning!"],
      ["opening", "Hello!"],
    ]);
    expect(pipeline.asked()).toEqual([]);
  });
});

describe("an answer to speak", () => {
  async function withAnswer(outcomes: Parameters<typeof Array.prototype.push>) {
    const { pipeline, call } = await openedCall({ clock: testClock(true) });
    pipeline.outcomes.push(...outcomes);
    await call.says("hello");
    await pipeline.settles();
    return { pipeline, call };
  }
  const notYet = { kind: "deferred", reason: "no such call here", retryAfterMs: 100 } as const;

  it("waits for a lost connection, and goes out when that comes back", async () => {
    const { pipeline, call } = await withAnswer([notYet]);
    await call.tells("lost", { reason: "socket" });
    await pipeline.passes(50_000, 1000);
    expect([pipeline.said, (await pipeline.state()).drafts]).toEqual([[], ["queued"]]);
    expect(await call.facts()).toMatchObject({ state: "lost", reason: "socket", openings: 1 });
    await call.tells("opened");
    await pipeline.passes(1000, 500);
    expect(pipeline.said.map(({ text }) => text)).toEqual(["answer to hello"]);
    expect(await call.facts()).toMatchObject({ state: "open", openings: 2 });
    expect(pipeline.platform.count("start")).toBe(1);
  });

  it("goes out when the caller turns out to be there, but not because of a dead process's records", async () => {
    const { pipeline, call } = await withAnswer([]);
    await call.tells("opened");
    await call.tells("lost", { reason: "the first connection" });
    await call.says("still here");
    await pipeline.settles();
    expect(pipeline.said.at(-1)?.text).toBe("answer to still here");
    expect(await call.facts()).toMatchObject({ state: "open", openings: 2 });
    await call.tells("lost");
    await accept(pipeline.scheduler, "c", [call.words("from before")], null, "dead");
    await pipeline.settles();
    expect((await call.facts())?.state).toBe("lost");
    expect(await pipeline.drafts()).toEqual(["sent", "sent", "queued"]);
  });

  it("does not wait for a connection that another node misses, after the call came back here", async () => {
    const { pipeline, call } = await openedCall();
    const session = { kind: "session", session: call.session, from: { address: "ada@example.org" } } as const;
    const lost = { ...session, id: externalId("late"), state: "lost" } as const;
    await accept(pipeline.scheduler, "c", [lost], null, "another node");
    expect((await call.facts())?.state).toBe("open");
    await call.says("hello");
    await pipeline.settles();
    expect(pipeline.said).toHaveLength(1);
  });

  it("is dropped when the connection stays lost", async () => {
    const { pipeline, call } = await withAnswer([notYet]);
    await call.tells("lost");
    await pipeline.passes(61_000, 1000);
    expect([pipeline.said, (await pipeline.state()).drafts]).toEqual([[], ["dropped"]]);
    await pipeline.passes(7 * 60 * minute);
    expect((await call.facts())?.state).toBe("closed");
  });

  it("is dropped when the call ends", async () => {
    const { pipeline, call } = await withAnswer([notYet]);
    await call.tells("closed");
    expect((await pipeline.state()).drafts).toEqual(["dropped"]);
    await pipeline.passes(minute, 5000);
    expect(pipeline.said).toEqual([]);
  });

  it("is dropped after newer speech", async () => {
    const { pipeline, call } = await withAnswer([notYet]);
    pipeline.platform.faults.ask = () => undefined;
    await call.says("another thing");
    await pipeline.called("ask", 2);
    pipeline.clock.forward(1000);
    await pipeline.scheduler.sweep();
    expect([pipeline.said, await pipeline.drafts()]).toEqual([[], ["dropped"]]);
  });

  it.each([
    ["refused", { kind: "refused", code: "superseded", reason: "a newer turn" }],
    ["of unknown outcome", { kind: "unknown", reason: "cut" }],
  ] as const)("is dropped at once when it is %s", async (_, outcome) => {
    const { pipeline } = await withAnswer([outcome]);
    expect([pipeline.said, (await pipeline.state()).drafts]).toEqual([[], ["dropped"]]);
    expect(await pipeline.listed("failed")).toEqual([]);
  });

  it("is dropped when no process can speak it", async () => {
    const { pipeline } = await withAnswer(Array.from({ length: 500 }, () => notYet));
    await pipeline.passes(70_000, 500);
    expect((await pipeline.state()).drafts).toEqual(["dropped"]);
  });

  it("is found again within the second when it was not due yet", async () => {
    // The timer is tested, so the sweep must not find the work.
    const { pipeline, call } = await openedCall({ timing: { scheduler: { sweep: 60 * minute } } });
    pipeline.sweeps();
    pipeline.outcomes.push(...Array.from({ length: 8 }, () => notYet));
    await call.says("hello");
    await expect.poll(() => pipeline.said.length, { interval: 5 }).toBe(1);
  });

  it("is not repeated when the process died while it was spoken", async () => {
    const { pipeline, call } = await withAnswer([notYet]);
    await pipeline.db.tx(async (q) => {
      const row = await q.one<{ id: string }>("SELECT id FROM drafts");
      await concludeDraft(q, row?.id ?? "", { state: "sending", open: 1 });
    });
    await call.tells("lost");
    await call.tells("opened");
    await pipeline.passes(1000, 500);
    expect([pipeline.said, (await pipeline.state()).drafts]).toEqual([[], ["dropped"]]);
  });
});
