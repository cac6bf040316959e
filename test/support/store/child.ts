// A process that uses a store. Arguments: `lock` or `migrate` and a SQLite file; `stop`, a PostgreSQL URL, a schema and its
// limit for idle transactions (ms).

import { migrate } from "../../../src/store/migrate.ts";
import { openPostgres } from "../../../src/store/postgres.ts";
import { lockStore } from "../../../src/store/sqlite/lock.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";
import { writeSettings } from "../../../src/store/tables/agents.ts";

const [, , action, place = "", schema = "", idleMs = ""] = process.argv;
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
} else {
  // Stops in the middle of a transaction, as a machine that is suspended does: its locks are held by nobody.
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
  // The same process goes on with a new connection.
  await db.tx((q) => writeSettings(q, "after", "{}"));
  say(outcome);
  process.exit(0);
}
