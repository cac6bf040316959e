// Commands: as processes of their own, the way a shell starts them, and in the process of the test.

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { finished } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { promisify, stripVTControlCharacters } from "node:util";
import { expect, onTestFinished } from "vitest";
import { exitCodes, type Io, packageVersion } from "../../../src/commands/io.ts";
import { standardTiming } from "../../../src/ops/timing.ts";
import { eventually } from "../clock.ts";
import type { Finished, MailDaemon } from "../daemon/mail-daemon.ts";

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

/** The environment of a process under test. The compile cache of earlier ones halves the CPU time of its start. */
export const childEnv: Readonly<Record<string, string>> = {
  PATH: process.env["PATH"] ?? "",
  NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? "",
};

/** `bridgehead ...` under the Node.js that runs the tests. */
export const bridgehead = (args: readonly string[], env?: Record<string, string>): Promise<Ended> =>
  start(process.execPath, ["--conditions=source", `${root}src/main.ts`, ...args], { ...childEnv, ...env }).ended;

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
      await expect.poll(() => screen().slice(seen)).toContain(text);
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
export async function installPrograms(machine: string, programs: Readonly<Record<string, string>>): Promise<void> {
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

// The real daemon of a test, as its own process, and the lines of its log.

export interface Line {
  readonly level: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

export interface LoggedDaemon {
  /** The lines in which `word` occurs as a word: `grep -w word`. */
  grep(word: string): Line[];
  lines(): Line[];
  text(): string;
}

/** Starts the program on the configuration of the test, with its log in a file. `keys` are added to the configuration,
 *  `node` to the options of Node.js. */
export async function startDaemon(
  daemon: MailDaemon,
  finish: Finished,
  { keys = {}, node = [] }: { readonly keys?: object; readonly node?: readonly string[] } = {},
): Promise<LoggedDaemon> {
  const { file } = await daemon.config();
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, "utf8")) as object), ...keys }));
  const child = spawn(
    process.execPath,
    [...node, "--conditions=source", `${root}src/main.ts`, "run", "--config", file],
    { env: { ...childEnv, ...daemon.env }, stdio: ["ignore", "ignore", "pipe"] },
  );
  const logFile = `${file}.log`;
  const written = createWriteStream(logFile);
  child.stderr.pipe(written);
  finish(async () => {
    if (child.exitCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await ended;
    await finished(written);
  });
  const text = () => readFileSync(logFile, "utf8");
  const lines = () =>
    text()
      .split("\n")
      .filter((line) => line.endsWith("}"))
      .map((line) => JSON.parse(line) as Line);
  await eventually(() => expect(lines().map(({ message }) => message)).toContain("ready"));
  await eventually(() => expect(lines().map(({ message }) => message)).toContain("channel connected"));
  return {
    text,
    lines,
    grep: (word) =>
      text()
        .split("\n")
        .filter((line) => new RegExp(`\\b${word}\\b`).test(line))
        .map((line) => JSON.parse(line) as Line),
  };
}

export const messages = (lines: readonly Line[]): string[] => lines.map(({ message }) => message);

// The demo in this process.

/** Starts the demo without opening a browser. Resolves with the login link of its console when it is printed; the demo ends
 *  with the test. */
export async function startDemo(onTestFinished: (after: () => Promise<void>) => void) {
  let out = "";
  const abort = new AbortController();
  const io = commandIo({
    out: (text) => void (out += `${text}\n`),
    err: (text) => void (out += `${text}\n`),
    signal: abort.signal,
    cwd: root,
    interactive: true,
  });
  // Loaded here, because few tests need all of the program.
  const { runDemo } = await import("../../../src/commands/demo.ts");
  const ended = runDemo({ open: false }, io);
  const end = async (): Promise<number> => {
    abort.abort();
    return ended;
  };
  onTestFinished(async () => void (await end()));
  await expect.poll(() => out).toMatch(/http\S+\/login\/\S+/);
  return { url: /http\S+\/login\/\S+/.exec(out)?.[0] ?? "", out: () => out, end };
}

// What a command gets in a test that calls it in this process.

/** No terminal, no environment, no end: what a test does not name itself. */
export function commandIo(own: Pick<Io, "out" | "err"> & Partial<Io>): Io {
  return {
    timing: standardTiming,
    write: () => undefined,
    env: {},
    signal: new AbortController().signal,
    cwd: "/",
    interactive: false,
    terminal: false,
    onHangup: () => undefined,
    onCrash: () => undefined,
    onExit: () => undefined,
    ...own,
  };
}

/** `bridgehead ...` without a process of its own: the same command line, output and exit code. For tests of what a command
 *  does; `bridgehead` is for what the process does. */
export async function inProcess(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Pick<Ended, "out" | "err"> & { readonly code: number }> {
  const said = { out: "", err: "" };
  const line = (text: string) => (text.endsWith("\n") ? text : `${text}\n`);
  const io = commandIo({
    out: (text) => void (said.out += line(text)),
    err: (text) => void (said.err += line(text)),
    env,
    cwd: root,
  });
  // Loaded here, because few tests need all of the program.
  const { runProgram } = await import("../../../src/commands/program.ts");
  const code = await runProgram(args, io, packageVersion()).catch((error: unknown) => {
    if ((error as { code?: string }).code?.startsWith("commander.") === true) return exitCodes.usage;
    throw error;
  });
  return { ...said, code };
}
