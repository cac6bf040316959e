// A child that opens a store as the daemon does: `migrate` brings it up to date, `lock` locks it, says so and waits.

import { migrate } from "../../../src/store/migrate.ts";
import { lockStore } from "../../../src/store/sqlite/lock.ts";
import { openSqlite } from "../../../src/store/sqlite.ts";

const [, , action, file = ""] = process.argv;

if (action === "lock") {
  // Kept: a lock that nothing refers to is collected, and let go.
  process.once("SIGTERM", lockStore(file));
  process.stdout.write("locked\n");
  setInterval(() => undefined, 60_000); // until it is killed
} else {
  process.stdout.write("ready\n");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  const db = openSqlite(file, Date.now);
  process.stdout.write(`applied ${(await migrate(db)).join(",")}\n`);
  await db.close();
  process.exit(0);
}
