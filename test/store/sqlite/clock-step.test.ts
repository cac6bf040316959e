// A clock that was ahead goes back: what is due does not wait until the clock is there again.

import { join } from "node:path";
import type { Clock } from "bridgehead/contract";
import { expect, it, onTestFinished } from "vitest";
import { openStore } from "../../../src/app.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { isRecent } from "../../../src/store/driver.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { ensureChannel } from "../../../src/store/tables/events.ts";
import { capUse } from "../../../src/store/tables/turns.ts";
import { eventually } from "../../support/clock.ts";
import { listen } from "../../support/pipeline/stage.ts";
import { newFolder } from "../../support/resources.ts";
import { conversation, storeEvent, turn } from "../../support/store/databases.ts";

const minute = 60_000;
const message = "clock went back: due times were moved with it";
const far = 40 * 24 * 60 * minute;

/** The system clock with an offset, which `set` changes. */
function offsetClock() {
  let offset = 0;
  const clock: Clock = { ...systemClock, now: () => Date.now() + offset };
  return { clock, set: (ms: number) => void (offset = ms) };
}

/** A store with a turn, its lane, a pause and a rate that are due in five minutes by a clock that is ahead. */
async function aheadStore() {
  const folder = newFolder();
  const time = offsetClock();
  const { log, lines } = listen();
  const config = { store: { kind: "sqlite", file: join(folder, "store.db") } } as const;
  const opened = () => openStore(config, time.clock, log, standardTiming);
  time.set(far);
  const { db, unlock } = await opened();
  await db.tx(async (q) => {
    await ensureChannel(q, "c");
    await storeEvent(q, "one");
    await turn(q, "t", await conversation(q, "k"), { receivedAt: time.clock.now() });
    await q.run("UPDATE turns SET due_at = now_ms() + $1 WHERE id = 't'", 5 * minute);
    await q.run("UPDATE lanes SET due_at = now_ms() + $1 WHERE id = 'k/in'", 5 * minute);
    await q.run(
      "INSERT INTO rates (name, arrival, penalty_until) VALUES ('r', (now_ms() + $1) * 1000, now_ms() + $1)",
      5 * minute,
    );
    await q.run(
      `INSERT INTO send_pauses (channel, sender, cause, failures, until, by_provider, reason)
       VALUES ('c', 's', 'rate', 1, now_ms() + $1, 0, 'r')`,
      5 * minute,
    );
  });
  const waits = (from: typeof db) =>
    from.tx((q) =>
      q.one<Record<string, number>>(
        `SELECT (SELECT due_at FROM turns) - now_ms() AS turn, (SELECT due_at FROM lanes WHERE id = 'k/in') - now_ms() AS lane,
           (SELECT arrival / 1000 FROM rates) - now_ms() AS rate, (SELECT penalty_until FROM rates) - now_ms() AS penalty,
           (SELECT until FROM send_pauses) - now_ms() AS pause, (SELECT received_at FROM events) - now_ms() AS stays`,
      ),
    );
  return { db, unlock, time, lines, opened, waits };
}

const inMinutes = async (waits: Promise<Record<string, number> | undefined>) =>
  Object.fromEntries(Object.entries((await waits) ?? {}).map(([name, ms]) => [name, Math.round(ms / minute) + 0]));

const moved = { turn: 5, lane: 5, rate: 5, penalty: 5, pause: 5, stays: far / minute };

it("moves what is due when the clock goes back while the daemon runs", async () => {
  const { db, unlock, time, lines, waits } = await aheadStore();
  time.set(0);
  await eventually(async () => expect(await inMinutes(waits(db))).toEqual(moved));
  await eventually(() => expect(lines).toContain(message));
  await db.close();
  unlock();
});

it("moves what is due at the start, when the clock has gone back since the last one", async () => {
  const { db, unlock, time, lines, opened, waits } = await aheadStore();
  await db.close();
  unlock();
  time.set(0);
  const next = await opened();
  expect(await inMinutes(waits(next.db))).toEqual(moved);
  await eventually(() => expect(lines).toContain(message));
  await next.db.close();
  next.unlock();
});

it("waits for a clock that goes back a little", async () => {
  const { db, unlock, time, lines, waits } = await aheadStore();
  time.set(far - 9 * minute);
  expect(await inMinutes(waits(db))).toEqual({ ...moved, stays: 0 });
  expect(lines).not.toContain(message);
  await db.close();
  unlock();
});

it("counts no messages that a clock dated far ahead", async () => {
  const { db, unlock, time } = await aheadStore();
  const use = () => db.tx((q) => capUse(q, "c", 60 * minute));
  expect(await use()).toMatchObject({ total: 1 });
  time.set(0);
  await use();
  expect(await use()).toMatchObject({ total: 0 });
  await db.close();
  unlock();
});

it.each([
  [1000, 0],
  [minute, 1],
])("counts what is dated 30 s ahead by the clock step: %i ms", async (clockStep, count) => {
  const db = openSqlite(":memory:", Date.now, { timing: { ...standardTiming.sqlite, clockStep } });
  onTestFinished(() => db.close());
  const found = db.read((q) => q.all(`SELECT 1 AS one WHERE ${isRecent("now_ms() + 30000", "60000")}`));
  expect(await found).toHaveLength(count);
});
