// bridgehead check: validates the configuration and, with --online, probes everything that it names. Sends
// nothing.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { loadAdapter } from "../channels/loader.ts";
import { type Config, loadConfig, maskSecrets, type Problem } from "../config/index.ts";
import { readAgents } from "../platform/index.ts";
import { exitCodes } from "./exit-codes.ts";
import type { Io } from "./io.ts";
import { type Finding, probeAll } from "./probes.ts";
import { problemLine } from "./problem.ts";

export interface CheckOptions {
  readonly config: string;
  readonly online?: boolean;
  readonly json?: boolean;
}

export async function run(options: CheckOptions, io: Io): Promise<number> {
  const loaded = await loadConfig(resolve(io.cwd, options.config), {
    env: io.env,
    adapters: loadAdapter,
    folderExists: existsSync,
  });
  const print = options.json === true ? () => undefined : io.out;
  const warnings = loaded.ok ? [...loaded.warnings, ...nobodyTold(loaded.config)] : loaded.warnings;
  for (const warning of warnings) print(`warning: ${problemLine(warning)}`);
  const problems = loaded.ok ? await agentsProblems(loaded.config) : loaded.problems.map(problemLine);
  let findings: readonly Finding[] = [];
  let code: number = exitCodes.ok;
  if (problems.length > 0 || !loaded.ok) {
    for (const problem of problems) print(problem);
    print(`${problems.length} ${problems.length === 1 ? "problem" : "problems"}`);
    code = exitCodes.config;
  } else {
    const { channels, file } = loaded.config;
    print(`${file}: ok, ${channels.length} ${channels.length === 1 ? "channel" : "channels"}`);
    if (options.online === true) {
      findings = await probeAll(loaded.config, io.signal, (finding) => print(findingLine(finding)));
      code = worst(findings);
    }
  }
  if (options.json === true) {
    const problemsOut = loaded.ok ? problems : loaded.problems;
    io.out(
      JSON.stringify({
        ok: code === exitCodes.ok,
        problems: problemsOut,
        warnings,
        checks: findings,
        ...(loaded.ok && { config: maskSecrets(loaded.config) }),
      }),
    );
  }
  return code;
}

const findingLine = ({ subject, state, message, fix }: Finding): string =>
  `${state.padEnd(11)} ${subject}: ${message}${fix === undefined ? "" : ` (${fix})`}`;

/** Warns when no responders are configured. This is not an error, because the agent may never need a
 *  human, but the operator should know before an escalation occurs. */
function nobodyTold({ escalation, file }: Config): readonly Problem[] {
  if (escalation !== null) return [];
  const message = "is missing: when the agent cannot or must not answer, nobody is told";
  return [
    {
      file,
      line: 0,
      column: 0,
      key: "escalation",
      message,
      fix: "say who is, and see bridgehead policy test",
    },
  ];
}

/** Checks the separate file with the embedded platform's agents. */
async function agentsProblems({ platform }: Config): Promise<readonly string[]> {
  if (platform.embedded === undefined) return [];
  const path = platform.embedded.agents;
  try {
    readAgents(await readFile(path, "utf8"), path);
    return [];
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return code === undefined ? message.split("\n") : [`${path}: cannot be read (${code})`];
  }
}

function worst(findings: readonly Finding[]): number {
  if (findings.some(({ state }) => state === "newer")) return exitCodes.newerSchema;
  if (findings.some(({ state }) => state === "failed")) return exitCodes.failed;
  return findings.some(({ state }) => state === "unreachable") ? exitCodes.unreachable : exitCodes.ok;
}
