// Starts the command line as its own process, the way a shell would.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify, stripVTControlCharacters } from "node:util";
import { expect, onTestFinished } from "vitest";

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

// A command in a pseudo-terminal, as an operator uses it: `script` of util-linux connects it to two pipes.

export interface Terminal {
  /** Resolves when the text is on the screen, below what earlier calls have seen. */
  sees(text: string): Promise<void>;
  /** Types a line and Enter. */
  enter(text: string): void;
  /** Types keys: `"\x03"` is Ctrl-C. */
  press(keys: string): void;
  /** Everything that was printed. */
  screen(): string;
  /** Resolves with the exit code. */
  readonly ended: Promise<number | null>;
}

/** Starts `bridgehead ...` in `folder`. */
export function openTerminal(
  folder: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Terminal {
  const words = [process.execPath, "--conditions=source", `${root}src/main.ts`, ...args];
  const command = words.map((word) => `'${word}'`).join(" ");
  const child = spawn("script", ["-q", "-e", "-c", `stty rows 50 cols 200 && exec ${command}`, "/dev/null"], {
    cwd: folder,
    env: { ...childEnv, HOME: folder, TERM: "xterm", SHELL: "/bin/sh", ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  let printed = "";
  let seen = 0;
  child.stdout.on("data", (chunk: Buffer) => (printed += chunk.toString()));
  const screen = () => stripVTControlCharacters(printed);
  return {
    async sees(text) {
      await expect.poll(() => screen().slice(seen), { timeout: 60_000 }).toContain(text);
      seen = screen().indexOf(text, seen) + text.length;
    },
    enter: (text) => void child.stdin.write(`${text}\r`),
    press: (keys) => void child.stdin.write(keys),
    screen,
    ended: once(child, "exit").then(([code]) => code as number | null),
  };
}

// A folder that is the root of a chroot: a machine with a few programs and nothing else.

const run = promisify(execFile);

/** Copies programs and the shared libraries that they need. `programs`: path in the machine -> path here. */
export async function installPrograms(
  machine: string,
  programs: Readonly<Record<string, string>>,
): Promise<void> {
  for (const [path, source] of Object.entries(programs)) {
    const { stdout } = await run("ldd", [source]);
    for (const [library] of stdout.matchAll(/\/\S+/g)) copy(library, join(machine, library));
    copy(source, join(machine, path));
    chmodSync(join(machine, path), 0o755);
  }
}

function copy(from: string, to: string): void {
  if (existsSync(to)) return;
  mkdirSync(dirname(to), { recursive: true });
  copyFileSync(from, to);
}

/** Why a chroot is impossible here; null when it is possible. */
export const noChroot =
  process.getuid?.() === 0 && existsSync("/usr/sbin/chroot") ? null : "root and chroot are needed";

/** The configuration of a daemon that becomes ready without any account: calls are answered on its own port. */
export const phoneConfig = (listen: string, admin: string) => ({
  platform: { url: "http://127.0.0.1:9" },
  agents: { support: { key: "${env:KEY}" } },
  channels: {
    calls: { adapter: "voice", agent: "support", dialect: "twilio", auth_tokens: ["${env:TOKEN}"] },
  },
  http: { listen, admin_listen: admin, public_url: "https://bridge.example.com" },
});
export const phoneSecrets = { KEY: "key", TOKEN: "0123456789abcdef0123456789abcdef" };
