// Embedded platforms in a process of their own, with a rate limit that is never reached. Arguments: one JSON object
// (ServedOptions). Prints `ready` when they listen; ends at SIGTERM.

import { systemClock } from "../../../src/ops/clock.ts";
import { startPlatform } from "../../../src/platform/index.ts";
import { benchAgents } from "./agent.ts";

export interface ServedOptions {
  readonly platforms: readonly { readonly port: number; readonly file: string }[];
}

const { platforms } = JSON.parse(process.argv[2] ?? "") as ServedOptions;
const quiet = () => {};
const report = (...what: unknown[]) => console.error(...what);
const started = await Promise.all(
  platforms.map(({ port, file }) =>
    startPlatform({
      file,
      listen: { host: "127.0.0.1", port },
      agents: benchAgents(),
      clock: systemClock,
      log: { debug: quiet, info: quiet, warn: report, error: report },
      rate: { requests: 1_000_000, perSeconds: 1 },
      // Generated conversations would all become idle at once, and ending them is not measured.
      patience: { endAfter: 1e14, archiveAfter: 1e14 },
    }),
  ),
);
const close = () => Promise.all(started.map((platform) => platform.close()));
process.once("SIGTERM", () => void close().then(() => process.exit(0)));
process.stdout.write("ready\n");
