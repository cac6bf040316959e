// Paused channels and shadow mode through all stages: what is received, asked, composed and sent.

import { describe, expect, it } from "vitest";
import type { Hop } from "../../src/ops/hops.ts";
import { pause, resume } from "../../src/store/operators/channels.ts";
import { resendDraft } from "../../src/store/operators/outbox.ts";
import { channelPauses } from "../../src/store/tables/pauses.ts";
import { alerted } from "../support/pipeline/alerted.ts";
import { openPipeline, type TestPipeline, testClock } from "../support/pipeline/pipeline.ts";

const hour = 3_600_000;
const stop = (pipeline: TestPipeline, forMs: number | null = null) =>
  pause(pipeline.db, { channel: "c", reason: "test", forMs });

/** Collects the hops from now on. */
function hopsOf(pipeline: TestPipeline): readonly Hop[] {
  const hops: Hop[] = [];
  pipeline.db.observe((report) => void hops.push(...report.hops));
  return hops;
}

describe("a paused channel", () => {
  it("receives and stores messages, and answers them after resume", async () => {
    const pipeline = await openPipeline();
    await stop(pipeline);
    await pipeline.arrives({ text: "first" }, { text: "second", from: { address: "bob@example.org" } });
    expect((await pipeline.turns()).map(({ state }) => state)).toEqual(["waiting", "waiting"]);
    expect([pipeline.platform.calls, pipeline.sent]).toEqual([[], []]);
    await resume(pipeline.db, "c");
    await pipeline.settles();
    expect((await pipeline.turns()).map(({ state }) => state)).toEqual(["answered", "answered"]);
    expect(pipeline.sent).toHaveLength(2);
  });

  it("does not make the attempt that was claimed before the pause", async () => {
    let pipeline: TestPipeline | null = null;
    let crossings = 0;
    pipeline = await openPipeline({
      outbound: {
        send: async (_, attempt) => {
          if (pipeline !== null && crossings === 0) await stop(pipeline);
          crossings += 1;
          await attempt.crossing();
          return { kind: "sent", id: `sent-${attempt.key}` as never };
        },
      },
    });
    await pipeline.arrives({ text: "hello" });
    expect(await pipeline.drafts()).toEqual(["queued"]);
    await pipeline.settles();
    expect(crossings).toBe(1);
    await resume(pipeline.db, "c");
    await pipeline.settles();
    expect([crossings, await pipeline.drafts()]).toEqual([2, ["sent"]]);
  });

  it("resumes automatically, and holds messages older than max_age until an operator releases them", async () => {
    const pipeline = await alerted({ clock: testClock(true), rules: { max_age: 2 * hour } });
    const hops = hopsOf(pipeline);
    await stop(pipeline, 3 * hour);
    await pipeline.arrives({ text: "early" });
    await pipeline.passes(2 * hour, hour);
    await pipeline.arrives({
      text: "late",
      from: { address: "bob@example.org" },
      sentAt: new Date(pipeline.clock.now()),
    });
    await pipeline.passes(1.5 * hour, hour / 2);
    expect(pipeline.sent).toHaveLength(1);
    expect(await pipeline.listed("held")).toEqual(["too-old"]);
    expect(pipeline.alerts.map(({ cause, conversation }) => [cause, conversation])).toEqual([["held", null]]);
    expect(hops.filter(({ name }) => name === "held")).toMatchObject([{ trace: "m1", code: "too-old", channel: "c" }]);
    await pipeline.releases(1);
    expect(pipeline.sent).toHaveLength(2);
  });

  it("holds a reply that has waited longer than max_age", async () => {
    const clock = testClock(true);
    const pipeline = await alerted({ clock, rules: { max_age: 2 * hour }, outbound: { capacity: () => 0 } });
    await pipeline.arrives({ text: "hello" });
    await stop(pipeline);
    const other = await alerted({
      clock,
      db: pipeline.db,
      platform: pipeline.platform,
      rules: { max_age: 2 * hour },
    });
    await other.passes(3 * hour, hour);
    await resume(pipeline.db, "c");
    await other.settles();
    expect([await other.drafts(), other.sent]).toEqual([["held"], []]);
    expect(other.alerts.map(({ reason }) => reason)).toEqual([expect.stringContaining("too-old")]);
    const [draft] = await other.db.read((q) => q.all<{ id: string; code: string }>("SELECT id, code FROM drafts"));
    expect(draft?.code).toBe("too-old");
    await other.db.tx((q) => resendDraft(q, draft?.id ?? ""));
    await other.settles();
    expect(await other.drafts()).toEqual(["sent"]);
  });
});

describe("an automatic pause", () => {
  const caps = { sender: [{ max: 1, per: hour }], conversation: [], channel: [] };
  const from = (name: string) => ({ text: "hi", from: { address: `${name}@example.org` } });

  it("begins when several senders run into loops or caps, and notifies responders once", async () => {
    const pipeline = await alerted({
      rules: { caps, pause_on: { loops: [{ max: 2, per: hour }], replies: [] } },
    });
    for (const name of ["a", "b"]) await pipeline.arrives(from(name), from(name), from(name));
    expect(await pipeline.db.read(channelPauses)).toEqual([]);
    await pipeline.arrives({ ...from("c"), hops: 99 });
    expect(await pipeline.db.read(channelPauses)).toMatchObject([{ channel: "c", code: "loops", until: null }]);
    await pipeline.arrives({ ...from("d"), hops: 99 }, from("e"));
    expect(pipeline.sent).toHaveLength(2);
    const paused = pipeline.alerts.filter(({ key }) => key.startsWith("pause:"));
    expect(paused.map(({ reason }) => reason)).toEqual([expect.stringContaining("more than 2 senders")]);
    await resume(pipeline.db, "c");
    await pipeline.arrives({ ...from("f"), hops: 99 });
    expect(await pipeline.db.read(channelPauses)).toEqual([]);
    expect(pipeline.sent).toHaveLength(3);
  });

  it("is not caused by one sender alone", async () => {
    const pipeline = await alerted({
      rules: { caps, pause_on: { loops: [{ max: 2, per: hour }], replies: [] } },
    });
    for (let n = 0; n < 9; n++) await pipeline.arrives(from("a"));
    expect(await pipeline.db.read(channelPauses)).toEqual([]);
  });

  it("begins before the message that exceeds the number of replies is asked", async () => {
    const pipeline = await alerted({ rules: { pause_on: { loops: [], replies: [{ max: 2, per: hour }] } } });
    for (const name of ["a", "b", "c", "d"]) await pipeline.arrives(from(name));
    expect(await pipeline.db.read(channelPauses)).toMatchObject([{ code: "replies", event: null }]);
    expect(pipeline.sent).toHaveLength(2);
    expect((await pipeline.turns()).map(({ state }) => state).sort()).toEqual([
      "answered",
      "answered",
      "waiting",
      "waiting",
    ]);
  });
});

describe("shadow mode", () => {
  const held = (pipeline: TestPipeline) =>
    pipeline.db.read((q) =>
      q.all<{ id: string; state: string; code: string | null; open: number }>(
        "SELECT id, state, code, open FROM drafts ORDER BY id",
      ),
    );

  it("asks and composes, and holds every reply at once, before its delay", async () => {
    const pipeline = await openPipeline({ rules: { mode: "shadow" } });
    await pipeline.arrives({ text: "hello" });
    expect((await pipeline.turns()).map(({ state }) => state)).toEqual(["answered"]);
    expect([await held(pipeline), pipeline.sent]).toMatchObject([[{ state: "held", code: "shadow", open: 0 }], []]);
  });

  it("sends a reply that an operator releases, and holds the next one", async () => {
    const pipeline = await openPipeline({ rules: { mode: "shadow" } });
    await pipeline.arrives({ text: "hello" });
    const [draft] = await held(pipeline);
    await pipeline.db.tx((q) => resendDraft(q, draft?.id ?? ""));
    await pipeline.settles();
    expect(pipeline.sent).toHaveLength(1);
    await pipeline.arrives({ text: "more" });
    expect((await held(pipeline)).map(({ state }) => state)).toEqual(["sent", "held"]);
  });

  it("does not send old drafts after a change to live, and holds those that were queued before a change to shadow", async () => {
    const clock = testClock(true);
    const shadow = await openPipeline({ clock, rules: { mode: "shadow" } });
    await shadow.arrives({ text: "hello" });
    const { db, platform } = shadow;
    const live = await openPipeline({ clock, db, platform, outbound: { capacity: () => 0 } });
    await live.arrives({ text: "again", from: { address: "bob@example.org" } });
    expect((await held(live)).map(({ state }) => state).sort()).toEqual(["held", "queued"]);
    await shadow.settles();
    expect((await held(live)).map(({ state, code }) => [state, code])).toEqual([
      ["held", "shadow"],
      ["held", "shadow"],
    ]);
    expect([...shadow.sent, ...live.sent]).toEqual([]);
  });

  it("notifies only the human whose reply it holds when it is due", async () => {
    const clock = testClock(true);
    const live = await openPipeline({ clock, outbound: { capacity: () => 0 } });
    await live.arrives({ text: "one" }, { text: "two", from: { address: "bob@example.org" } });
    const { db, platform } = live;
    const [, humans] = await held(live);
    await db.tx((q) =>
      q.run("UPDATE replies SET kind = 'human' WHERE id = (SELECT reply FROM drafts WHERE id = $1)", humans?.id ?? ""),
    );
    const shadow = await alerted({ clock, db, platform, rules: { mode: "shadow" } });
    const hops = hopsOf(shadow);
    await shadow.settles();
    expect((await held(shadow)).map(({ code }) => code)).toEqual(["shadow", "shadow"]);
    expect(shadow.undelivered).toEqual([expect.stringContaining(`${humans?.id} held: the channel is in shadow`)]);
    expect(hops.map(({ name, code }) => [name, code])).toEqual([
      ["replyHeld", "shadow"],
      ["replyHeld", "shadow"],
    ]);
  });

  it("sends no notice to a customer whose messages are held by a cap", async () => {
    const pipeline = await openPipeline({
      rules: {
        mode: "shadow",
        cap_text: "too many",
        caps: { sender: [{ max: 1, per: hour }], conversation: [], channel: [] },
      },
    });
    await pipeline.arrives({ text: "1" });
    await pipeline.arrives({ text: "2" });
    expect((await held(pipeline)).map(({ state, code }) => [state, code])).toEqual([
      ["held", "shadow"],
      ["dropped", "shadow"],
    ]);
    expect(pipeline.sent).toEqual([]);
  });
});
