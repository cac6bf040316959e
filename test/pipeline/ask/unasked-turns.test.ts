// A message that waits while its agent is not asked is held when it is older than max_age, and responders are notified.

import { describe, expect, it } from "vitest";
import { standardTiming } from "../../../src/ops/timing.ts";
import { leaseTurns } from "../../../src/pipeline/ask/rows.ts";
import { endOldTurns } from "../../../src/pipeline/ask/stage.ts";
import type { ChannelRuntime } from "../../../src/pipeline/channel-runtime.ts";
import { pauseChannel, resumeChannel } from "../../../src/store/tables/pauses.ts";
import { suppress } from "../../../src/store/tables/suppressions.ts";
import { escalationsIn, raising } from "../../support/escalation/policy.ts";
import { openPipeline, testClock } from "../../support/pipeline/pipeline.ts";
import { activeSettings, clock, lineOf } from "../../support/pipeline/stage.ts";
import { conversation, fresh, onEachDatabase, put, storeEvent, turn } from "../../support/store/databases.ts";

const hour = 3_600_000;
const refused = "401: the key is not valid";

/** A pipeline whose agent is not asked until `works` is called. */
async function unasked(over: Partial<Pick<ChannelRuntime, "problem" | "settings">> = { problem: () => refused }) {
  let isAsked = false;
  const raises = raising();
  const pipeline = await openPipeline({
    clock: testClock(true),
    rules: { max_age: 2 * hour },
    line: (line) => {
      const own = { ...line, ...over };
      return raises({
        ...own,
        problem: () => (isAsked ? null : own.problem()),
        settings: () => (isAsked ? activeSettings() : own.settings()),
      });
    },
  });
  return {
    ...pipeline,
    works: () => void (isAsked = true),
    fails: () => void (isAsked = false),
    from: (name: string) => ({
      text: "hello",
      from: { address: `${name}@example.org` },
      sentAt: new Date(pipeline.clock.now()),
    }),
  };
}

const states = async (pipeline: Awaited<ReturnType<typeof unasked>>) =>
  (await pipeline.turns()).map(({ state }) => state);

describe("a message that waits while its agent is not asked", () => {
  for (const [name, over] of [
    ["the key is rejected", { problem: () => refused }],
    ["the settings were never read", { settings: () => null }],
    ["the agent is inactive", { settings: () => ({ ...activeSettings(), status: "inactive" as const }) }],
  ] as const)
    it(`is held when it is older than max_age, and responders are notified: ${name}`, async () => {
      const pipeline = await unasked(over);
      await pipeline.arrives(pipeline.from("ada"));
      await pipeline.passes(hour);
      await pipeline.arrives(pipeline.from("bob"));
      expect(await states(pipeline)).toEqual(["waiting", "waiting"]);
      await pipeline.passes(1.5 * hour);
      expect((await states(pipeline)).toSorted()).toEqual(["failed", "waiting"]);
      expect(await pipeline.listed("held")).toEqual(["too-old"]);
      expect(await escalationsIn(pipeline.db)).toMatchObject([
        { cause: "held", state: "open", reason: expect.stringContaining("held as too-old: waited") },
      ]);
      pipeline.works();
      await pipeline.settles();
      expect(pipeline.sent).toHaveLength(1);
      await pipeline.releases(1);
      expect(pipeline.sent).toHaveLength(2);
    });

  it("is held also after an attempt that was refused", async () => {
    const pipeline = await unasked();
    pipeline.works();
    pipeline.platform.faults.start = (asked) => {
      pipeline.fails();
      asked.answer(401, { message: "no" });
    };
    await pipeline.arrives(pipeline.from("ada"));
    expect(await pipeline.turns()).toMatchObject([{ state: "waiting", attempts: 1 }]);
    await pipeline.passes(1.9 * hour);
    expect(await states(pipeline)).toEqual(["waiting"]);
    await pipeline.passes(0.2 * hour);
    expect(await states(pipeline)).toEqual(["failed"]);
    expect(await pipeline.listed("held")).toEqual(["too-old"]);
  });

  it("is not held again after an operator has released it", async () => {
    const pipeline = await unasked();
    await pipeline.arrives(pipeline.from("ada"));
    await pipeline.passes(3 * hour);
    await pipeline.releases(1);
    await pipeline.passes(3 * hour);
    expect(await states(pipeline)).toEqual(["waiting"]);
    pipeline.works();
    await pipeline.settles();
    expect(pipeline.sent).toHaveLength(1);
  });

  it("is dropped when its sender is suppressed by then", async () => {
    const pipeline = await unasked();
    await pipeline.arrives(pipeline.from("ada"));
    await pipeline.db.tx((q) => suppress(q, "c", "ada@example.org", "STOP"));
    await pipeline.passes(3 * hour);
    expect(await states(pipeline)).toEqual(["dropped"]);
    expect(await pipeline.listed("ignored")).toEqual(["suppressed"]);
    expect(await escalationsIn(pipeline.db)).toEqual([]);
  });

  it("waits for the end of a pause of its channel", async () => {
    const pipeline = await unasked();
    await pipeline.arrives(pipeline.from("ada"));
    await pipeline.db.tx((q) =>
      pauseChannel(q, { channel: "c", code: "operator", reason: "r", event: null, forMs: null }),
    );
    await pipeline.passes(3 * hour);
    expect(await states(pipeline)).toEqual(["waiting"]);
    await pipeline.db.tx((q) => resumeChannel(q, "c"));
    await pipeline.settles();
    expect(await states(pipeline)).toEqual(["failed"]);
  });
});

onEachDatabase((newDatabase) => {
  it("is no opening, no text of a human and no question of a call, was not released, and waits itself", async () => {
    const db = await fresh(newDatabase);
    const others = {
      opening: "event = NULL, opening = '{}'",
      relayed: "kind = 'relayed'",
      call: "session = 's'",
      released: "reason = 'released by an operator'",
      asking: "state = 'asking', attempts = 1, tried_at = made_at",
      retried: "attempts = 1, tried_at = now_ms()",
      // It has waited at the channel's cap.
      routed: "made_at = now_ms()",
    };
    await db.tx(async (q) => {
      for (const [id, set] of Object.entries({ old: "state = 'waiting'", ...others })) {
        const event = await storeEvent(q, id);
        await conversation(q, id);
        await turn(q, id, id);
        const long = "made_at = now_ms() - 9000000, received_at = now_ms() - 9000000";
        await q.run(`UPDATE turns SET event = $1, ${long} WHERE id = $2`, event, id);
        await put(q, "turns", id, set);
      }
    });
    const rules = { rules: { max_age: 2 * hour } };
    await db.tx((q) => endOldTurns(q, lineOf(rules), 10, { clock, timing: standardTiming, node: "n" }));
    const ended = await db.read((q) => q.all("SELECT id, state FROM turns WHERE open = 0"));
    expect(ended).toEqual([{ id: "old", state: "failed" }]);
  });

  it("is read again under the lock of its lane; a lane that a claim holds is left alone", async () => {
    const db = await fresh(newDatabase, async (q) => {
      for (const n of ["1", "2"]) {
        const event = await storeEvent(q, n);
        await conversation(q, `k${n}`);
        await turn(q, `t${n}`, `k${n}`);
        await q.run("UPDATE turns SET event = $1 WHERE id = $2", event, `t${n}`);
      }
      await q.run("UPDATE turns SET made_at = now_ms() - 9000000, received_at = now_ms() - 9000000");
    });
    const claim = { channel: "c", holder: "n", leaseMs: 60_000, limit: 1, clock };
    const [held] = await db.tx((q) => leaseTurns(q, claim));
    await db.tx((q) => endOldTurns(q, lineOf(), 10, { clock, timing: standardTiming, node: "n" }));
    const rows = await db.read((q) => q.all<{ id: string }>("SELECT id FROM turns WHERE state = 'waiting'"));
    expect(rows).toEqual([{ id: held?.head?.turn.id }]);
  });
});
