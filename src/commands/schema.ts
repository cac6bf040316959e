// bridgehead schema: prints the configuration's JSON Schema, for editors.

import { builtIn, loadAdapter } from "../channels/loader.ts";
import { jsonSchema } from "../config/index.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";

export async function run(_options: object, io: Io): Promise<number> {
  const adapters = await Promise.all(
    builtIn.map(async (name) => [name, await loadAdapter(name, io.cwd)] as const),
  );
  io.out(JSON.stringify(jsonSchema(Object.fromEntries(adapters)), null, 2));
  return exitCodes.ok;
}
