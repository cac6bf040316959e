// bridgehead platform: runs the embedded platform alone, from its file of agents, until SIGTERM. `platform
// agent ...` changes its agents in parallel.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { systemClock as clock } from "../ops/clock.ts";
import { createLog } from "../ops/log.ts";
import { isJournal } from "../ops/systemd.ts";
import type { Administration, AgentDefinition, AgentFields } from "../platform/index.ts";
import type { Io } from "./io.ts";
import { exitCodes } from "./io.ts";
import { listing } from "./text.ts";

export interface PlatformCommandOptions extends AgentOptions {
  readonly what?: "agent";
  readonly config?: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly publicUrl?: string;
  readonly allowPrivateWebhooks?: boolean;
}

export async function run(options: PlatformCommandOptions, io: Io): Promise<number> {
  const { newerFile } = await import("../platform/index.ts");
  try {
    return await (options.what === "agent" ? administer(options, io) : serve(options, io));
  } catch (error) {
    if ((error as { readonly code?: string }).code !== newerFile) throw error;
    io.err((error as Error).message);
    return exitCodes.newerSchema;
  }
}

async function serve(options: PlatformCommandOptions, io: Io): Promise<number> {
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
  io.onCrash((error) => log.error({ err: error }, "uncaught exception"));
  const platform = await startPlatform({
    file: resolve(io.cwd, options.database),
    listen: options.listen,
    agents,
    clock,
    log,
    ...(options.publicUrl === undefined ? {} : { publicUrl: options.publicUrl }),
    allowPrivateWebhooks: options.allowPrivateWebhooks ?? false,
  });
  log.info({ url: platform.url }, "platform listening");
  await new Promise<void>((stop) => {
    if (io.signal.aborted) stop();
    io.signal.addEventListener("abort", () => stop(), { once: true });
  });
  await platform.close();
  log.info({}, "stopped");
  return exitCodes.ok;
}

export interface AgentOptions {
  readonly database: string;
  readonly action?: "create" | "update" | "rotate-key" | "list";
  /** The agent's name or id. */
  readonly agent?: string;
  readonly from?: string;
  readonly status?: "active" | "inactive" | "draft";
  readonly publicName?: string;
  readonly instructions?: string;
  readonly json?: boolean;
}

export async function administer(options: AgentOptions, io: Io): Promise<number> {
  const { action, agent } = options;
  if (action === undefined || (agent === undefined && action !== "list")) {
    io.err("platform agent needs create, update or rotate-key and an agent, or list");
    return exitCodes.usage;
  }
  const { openAdministration } = await import("../platform/index.ts");
  let fields: AgentFields;
  try {
    fields = await fieldsOf(options, io);
  } catch (error) {
    io.err(error instanceof Error ? error.message : String(error));
    return exitCodes.config;
  }
  const database = resolve(io.cwd, options.database);
  // Opening creates the file. Every action except `create` requires an existing one.
  if (action !== "create" && !existsSync(database)) {
    io.err(`there is no platform's file ${database} (name it with --database)`);
    return exitCodes.failed;
  }
  const administration = openAdministration(database, clock);
  try {
    if (agent === undefined || action === "list") list(administration, options, io);
    else if (action === "update") tell(administration.update(agent, fields), options, io);
    else if (action === "rotate-key") tell(administration.rotateKey(agent), options, io);
    else tell(administration.create({ ...fields, name: agent }), options, io);
  } finally {
    administration.close();
  }
  return exitCodes.ok;
}

/** Reads a YAML file of agents. Rejects with the file's name and a fix when it cannot be read. */
export async function readAgentFile(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT")
      throw new Error(`${file}: there is no such file (correct the path)`, { cause: error });
    if (code === "EISDIR")
      throw new Error(`${file}: is a directory (name the YAML file in it)`, { cause: error });
    throw new Error(`${file}: cannot be read (${code}) (let this user read it)`, { cause: error });
  }
}

async function fieldsOf(
  { from, status, publicName, instructions }: AgentOptions,
  io: Io,
): Promise<AgentFields> {
  const { readFields } = await import("../platform/index.ts");
  const written = from === undefined ? {} : readFields(await readAgentFile(resolve(io.cwd, from)), from);
  return {
    ...written,
    ...(status === undefined ? {} : { status }),
    ...(publicName === undefined ? {} : { public_name: publicName }),
    ...(instructions === undefined ? {} : { instructions }),
  };
}

/** Prints the key once, on its own line: the database contains only its hash. */
function tell(done: { readonly id: string; readonly key?: string }, { json }: AgentOptions, io: Io): void {
  if (json) return io.out(JSON.stringify(done));
  io.err(done.key === undefined ? `${done.id}: changed` : `${done.id}: its key, which is not shown again:`);
  if (done.key !== undefined) io.out(done.key);
}

function list(administration: Administration, { json }: AgentOptions, io: Io): void {
  const agents = administration.list();
  if (json) return io.out(JSON.stringify(agents));
  if (agents.length === 0) return io.out("nothing");
  const rows = agents.map(({ id, name, from, key }) => [id, name, from, key]);
  const columns = [{ head: "ID" }, { head: "NAME" }, { head: "FROM" }, { head: "KEY" }];
  io.out(listing(columns, rows, io));
}
