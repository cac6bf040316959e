// A call from its first connection to its end: how it opens, asks, answers, is interrupted, lost and closed.

import { externalId } from "bridgehead/contract";
import { describe, expect, it } from "vitest";
import { writeOpening } from "../../src/domain/turn.ts";
import { accept } from "../../src/pipeline/accept/stage.ts";
import { pause, resume } from "../../src/store/operators/channels.ts";
import { enqueueTurn } from "../../src/store/tables/turns.ts";
import { callHouse, callOf, testClock } from "../support/pipeline/pipeline.ts";
import { refusing } from "../support/pipeline/stage.ts";
import { concludeDraft } from "../support/store/databases.ts";

const minute = 60_000;

describe("a call", () => {
  it("binds the platform's conversation before the first words, and says nothing by itself", async () => {
    const house = await callHouse();
    const call = callOf(house);
    await call.opens();
    expect(house.platform.calls).toEqual(["start ada@example.org"]);
    expect([await house.state(), house.said]).toEqual([{ turns: ["answered"], drafts: [] }, []]);
    expect(await call.facts()).toMatchObject({ state: "open", node: "n", openings: 1, pending: null });
    await call.says("hello");
    await house.settles();
    expect(house.platform.calls).toEqual(["start ada@example.org", "ask hello"]);
  });

  it("answers in the session, at once, whatever the agent's delay", async () => {
    const house = await callHouse({ delay: 600 });
    const call = callOf(house);
    await call.opens();
    const words = await call.says("hello");
    await house.settles();
    expect(house.said).toEqual([{ text: "answer to hello", session: "call", answers: words, kind: "answer" }]);
    const sessions = await house.db.read((q) => q.all("SELECT session FROM drafts UNION SELECT session FROM turns"));
    expect(sessions).toEqual([{ session: "call" }]);
  });

  it("knows neither caps nor age", async () => {
    const one = [{ max: 1, per: minute }];
    const house = await callHouse({
      rules: { caps: { sender: one, conversation: one, channel: one }, max_age: 1000 },
    });
    const call = callOf(house);
    await call.opens();
    for (const text of ["one", "two", "three"]) {
      await call.says(text, { sentAt: new Date(0) });
      await house.settles();
    }
    expect(house.said.map(({ text }) => text)).toEqual(["answer to one", "answer to two", "answer to three"]);
  });

  it("is the person's conversation again when they call again, and another one while the first call lives", async () => {
    const house = await callHouse();
    const [first, second, third] = [callOf(house, "first"), callOf(house, "second"), callOf(house, "third")];
    await first.opens();
    await second.opens();
    await first.tells("closed", { durationMs: 61_000.4, reason: "hung-up" });
    await third.opens();
    const conversations = await Promise.all(
      [first, second, third].map(async (call) => (await call.facts())?.conversation),
    );
    expect(new Set(conversations).size).toBe(2);
    expect(conversations[2]).toBe(conversations[0]);
    expect(house.platform.count("start")).toBe(2);
    const ended = await house.db.read((q) => q.one("SELECT state, reason, duration FROM sessions WHERE id = 'first'"));
    expect(ended).toEqual({ state: "closed", reason: "hung-up", duration: 61_000 });
  });

  it("does not begin with callers who get no answer", async () => {
    const house = await callHouse({ rules: { deny: ["ada@*"] } });
    const call = callOf(house);
    await call.opens();
    await call.says("hello");
    await house.settles();
    expect([house.platform.calls, await house.listed("ignored")]).toEqual([[], ["denied"]]);
    expect((await call.facts())?.state).toBe("open");
  });

  it("opens no conversation at the platform while its channel is paused or in shadow mode", async () => {
    for (const mode of ["live", "shadow"] as const) {
      const house = await callHouse({ rules: { mode } });
      if (mode === "live") await pause(house.db, { channel: "c", reason: "test", forMs: null });
      await callOf(house).opens();
      await house.settles();
      expect([house.platform.calls, (await house.state()).turns]).toEqual([[], []]);
      if (mode === "shadow") continue;
      await resume(house.db, "c");
      await callOf(house, "next").opens();
      await house.settles();
      expect(house.platform.calls).toEqual(["start ada@example.org"]);
    }
  });

  it("opens with the first question when it could not be opened before", async () => {
    const house = await callHouse();
    const call = callOf(house);
    house.platform.faults.start = refusing(400);
    await call.opens();
    expect((await house.state()).turns).toEqual(["failed"]);
    delete house.platform.faults.start;
    await call.says("hello");
    await house.settles();
    expect(house.said.map(({ text }) => text)).toEqual(["answer to hello"]);
    expect(await house.listed("failed")).toEqual([]);
  });

  it("ignores what belongs to no session, and what is said after the end", async () => {
    const house = await callHouse();
    const call = callOf(house);
    for (const state of ["interrupted", "transferring", "lost", "closed"] as const) await call.tells(state);
    await call.says("nobody there?");
    expect(await house.listed("ignored")).toEqual(Array(5).fill("no-session"));
    await call.opens();
    await call.tells("closed");
    await call.says("one thing more");
    await house.settles();
    expect(await house.listed("ignored")).toEqual(Array(6).fill("no-session"));
    expect(house.asked()).toEqual([]);
  });

  it("notes what the caller heard, and to whom the call is being given", async () => {
    const house = await callHouse();
    const call = callOf(house);
    await call.opens();
    const first = await call.says("one");
    await house.settles();
    await call.says("two");
    await house.settles();
    await call.tells("interrupted", { heard: "answer to o", about: first });
    await call.tells("interrupted", { heard: "ans" });
    await call.tells("interrupted");
    await call.tells("transferring", { reason: "asked" });
    const heard = await house.db.read((q) => q.all("SELECT heard FROM drafts ORDER BY seq"));
    expect(heard).toEqual([{ heard: "answer to o" }, { heard: "ans" }]);
    expect((await call.facts())?.transferring).toBe("asked");
    // Nobody took it: it is the agent's again.
    await call.opens();
    expect((await call.facts())?.transferring).toBeNull();
  });

  it("drops what waits when it ends, and ends what is being asked", async () => {
    const house = await callHouse();
    const call = callOf(house);
    await call.opens();
    house.platform.faults.ask = () => undefined; // for ever
    await call.says("hello");
    await house.called("ask", 1);
    expect((await call.facts())?.pending).toMatch(/^mail-/);
    await call.tells("closed");
    await house.settles();
    expect((await house.state()).turns).toEqual(["answered", "dropped"]);
    expect((await call.facts())?.pending).toBeNull();
    await house.passes(minute, 5000);
    expect([house.platform.count("look"), house.said]).toEqual([0, []]);
  });

  it("sends our first words when it is we who begin", async () => {
    const house = await callHouse();
    await callOf(house).opens();
    const enqueue = (id: string, introduction: string | null) =>
      house.scheduler.commit(async (q) => {
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
    await house.settles();
    expect(house.said.map(({ kind, text }) => [kind, text])).toEqual([
      ["opening", "Good morning!"],
      ["opening", "Hello!"],
    ]);
    expect(house.asked()).toEqual([]);
  });
});

describe("what is to be said", () => {
  async function withAnswer(outcomes: Parameters<typeof Array.prototype.push>) {
    const house = await callHouse({ clock: testClock(true) });
    const call = callOf(house);
    await call.opens();
    house.outcomes.push(...outcomes);
    await call.says("hello");
    await house.settles();
    return { house, call };
  }
  const notYet = { kind: "deferred", reason: "no such call here", retryAfterMs: 100 } as const;

  it("waits for a lost connection, and goes out when that comes back", async () => {
    const { house, call } = await withAnswer([notYet]);
    await call.tells("lost", { reason: "socket" });
    await house.passes(50_000, 1000);
    expect([house.said, (await house.state()).drafts]).toEqual([[], ["queued"]]);
    expect(await call.facts()).toMatchObject({ state: "lost", reason: "socket", openings: 1 });
    await call.tells("opened");
    await house.passes(1000, 500);
    expect(house.said.map(({ text }) => text)).toEqual(["answer to hello"]);
    expect(await call.facts()).toMatchObject({ state: "open", openings: 2 });
    expect(house.platform.count("start")).toBe(1);
  });

  it("goes out when the caller turns out to be there, but not because of what a dead process heard", async () => {
    const { house, call } = await withAnswer([]);
    await call.tells("opened");
    await call.tells("lost", { reason: "the first connection" });
    await call.says("still here");
    await house.settles();
    expect(house.said.at(-1)?.text).toBe("answer to still here");
    expect(await call.facts()).toMatchObject({ state: "open", openings: 2 });
    await call.tells("lost");
    await accept(house.scheduler, "c", [call.words("from before")], null, "dead");
    await house.settles();
    expect((await call.facts())?.state).toBe("lost");
    expect(await house.drafts()).toEqual(["sent", "sent", "queued"]);
  });

  it("does not wait for a connection that another node misses, after the call came back here", async () => {
    const house = await callHouse();
    const call = callOf(house);
    await call.opens();
    const session = { kind: "session", session: call.session, from: { address: "ada@example.org" } } as const;
    const lost = { ...session, id: externalId("late"), state: "lost" } as const;
    await accept(house.scheduler, "c", [lost], null, "another node");
    expect((await call.facts())?.state).toBe("open");
    await call.says("hello");
    await house.settles();
    expect(house.said).toHaveLength(1);
  });

  it("is dropped when the connection stays lost", async () => {
    const { house, call } = await withAnswer([notYet]);
    await call.tells("lost");
    await house.passes(61_000, 1000);
    expect([house.said, (await house.state()).drafts]).toEqual([[], ["dropped"]]);
    await house.passes(7 * 60 * minute);
    expect((await call.facts())?.state).toBe("closed");
  });

  it("is dropped when the call ends", async () => {
    const { house, call } = await withAnswer([notYet]);
    await call.tells("closed");
    expect((await house.state()).drafts).toEqual(["dropped"]);
    await house.passes(minute, 5000);
    expect(house.said).toEqual([]);
  });

  it("is dropped when something newer was said", async () => {
    const { house, call } = await withAnswer([notYet]);
    house.platform.faults.ask = () => undefined;
    await call.says("another thing");
    await house.called("ask", 2);
    house.clock.forward(1000);
    await house.scheduler.sweep();
    expect([house.said, await house.drafts()]).toEqual([[], ["dropped"]]);
  });

  it.each([
    ["refused", { kind: "refused", code: "superseded", reason: "a newer turn" }],
    ["of unknown outcome", { kind: "unknown", reason: "cut" }],
  ] as const)("is dropped at once when it is %s", async (_, outcome) => {
    const { house } = await withAnswer([outcome]);
    expect([house.said, (await house.state()).drafts]).toEqual([[], ["dropped"]]);
    expect(await house.listed("failed")).toEqual([]);
  });

  it("is dropped when no process can speak it", async () => {
    const { house } = await withAnswer(Array.from({ length: 500 }, () => notYet));
    await house.passes(70_000, 500);
    expect((await house.state()).drafts).toEqual(["dropped"]);
  });

  it("is found again within the second when it was not yet to be said", async () => {
    // The timer is tested, so the sweep must not find the work.
    const house = await callHouse({ timing: { scheduler: { sweep: 60 * minute } } });
    const call = callOf(house);
    await call.opens();
    house.sweeps();
    house.outcomes.push(...Array.from({ length: 8 }, () => notYet));
    await call.says("hello");
    await expect.poll(() => house.said.length, { interval: 5 }).toBe(1);
  });

  it("is not said again when the process died while it was being said", async () => {
    const { house, call } = await withAnswer([notYet]);
    await house.db.tx(async (q) => {
      const row = await q.one<{ id: string }>("SELECT id FROM drafts");
      await concludeDraft(q, row?.id ?? "", { state: "sending", open: 1 });
    });
    await call.tells("lost");
    await call.tells("opened");
    await house.passes(1000, 500);
    expect([house.said, (await house.state()).drafts]).toEqual([[], ["dropped"]]);
  });
});
