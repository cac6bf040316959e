// Starts the command line as its own process, the way a shell would.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../..", import.meta.url));
export const launcher = `${root}bin/bridgehead.cjs`;
/** The system's own Node.js, if there is one: older than ours on many machines. */
export const systemNode = ["/usr/bin/node", "/usr/local/bin/node"].find((path) => existsSync(path));

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

export function start(node: string, args: readonly string[], env: Record<string, string> = {}) {
  let child: ReturnType<typeof execFile>;
  const ended = new Promise<Ended>((resolve) => {
    const options = {
      env: { PATH: process.env["PATH"] ?? "", HOME: "/nonexistent", ...env },
      timeout: 60_000,
    };
    child = execFile(node, args, options, (_error, out, err) => {
      resolve({ code: child.exitCode, signal: child.signalCode, out, err });
    });
  });
  return { child: child!, ended };
}

/** The environment of a process of ours. With the code that earlier ones have compiled, its start takes half the CPU time. */
export const childEnv: Readonly<Record<string, string>> = {
  PATH: process.env["PATH"] ?? "",
  NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "",
};

/** `bridgehead ...` under the Node.js that runs the tests. */
export const bridgehead = (args: readonly string[], env?: Record<string, string>): Promise<Ended> =>
  start(process.execPath, ["--conditions=source", `${root}src/main.ts`, ...args], { ...childEnv, ...env })
    .ended;
