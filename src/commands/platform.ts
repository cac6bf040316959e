// bridgehead platform: runs the embedded platform alone, from its file of agents, until SIGTERM. `platform
// agent ...` changes its agents in parallel.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { systemClock as clock } from "../ops/clock.ts";
import { createLog, LogOutput } from "../ops/log.ts";
import { isJournal } from "../ops/systemd.ts";
import type { Administration, AgentFields } from "../platform/index.ts";
import { startLocked } from "../store/sqlite/lock.ts";
import { aborted, exitCodes, fail, type Io } from "./io.ts";
import { type ListColumn, printList } from "./text.ts";

interface PlatformCommandOptions {
  readonly what?: "agent";
  readonly config?: string;
  readonly listen: { readonly host: string; readonly port: number };
  readonly publicUrl?: string;
  readonly allowPrivateWebhooks?: boolean;
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

export async function platform(options: PlatformCommandOptions, io: Io): Promise<number> {
  const { newerFile } = await import("../platform/index.ts");
  try {
    return await (options.what === "agent" ? administer(options, io) : serve(options, io));
  } catch (error) {
    if ((error as { readonly code?: string }).code !== newerFile) throw error;
    return fail((error as Error).message, exitCodes.newerSchema);
  }
}

async function serve(options: PlatformCommandOptions, io: Io): Promise<number> {
  const { config } = options;
  if (config === undefined)
    return fail("platform needs --config, a file of agents (docs/platform.md describes it)", exitCodes.usage);
  const { readAgents, startPlatform } = await import("../platform/index.ts");
  const agents = await readable(async () => readAgents(await readAgentFile(resolve(io.cwd, config)), config));
  const log = createLog({
    level: "info",
    format: "auto",
    out: new LogOutput(io.timing.upkeep),
    clock,
    journal: isJournal(io.env["JOURNAL_STREAM"], 2),
  });
  io.onCrash((error) => {
    log.error({ err: error }, "uncaught exception");
    return false;
  });
  const file = resolve(io.cwd, options.database);
  const running = await startLocked(file, () =>
    startPlatform({
      file,
      listen: { ...options.listen, setting: "--listen" },
      agents,
      clock,
      log,
      ...(options.publicUrl === undefined ? {} : { publicUrl: options.publicUrl }),
      allowPrivateWebhooks: options.allowPrivateWebhooks ?? false,
    }),
  );
  log.info({ url: running.url }, "platform listening");
  await aborted(io.signal);
  await running.close();
  log.info({}, "stopped");
  return exitCodes.ok;
}

async function administer(options: PlatformCommandOptions, io: Io): Promise<number> {
  const { action, agent } = options;
  if (action === undefined || (agent === undefined && action !== "list"))
    fail("platform agent needs create, update or rotate-key and an agent, or list", exitCodes.usage);
  const { Administration } = await import("../platform/index.ts");
  const fields = await readable(() => fieldsOf(options, io));
  const database = resolve(io.cwd, options.database);
  // Opening creates the file. Every action except `create` requires an existing one.
  if (action !== "create" && !existsSync(database))
    fail(`there is no platform database ${database} (name it with --database)`);
  const administration = new Administration(database, clock);
  try {
    if (agent === undefined || action === "list") printList(administration.list(), columns, options, io);
    else if (action === "update") print(administration.update(agent, fields), options, io);
    else if (action === "rotate-key") print(administration.rotateKey(agent), options, io);
    else print(administration.create({ ...fields, name: agent }), options, io);
  } finally {
    administration.close();
  }
  return exitCodes.ok;
}

/** Fails when a file of agents, or its content, is wrong. */
async function readable<T>(read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error), exitCodes.config);
  }
}

/** Reads a YAML file of agents. Rejects with the file's name and a fix when it cannot be read. */
async function readAgentFile(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") throw new Error(`${file}: there is no such file (correct the path)`, { cause: error });
    if (code === "EISDIR") throw new Error(`${file}: is a directory (name the YAML file in it)`, { cause: error });
    throw new Error(`${file}: cannot be read (${code}) (let this user read it)`, { cause: error });
  }
}

async function fieldsOf(
  { from, status, publicName, instructions }: PlatformCommandOptions,
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
function print(done: { readonly id: string; readonly key?: string }, { json }: PlatformCommandOptions, io: Io): void {
  if (json) return io.out(JSON.stringify(done));
  io.err(done.key === undefined ? `${done.id}: changed` : `${done.id}: its key, which is not shown again:`);
  if (done.key !== undefined) io.out(done.key);
}

const columns: readonly ListColumn<ReturnType<Administration["list"]>[number]>[] = [
  { head: "ID", cell: ({ id }) => id },
  { head: "NAME", cell: ({ name }) => name },
  { head: "FROM", cell: ({ from }) => from },
  { head: "KEY", cell: ({ key }) => key },
];
