// The embedded platform in a process of its own, with a limit nobody meets. Arguments: one JSON object (ServedOptions).
// Prints `ready` when it listens; ends at SIGTERM.

import { systemClock } from "../../src/ops/clock.ts";
import { startPlatform } from "../../src/platform/index.ts";
import { benchAgents } from "./served-agent.ts";

export interface ServedOptions {
  readonly port: number;
  readonly file: string;
}

const { port, file } = JSON.parse(process.argv[2] ?? "") as ServedOptions;
const quiet = () => {};
const tell = (...what: unknown[]) => console.error(...what);
const platform = await startPlatform({
  file,
  listen: { host: "127.0.0.1", port },
  agents: benchAgents(),
  clock: systemClock,
  log: { debug: quiet, info: quiet, warn: tell, error: tell },
  rate: { requests: 1_000_000, perSeconds: 1 },
  // What grew in a moment would all be idle at once: ending it is not what is measured.
  patience: { endAfter: 1e14, archiveAfter: 1e14 },
});
process.once("SIGTERM", () => void platform.close().then(() => process.exit(0)));
process.stdout.write("ready\n");
