// `platform.url: embedded`: runs the platform inside the daemon, for trials.

import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { Clock, Log } from "bridgehead/contract";
import type { Config } from "../config/index.ts";
import type { Platform } from "../platform/index.ts";

/** Starts the embedded platform when it is configured; returns null otherwise. Rejects with the problems
 *  of the agents file. */
export async function embeddedPlatform(config: Config, clock: Clock, log: Log): Promise<Platform | null> {
  const { embedded, rate } = config.platform;
  if (!embedded) return null;
  // Loaded on demand: a daemon with an external platform does not need it.
  const { readAgents, startPlatform } = await import("../platform/index.ts");
  const folder = dirname(config.file);
  const file = resolve(folder, embedded.agents);
  const platform = await startPlatform({
    file: resolve(folder, embedded.database),
    listen: embedded.listen,
    agents: readAgents(await readFile(file, "utf8"), file),
    clock,
    log,
    rate: { requests: rate.requests, perSeconds: rate.per / 1000 },
  });
  log.info({ url: platform.url }, "the embedded platform listens");
  return platform;
}
