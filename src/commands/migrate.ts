// bridgehead migrate: migrates the store's schema. `run` does the same at its start; this command lets
// operators migrate before it and see the result.

import { resolve } from "node:path";
import { openStore } from "../app.ts";
import { loadStore } from "../config/index.ts";
import { systemClock as clock } from "../ops/clock.ts";
import { createLog } from "../ops/log.ts";
import { isJournal } from "../ops/systemd.ts";
import { schemaVersion } from "../store/migrate.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { problemLine } from "./problem.ts";

export async function run(options: { readonly config: string }, io: Io): Promise<number> {
  const loaded = await loadStore(resolve(io.cwd, options.config), { env: io.env });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(problemLine(problem));
    return exitCodes.config;
  }
  const log = createLog({
    level: "info",
    format: "text",
    out: { write: io.err },
    clock,
    journal: isJournal(io.env["JOURNAL_STREAM"], 2),
  });
  const { db, unlock } = await openStore(loaded, clock, log);
  try {
    io.out(`schema ${await schemaVersion(db)}: up to date`);
  } finally {
    await db.close();
    unlock();
  }
  return exitCodes.ok;
}
