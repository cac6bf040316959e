// A process that uses a store. Arguments: `lock` or `migrate` and a SQLite file; `stop`, a PostgreSQL URL, a schema and its
// limit for idle transactions (ms); `write`, a SQLite file, the first number, a count, and how it ends (`close`, `die`, or
// `crash`: dies at the last commit, before it is on disk).

import { createHash } from "node:crypto";
import { writeSync } from "node:fs";
import { insertEvents } from "../../../src/pipeline/accept/rows.ts";
import type { Database, Query, TxOptions } from "../../../src/store/driver.ts";
import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { lockStore } from "../../../src/store/sqlite/lock.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { writeSettings } from "../../../src/store/tables/agents.ts";
import { ensureChannel, recordOutcome } from "../../../src/store/tables/events.ts";
import { writeMeta } from "../../../src/store/tables/meta.ts";
import { changeTurn } from "../../../src/store/tables/turns.ts";
import { conversation, draft, event, turn } from "./databases.ts";

// Numbered transactions for the replay of power cuts, through the real driver. Lines on standard output say how far each is:
//  `commit n`: committed, and perhaps not on disk.
//  `done n`: resolved, with `durable: false`. A power failure may still take it.
//  `ack n`: resolved. It is on disk, and so are all before it.
//  `seen n`: a read that has seen it resolved. It is on disk as well.
//  `statistics n`: number of the planner's statistics at the end.

/** How the transactions are committed, in turn. */
const ways: readonly TxOptions[] = [
  {},
  { pace: "trailing" },
  { durable: false },
  { pace: "shared" },
  { pace: "joining" },
  { durable: false, pace: "joining" },
  { pace: "hurried" },
];
/** These have a large mail, together more than the free pages that maintenance leaves in the file. */
const large = { first: 87, last: 88, bytes: 2_700_000 };
/** Deletes the large mails. */
const clearing = 92;

/** One message from its acceptance to its draft, with the changes of an earlier one, as the stages write them. */
async function message(q: Query, n: number): Promise<void> {
  const isLarge = n >= large.first && n <= large.last;
  const bytes = Buffer.alloc(isLarge ? large.bytes : n % 7 === 0 ? 30_000 : 900, `mail ${n} `);
  const raw = { id: createHash("sha256").update(bytes).digest("hex"), bytes };
  await insertEvents(q, [event(`n${n}`, { raw })]);
  const row = await q.one<{ id: number }>("SELECT id FROM events WHERE external_id = $1", `n${n}`);
  await conversation(q, `k${n}`);
  await turn(q, `t${n}`, `k${n}`);
  await recordOutcome(q, row?.id ?? 0, { state: "routed", conversation: `k${n}`, turn: `t${n}` });
  await draft(q, `d${n}`, `k${n}`);
  await writeMeta(q, "written", n);
  if (n % 3 === 2) await changeTurn(q, `t${n - 2}`, { state: "asking", open: 1 });
  if (n === clearing) await q.run("DELETE FROM raw_messages WHERE length(bytes) = $1", large.bytes);
  if (n % 5 !== 4) return;
  await q.run("DELETE FROM raw_messages WHERE event = (SELECT id FROM events WHERE external_id = $1)", `n${n - 4}`);
}

/** Fails after its writes: nothing of it may ever be found. */
async function failing(q: Query, n: number): Promise<void> {
  await insertEvents(q, [event(`failing${n}`)]);
  throw new Error("the transaction fails on purpose");
}

/** Bursts of different sizes, so that commits are made alone, together, and while others wait for the disk. Reads and
 *  maintenance are between them. */
async function write(db: Database, first: number, last: number, crashes: boolean): Promise<void> {
  const all: Promise<unknown>[] = [];
  const line = (what: string, n: number) => void writeSync(1, `${what} ${n}\n`);
  const look = async (q: Query) =>
    (await q.one<{ value: number }>("SELECT value FROM meta WHERE name = 'written'"))?.value ?? -1;
  const seen = (n: number) => line("seen", n);
  // The process before may have left commits that are not on disk.
  all.push(db.read(look).then(seen));
  for (let n = first; n < last; n += 1) {
    const options = ways[(n + Math.floor(n / ways.length)) % ways.length] ?? {};
    const commit = Promise.withResolvers<void>();
    const committed = () => {
      line("commit", n);
      commit.resolve();
      if (crashes && n === last - 1) process.exit(0);
    };
    const resolved = db.tx((q) => message(q, n), { ...options, committed });
    all.push(resolved.then(() => line(options.durable === false ? "done" : "ack", n)));
    const written = all.at(-1);
    if (n % 11 === 5)
      all.push(db.tx((q) => failing(q, n), { ...options, committed: () => process.exit(1) }).catch(() => undefined));
    if (n % 9 === 4) all.push(db.read(look).then(seen));
    if (n % 9 === 8) all.push(db.tx(look).then(seen));
    if (n % 4 === 2) all.push(db.maintain());
    if (n % 16 < 5) await written;
    else if (n % 16 < 9) await commit.promise;
    else if (n % 16 < 12) await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all(all);
  while (await db.maintain());
  const statistics = await db.read((q) => q.all("SELECT tbl FROM sqlite_stat1"));
  line("statistics", statistics.length);
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
  setInterval(() => undefined, 60_000); // the timers of the driver do not keep the process alive
  const db = openSqlite(place, Date.now, { checkpointPages: 60, analyzedPages: 0 });
  await migrate(db);
  await db.tx((q) => ensureChannel(q, "c"));
  await write(db, Number(from), Number(from) + Number(count), end === "crash");
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
