// Child of the power-cut replay: writes numbered transactions through the real driver and acknowledges each on standard
// output after its promise has resolved. Arguments: file, first number, count, how it ends (`close` or `die`).

import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { insertEvents } from "../../../../src/pipeline/accept/rows.ts";
import type { Database, Query } from "../../../../src/store/driver.ts";
import { migrate } from "../../../../src/store/migrate.ts";
import { openSqlite } from "../../../../src/store/sqlite.ts";
import { ensureChannel, settleEvent } from "../../../../src/store/tables/events.ts";
import { changeTurn } from "../../../../src/store/tables/turns.ts";
import { conversation, draft, event, turn } from "../databases.ts";

const [, , file = "", from = "0", count = "0", end = "die"] = process.argv;
const first = Number(from);
const last = first + Number(count);

/** One message from its acceptance to its draft, with the changes of an earlier one, as the stages write them. */
async function message(q: Query, n: number): Promise<void> {
  const bytes = Buffer.alloc(n % 7 === 0 ? 30_000 : 900, `mail ${n} `);
  const raw = { id: createHash("sha256").update(bytes).digest("hex"), bytes };
  await insertEvents(q, [event(`n${n}`, { raw })]);
  const row = await q.one<{ id: number }>("SELECT id FROM events WHERE external_id = $1", `n${n}`);
  await conversation(q, `k${n}`);
  await turn(q, `t${n}`, `k${n}`);
  await settleEvent(q, row?.id ?? 0, { state: "routed", conversation: `k${n}`, turn: `t${n}` });
  await draft(q, `d${n}`, `k${n}`);
  await q.run(
    "INSERT INTO meta (name, value) VALUES ('written', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    n,
  );
  if (n % 3 === 2) await changeTurn(q, `t${n - 2}`, { state: "asking", open: 1 });
  if (n % 5 !== 4) return;
  await q.run(
    "DELETE FROM raw_messages WHERE event = (SELECT id FROM events WHERE external_id = $1)",
    `n${n - 4}`,
  );
}

/** Fails after its writes: nothing of it may ever be found. */
async function failing(q: Query, n: number): Promise<void> {
  await insertEvents(q, [event(`failing${n}`)]);
  throw new Error("the transaction fails on purpose");
}

/** Bursts of different sizes, so that commits are made alone, together, and while others wait for the disk. */
async function write(db: Database): Promise<void> {
  const all: Promise<unknown>[] = [];
  for (let n = first; n < last; n += 1) {
    all.push(db.tx((q) => message(q, n)).then(() => writeSync(1, `ack ${n}\n`)));
    if (n % 11 === 5) all.push(db.tx((q) => failing(q, n)).catch(() => undefined));
    if (n % 16 < 8) await all.at(-1);
    else if (n % 16 < 12) await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(all);
}

const db = openSqlite(file, Date.now, { checkpointPages: 60 });
await migrate(db);
await db.tx((q) => ensureChannel(q, "c"));
await write(db);
if (end === "close") await db.close();
process.exit(0);
