// bridgehead schema: the configuration's JSON Schema, for editors.

import { jsonSchema } from "../config/index.ts";
import { loadAdapter } from "../host/loader.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";

export async function run(_options: object, io: Io): Promise<number> {
  const email = await loadAdapter("email", io.cwd);
  io.out(JSON.stringify(jsonSchema({ email }), null, 2));
  return exitCodes.ok;
}
