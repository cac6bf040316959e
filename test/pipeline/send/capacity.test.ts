// The capacity of an adapter whose replies in calls need none of it: calls to place are claimed as far as it reaches, and a
// reply in a live call is claimed in any case.

import { externalId, type Outbound } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import type { Database } from "../../../src/store/driver.ts";
import { callOf, openCallPipeline, restart } from "../../support/pipeline/pipeline.ts";
import { conversation, draft, fresh, leaseLanes, onEachDatabase } from "../../support/store/databases.ts";

const most = 2;
const wanted = 5;
const minute = 60_000;

/** An adapter that places `most` calls at once, after `dial`, and speaks at once. `counts`: replies in calls are limited by
 *  its capacity too. */
function dialling(counts: boolean) {
  const spoken: string[] = [];
  const tries: number[] = [];
  let running = 0;
  const dial = Promise.withResolvers<void>();
  const outbound: Partial<Outbound> = {
    capacity: () => Math.max(0, most - running),
    ...(!counts && { unlimitedInSessions: true as const }),
    async send(stored, attempt) {
      const { session = null, text } = stored as { session?: string | null; text: string };
      if (session !== null) {
        await attempt.crossing();
        spoken.push(text);
        return { kind: "sent", id: externalId(`said-${attempt.key}`) };
      }
      running += 1;
      tries.push(attempt.number);
      try {
        await attempt.crossing();
        await dial.promise;
        return { kind: "sent", id: externalId(`dialled-${attempt.key}`) };
      } finally {
        running -= 1;
      }
    },
  };
  return { outbound, spoken, tries, dial: dial.resolve };
}

onEachDatabase((newDatabase) => {
  async function begun(counts = false) {
    const db = await fresh(newDatabase);
    const adapter = dialling(counts);
    const pipeline = await openCallPipeline({ db, outbound: adapter.outbound, timeout: minute });
    onTestFinished(() => adapter.dial());
    await db.tx(async (q) => {
      for (let n = 1; n <= wanted; n += 1) {
        await conversation(q, `k${n}`, "c", `+1555010${n}`);
        await draft(q, `d${n}`, `k${n}`);
      }
    });
    await pipeline.scheduler.sweep();
    await expect.poll(() => states(pipeline)).toEqual(["queued", "queued", "queued", "sending", "sending"]);
    return { ...adapter, db, pipeline };
  }
  const states = async ({ db }: { db: Database }) =>
    (await db.read((q) => q.all<{ state: string }>("SELECT state FROM drafts WHERE session IS NULL")))
      .map(({ state }) => state)
      .sort();
  /** The drafts whose lanes another holder may lease. */
  const unclaimed = async ({ db }: { db: Database }) => {
    const leased: string[] = [];
    const undo = new Error("undo");
    const lease = db.tx(async (q) => {
      leased.push(...(await leaseLanes(q, "out", "c", "other", minute, 99)).map(({ conversation: id }) => id));
      throw undo;
    });
    await expect(lease).rejects.toBe(undo);
    return leased.length;
  };

  it("speaks in a live call while placed calls use all capacity, and claims no more of these", async () => {
    const { pipeline, db, spoken, tries, dial } = await begun();
    const call = callOf(pipeline);
    await call.tells("opened");
    for (const text of ["hello", "and now"]) {
      await call.says(text);
      await expect.poll(() => spoken.at(-1)).toBe(`answer to ${text}`);
    }
    await pipeline.scheduler.sweep();
    expect([tries, await unclaimed({ db })]).toEqual([[1, 1], wanted - most]);
    dial();
    await pipeline.settles();
    expect([tries, await states({ db })]).toEqual([Array(wanted).fill(1), Array(wanted).fill("sent")]);
  });

  it("lets a reply in a call wait where every draft counts", async () => {
    const { pipeline, spoken, dial } = await begun(true);
    const call = callOf(pipeline);
    await call.tells("opened");
    await call.says("hello");
    await pipeline.called("ask", 1);
    await expect.poll(async () => (await pipeline.state()).drafts).toHaveLength(wanted + 1);
    await pipeline.scheduler.sweep();
    expect(spoken).toEqual([]);
    dial();
    await expect.poll(() => spoken).toEqual(["answer to hello"]);
    await pipeline.settles();
  });

  it("leaves no call of unknown outcome that was beyond the capacity when the process died", async () => {
    const { db, tries } = await begun();
    expect(tries).toEqual([1, 1]);
    await restart({ db });
    const rows = await db.read((q) =>
      q.all<{ state: string; attempts: number }>("SELECT state, attempts FROM drafts ORDER BY attempts, id"),
    );
    expect(rows.map(({ state, attempts }) => `${state} ${attempts}`)).toEqual([
      ...Array<string>(wanted - most).fill("queued 0"),
      ...Array<string>(most).fill("sending 1"),
    ]);
  });
});
