// A node that stops in the middle of a transaction, as a machine that is suspended does: its locks are held by nobody.

import { openPostgres } from "../../../src/store/postgres.ts";
import { writeSettings } from "../../../src/store/tables/agents.ts";

const [, , url = "", schema = "", idleMs = ""] = process.argv;
const db = await openPostgres(url, { schema, timing: { idleTransaction: Number(idleMs) } });
const outcome = await db
  .tx(async (q) => {
    await writeSettings(q, "row", "of the stopped one");
    process.stdout.write("stopping\n");
    process.kill(process.pid, "SIGSTOP");
    await writeSettings(q, "other", "{}");
  })
  .then(
    () => "committed",
    () => "rejected",
  );
// The same process goes on with a new connection.
await db.tx((q) => writeSettings(q, "after", "{}"));
process.stdout.write(`${outcome}\n`);
process.exit(0);
