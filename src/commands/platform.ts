// bridgehead platform: runs the embedded platform alone, from its file of agents, until SIGTERM. `platform
// agent ...` changes its agents in parallel.

import { resolve } from "node:path";
import { systemClock as clock } from "../ops/clock.ts";
import { createLog } from "../ops/log.ts";
import { isJournal } from "../ops/systemd.ts";
import type { AgentDefinition } from "../platform/index.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { type AgentOptions, administer, readAgentFile } from "./platform-agent.ts";

export interface PlatformOptions extends AgentOptions {
  readonly what?: "agent";
  readonly config?: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly publicUrl?: string;
  readonly allowPrivateWebhooks?: boolean;
}

export async function run(options: PlatformOptions, io: Io): Promise<number> {
  const { newerFile } = await import("../platform/index.ts");
  try {
    return await (options.what === "agent" ? administer(options, io) : serve(options, io));
  } catch (error) {
    if ((error as { readonly code?: string }).code !== newerFile) throw error;
    io.err((error as Error).message);
    return exitCodes.newerSchema;
  }
}

async function serve(options: PlatformOptions, io: Io): Promise<number> {
  if (options.config === undefined) {
    io.err("platform needs --config, a file of agents");
    return exitCodes.usage;
  }
  const { readAgents, startPlatform } = await import("../platform/index.ts");
  const file = resolve(io.cwd, options.config);
  let agents: readonly AgentDefinition[];
  try {
    agents = readAgents(await readAgentFile(file), options.config);
  } catch (error) {
    io.err(error instanceof Error ? error.message : String(error));
    return exitCodes.config;
  }
  const log = createLog({
    level: "info",
    format: "auto",
    out: process.stderr,
    clock,
    journal: isJournal(io.env["JOURNAL_STREAM"], 2),
  });
  io.onCrash((error) => log.error({ err: error }, "uncaught exception (a defect)"));
  const platform = await startPlatform({
    file: resolve(io.cwd, options.database),
    listen: options.listen,
    agents,
    clock,
    log,
    ...(options.publicUrl === undefined ? {} : { publicUrl: options.publicUrl }),
    allowPrivateWebhooks: options.allowPrivateWebhooks ?? false,
  });
  log.info({ url: platform.url }, "the platform listens");
  await new Promise<void>((stop) => {
    if (io.signal.aborted) stop();
    io.signal.addEventListener("abort", () => stop(), { once: true });
  });
  await platform.close();
  log.info({}, "stopped");
  return exitCodes.ok;
}
