// bridgehead --version: the versions that a report of a defect needs.

import { migrations } from "../../store/migrate.ts";
import { sqliteVersion } from "../../store/sqlite.ts";
import { exitCodes, type Io } from "../io.ts";

/** Prints the versions of the package, of the Node.js that runs it, of SQLite and of the store's schema. */
export async function printVersions(
  { version, json }: { readonly version: string; readonly json: boolean },
  io: Io,
): Promise<number> {
  const versions = {
    bridgehead: version,
    node: process.versions.node,
    sqlite: sqliteVersion(),
    schema: migrations.length,
  };
  if (json) io.out(JSON.stringify(versions));
  else for (const [name, value] of Object.entries(versions)) io.out(`${name} ${value}`);
  return exitCodes.ok;
}
