// Maps argv to a command. Only this module ends the process and accesses process globals outside a command.
// Native modules are imported after the Node.js version check.

import { exitCodeOf, exitCodes, forStandardError, type Io, packageVersion } from "./commands/io.ts";

const floor = [22, 19] as const;

function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > floor[0] || (major === floor[0] && minor >= floor[1]);
}

const crashListeners: ((error: unknown) => boolean)[] = [];

const complain = (text: string): void => {
  process.stderr.write(forStandardError(text.endsWith("\n") ? text : `${text}\n`, process.env));
};

function crash(error: unknown): void {
  if (crashListeners.some((listener) => listener(error))) return;
  if (crashListeners.length === 0)
    complain(`bridgehead: a defect: ${error instanceof Error ? error.stack : JSON.stringify(error)}`);
  process.exit(exitCodes.crashed);
}

/** The first signal aborts the returned signal, the second one ends the process. Replaces the launcher's
 *  handler for the time of loading. */
function interruption(): AbortSignal {
  const abort = new AbortController();
  process.removeAllListeners("SIGTERM");
  for (const [name, number] of [
    ["SIGTERM", 15],
    ["SIGINT", 2],
  ] as const) {
    process.on(name, () => {
      if (abort.signal.aborted) process.exit(128 + number);
      abort.abort();
    });
  }
  return abort.signal;
}

function surroundings(): Omit<Io, "timing"> {
  const lines = (stream: NodeJS.WriteStream) => (text: string) => {
    stream.write(text.endsWith("\n") ? text : `${text}\n`);
  };
  // A closed pipe (`| head`) needs no message; a full disk does.
  const failOutput = (error: NodeJS.ErrnoException): never => {
    if (error.code !== "EPIPE") complain(`bridgehead: writing the output: ${error.message}`);
    process.exit(exitCodes.failed);
  };
  for (const stream of [process.stdout, process.stderr]) stream.on("error", failOutput);
  return {
    out: lines(process.stdout),
    write: (bytes) => void process.stdout.write(bytes),
    err: complain,
    env: process.env,
    signal: interruption(),
    cwd: process.cwd(),
    interactive: process.stdin.isTTY,
    terminal: process.stderr.isTTY,
    draw: (line) => void process.stderr.write(`\r\x1b[K${line}`),
    ...(process.stdout.isTTY ? { screen: screenOf(process.stdout) } : {}),
    onHangup: (listener) => process.on("SIGHUP", listener),
    onCrash: (listener) => crashListeners.push(listener),
    onExit: (listener) => process.on("exit", listener),
  };
}

/** NO_COLOR with any value turns colours off (no-color.org). */
function screenOf(stream: NodeJS.WriteStream): NonNullable<Io["screen"]> {
  const { NO_COLOR = "", TERM } = process.env;
  return { columns: stream.columns || 80, color: NO_COLOR === "" && TERM !== "dumb" };
}

/** SIGHUP: until the daemon handles it; it reads its configuration later. SIGUSR2: as SIGHUP, its default action would end the
 *  process. SIGUSR1: Node would open its debugger, without authentication, to every account of the machine. */
function surviveSignals(): void {
  const command = process.argv[2];
  if (command !== "run" && command !== "platform") return;
  for (const name of ["SIGUSR1", "SIGUSR2"] as const) process.on(name, () => undefined);
  if (command === "run") process.on("SIGHUP", () => undefined);
}

async function main(): Promise<number> {
  const io = surroundings();
  const { runProgram } = await import("./commands/program.ts");
  try {
    return await runProgram(process.argv.slice(2), io, packageVersion());
  } catch (error) {
    const { code, exitCode } = error as { code?: string; exitCode?: number };
    // commander has already printed the help, the version or the usage error.
    if (code?.startsWith("commander.")) return exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    io.err(`bridgehead: ${error instanceof Error ? error.message : JSON.stringify(error)}`);
    return exitCodeOf(error);
  }
}

/** Waits for what the stream has not written. When nothing waits, nothing is written: a log that cannot be written is no
 *  failure of the command. An error of an earlier write is reported first. */
const flushed = (stream: NodeJS.WriteStream): Promise<void> =>
  new Promise((resolve) => {
    if (stream.writableLength === 0) setImmediate(resolve);
    else stream.write("", () => resolve());
  });

if (isSupported(process.versions.node)) {
  surviveSignals();
  process.on("uncaughtException", crash);
  process.on("unhandledRejection", crash);
  const code = await main();
  await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
  process.exit(code);
} else {
  complain(`bridgehead needs Node.js ${floor.join(".")} or newer; this is ${process.versions.node}`);
  process.exit(exitCodes.oldNode);
}
