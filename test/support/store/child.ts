// A process that uses a store. Arguments: `lock` or `migrate` and a SQLite file; `stop`, a PostgreSQL URL, a schema and its
// limit for idle transactions (ms); `write`, a SQLite file, the first number, a count, and how it ends (`close` or `die`).

import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { insertEvents } from "../../../src/pipeline/accept/rows.ts";
import type { Database, Query } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { lockStore } from "../../../src/store/sqlite/lock.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { writeSettings } from "../../../src/store/tables/agents.ts";
import { ensureChannel, recordOutcome } from "../../../src/store/tables/events.ts";
import { changeTurn } from "../../../src/store/tables/turns.ts";
import { conversation, draft, event, turn } from "./databases.ts";

// Numbered transactions for the replay of power cuts, through the real driver; each is acknowledged on standard output when
// its promise has resolved.

/** One message from its acceptance to its draft, with the changes of an earlier one, as the stages write them. */
async function message(q: Query, n: number): Promise<void> {
  const bytes = Buffer.alloc(n % 7 === 0 ? 30_000 : 900, `mail ${n} `);
  const raw = { id: createHash("sha256").update(bytes).digest("hex"), bytes };
  await insertEvents(q, [event(`n${n}`, { raw })]);
  const row = await q.one<{ id: number }>("SELECT id FROM events WHERE external_id = $1", `n${n}`);
  await conversation(q, `k${n}`);
  await turn(q, `t${n}`, `k${n}`);
  await recordOutcome(q, row?.id ?? 0, { state: "routed", conversation: `k${n}`, turn: `t${n}` });
  await draft(q, `d${n}`, `k${n}`);
  await q.run(
    "INSERT INTO meta (name, value) VALUES ('written', $1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    n,
  );
  if (n % 3 === 2) await changeTurn(q, `t${n - 2}`, { state: "asking", open: 1 });
  if (n % 5 !== 4) return;
  await q.run("DELETE FROM raw_messages WHERE event = (SELECT id FROM events WHERE external_id = $1)", `n${n - 4}`);
}

/** Fails after its writes: nothing of it may ever be found. */
async function failing(q: Query, n: number): Promise<void> {
  await insertEvents(q, [event(`failing${n}`)]);
  throw new Error("the transaction fails on purpose");
}

/** Bursts of different sizes, so that commits are made alone, together, and while others wait for the disk. */
async function write(db: Database, first: number, last: number): Promise<void> {
  const all: Promise<unknown>[] = [];
  for (let n = first; n < last; n += 1) {
    all.push(db.tx((q) => message(q, n)).then(() => writeSync(1, `ack ${n}\n`)));
    if (n % 11 === 5) all.push(db.tx((q) => failing(q, n)).catch(() => undefined));
    if (n % 16 < 8) await all.at(-1);
    else if (n % 16 < 12) await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(all);
}

const [, , action, place = "", ...more] = process.argv;
const say = (line: string) => void process.stdout.write(`${line}\n`);

if (action === "lock") {
  // Kept: a lock that nothing refers to is collected, and let go.
  process.once("SIGTERM", lockStore(place));
  say("locked");
  setInterval(() => undefined, 60_000); // until it is killed
} else if (action === "migrate") {
  say("ready");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  const db = openSqlite(place, Date.now);
  say(`applied ${(await migrate(db)).join(",")}`);
  await db.close();
  process.exit(0);
} else if (action === "write") {
  const [from, count, end] = more;
  const db = openSqlite(place, Date.now, { checkpointPages: 60 });
  await migrate(db);
  await db.tx((q) => ensureChannel(q, "c"));
  await write(db, Number(from), Number(from) + Number(count));
  if (end === "close") await db.close();
  process.exit(0);
} else {
  const [schema = "", idleMs] = more;
  // Stops in the middle of a transaction, like a suspended machine: its locks stay.
  const db = await openPostgres(place, { schema, timing: { idleTransaction: Number(idleMs) } });
  const outcome = await db
    .tx(async (q) => {
      await writeSettings(q, "row", "of the stopped one");
      say("stopping");
      process.kill(process.pid, "SIGSTOP");
      await writeSettings(q, "other", "{}");
    })
    .then(
      () => "committed",
      () => "rejected",
    );
  // The same process continues with a new connection.
  await db.tx((q) => writeSettings(q, "after", "{}"));
  say(outcome);
  process.exit(0);
}
