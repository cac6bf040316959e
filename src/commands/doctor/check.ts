// bridgehead check: validates the configuration without any connection. `bridgehead doctor` contains this check.
// bridgehead schema: prints the configuration's JSON Schema, for editors.

import { accessSync, constants, existsSync } from "node:fs";
import { resolve } from "node:path";
import { builtIn, loadAdapter } from "../../channels/loader.ts";
import { type Config, jsonSchema, loadConfig, maskSecrets, type Problem } from "../../config/index.ts";
import { commandText } from "../../domain/command-text.ts";
import { counted } from "../../domain/duration-text.ts";
import { isMountedReadOnly } from "../../ops/private-file.ts";
import { type CommandOptions, credentialsFor, exitCodes, type Io, problemLine } from "../io.ts";
import { readEmbeddedAgents } from "../run.ts";

/** The file system as this process may use it. */
export const disk = {
  exists: existsSync,
  isMountedReadOnly,
  isWritable: (path: string): boolean => {
    try {
      accessSync(path, constants.W_OK);
      return true;
    } catch {
      return false;
    }
  },
};

export async function checkConfig(options: CommandOptions, io: Io): Promise<number> {
  const path = resolve(io.cwd, options.config);
  const loaded = await loadConfig(path, { env: io.env, adapters: loadAdapter, disk, ...credentialsFor(path, io.env) });
  const print = options.json === true ? () => undefined : io.out;
  const warnings = loaded.ok ? [...loaded.warnings, ...withoutResponders(loaded.config)] : loaded.warnings;
  for (const warning of warnings) print(`warning: ${problemLine(warning)}`);
  const problems = loaded.ok ? await agentsProblems(loaded.config) : loaded.problems;
  let code: number = exitCodes.ok;
  if (problems.length > 0 || !loaded.ok) {
    for (const problem of problems) print(problemLine(problem));
    print(counted(problems.length, "problem"));
    code = exitCodes.config;
  } else {
    const { channels, file } = loaded.config;
    print(`${file}: ok, ${counted(channels.length, "channel")}`);
  }
  if (options.json === true) {
    io.out(
      JSON.stringify({
        ok: code === exitCodes.ok,
        problems,
        warnings,
        ...(loaded.ok && { config: maskSecrets(loaded.config) }),
      }),
    );
  }
  return code;
}

/** Warns when no responders are configured. This is not an error, because the agent may never need a human, but the operator
 *  should know before an escalation occurs. */
export function withoutResponders({ escalation, file }: Config): readonly Problem[] {
  if (escalation !== null) return [];
  const message = "is missing: when the agent cannot or must not answer, no responder is notified";
  const fix = `add the key escalation, and try it with: ${commandText("policy test", file)}`;
  return [{ file, line: 0, column: 0, key: "escalation", message, fix }];
}

export async function agentsProblems(config: Config): Promise<readonly Problem[]> {
  return config.platform.embedded === undefined ? [] : (await readEmbeddedAgents(config)).problems;
}

export async function printSchema(_options: object, io: Io): Promise<number> {
  const adapters = await Promise.all(builtIn.map(async (name) => [name, await loadAdapter(name, io.cwd)] as const));
  io.out(JSON.stringify(jsonSchema(Object.fromEntries(adapters)), null, 2));
  return exitCodes.ok;
}
