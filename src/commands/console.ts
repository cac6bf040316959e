// bridgehead console: prints a link that logs a browser in to the web console, once. Writes the link's hash to the store,
// which the running daemon reads.

import { loadConsole } from "../config/index.ts";
import { createLoginLink } from "../console/session.ts";
import { askHealth } from "../http/health.ts";
import { standardTiming } from "../ops/timing.ts";
import { localUrl } from "./http-get.ts";
import { type CommandOptions, exitCodes, fail, type Io } from "./io.ts";
import { load, useStore } from "./store/open.ts";

export async function printLoginLink(options: CommandOptions, io: Io): Promise<number> {
  const loaded = await load(loadConsole, options, io);
  const { enabled, listen, public_url: publicUrl } = loaded.console;
  if (!enabled)
    fail(`the console is disabled: remove console.enabled from ${loaded.file} and restart the daemon`);
  if (listen.port === 0)
    fail(`the console's port is only known to the daemon's log: set console.listen in ${loaded.file}`);
  const local = localUrl(listen);
  return useStore(loaded, async (db) => {
    const token = await db.tx((q) => createLoginLink(q, standardTiming.console));
    const url = `${publicUrl ?? local}/login/${token}`;
    const minutes = standardTiming.console.link / 60_000;
    const answers = await isServed(local, io.signal);
    if (options.json) io.out(JSON.stringify({ url, minutes, answers }));
    else io.out(`${url}\nOpen it in a browser. It works once, within ${minutes} minutes.`);
    if (!answers) io.err(`no console answers at ${local}: is the daemon running with this configuration?`);
    return exitCodes.ok;
  });
}

const isServed = (url: string, signal: AbortSignal): Promise<boolean> =>
  askHealth(url, AbortSignal.any([signal, AbortSignal.timeout(standardTiming.health.store)])).then(
    () => true,
    () => false,
  );
