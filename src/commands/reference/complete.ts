// bridgehead complete: the names in the configuration, for the completions of the shells. Hidden, without side effects and
// without messages. It loads the YAML parser only, because the operator waits for it while typing.

import { resolve } from "node:path";
import { openFile } from "../../config/document.ts";
import { defaultConfig, exitCodes, type Io } from "../io.ts";

/** Shells expand what is offered: other names are not printed. */
const plainName = /^[\w.-]{1,100}$/;

/** `given`: `channels` or `agents`, then `--config FILE` or `--config=FILE`. Prints one name per line; nothing when the
 *  file cannot be read. */
export async function printNames(given: readonly string[], io: Io): Promise<number> {
  const [what = "", option = "", file = ""] = given;
  const config = option.startsWith("--config=") ? option.slice("--config=".length) : file;
  const opened = await openFile(resolve(io.cwd, config || defaultConfig), { env: {} });
  if ("message" in opened) return exitCodes.failed;
  const { [what]: block } = Object(opened.document.value) as Readonly<Record<string, unknown>>;
  const names = Object.keys(Object(block)).filter((name) => plainName.test(name));
  if (names.length > 0) io.out(names.join("\n"));
  return exitCodes.ok;
}
