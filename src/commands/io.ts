// What a command gets and returns: the process environment, the exit codes, the format of problems. Commands access
// nothing else of the process, so tests run them in-process.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Channel, Log } from "bridgehead/contract";
import type { Problem } from "../config/index.ts";
import { defaultConfig } from "../domain/command-text.ts";
import { systemClock } from "../ops/clock.ts";
import { isJournal, withErrorPriority } from "../ops/systemd.ts";
import type { Timing } from "../ops/timing.ts";
import type { RowFilter } from "../store/operators/outbox.ts";

export interface Io {
  /** The durations of the command; tests pass others. */
  readonly timing: Timing;
  /** One or more lines to standard output; the last line end is added when missing. */
  readonly out: (text: string) => void;
  /** Bytes to standard output, unchanged. */
  readonly write: (bytes: Uint8Array) => void;
  /** One or more lines to standard error; in the journal they have the priority `err`. */
  readonly err: (text: string) => void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts at SIGTERM or SIGINT: the command finishes its work and returns. A second signal ends the
   *  process at once. */
  readonly signal: AbortSignal;
  readonly cwd: string;
  /** Lines from the operator; default: standard input. */
  readonly input?: NodeJS.ReadableStream;
  /** True when standard input is a terminal. */
  readonly interactive: boolean;
  /** True when standard error is a terminal. */
  readonly terminal: boolean;
  /** Replaces the current line of the terminal on standard error; an empty text removes it. Absent in tests. */
  readonly draw?: (line: string) => void;
  /** Present when standard output is a terminal: its width in columns, and whether colours are wanted. */
  readonly screen?: { readonly columns: number; readonly color: boolean };
  /** Called at every SIGHUP. Without a listener SIGHUP ends the process. */
  onHangup(listener: () => void): void;
  /** Called with an uncaught error. The process ends with `exitCodes.crashed`, unless the listener returns true. Must not throw. */
  onCrash(listener: (error: unknown) => boolean): void;
  /** Called just before the process ends, however it does except by SIGKILL: also when the reader of its output has gone, and at
   *  a second signal. Must not throw. */
  onExit(listener: () => void): void;
}

/** What a request of a command needs. */
export type Requesting = Pick<Io, "signal" | "timing">;

/** Aborts with the command, and after `commands.probe`. */
export const probeLimit = ({ signal, timing }: Requesting): AbortSignal =>
  AbortSignal.any([signal, AbortSignal.timeout(timing.commands.probe)]);

/** The package's own version; this file is at src/commands/ in a checkout and at dist/src/commands/ in a package. */
export function packageVersion(): string {
  const depth = import.meta.url.endsWith(".ts") ? "../.." : "../../..";
  const text = readFileSync(new URL(`${depth}/package.json`, import.meta.url), "utf8");
  return (JSON.parse(text) as { version: string }).version;
}

/** The folder that the packages create for the service, whose secrets only root reads. */
export const serviceFolder = dirname(defaultConfig);
export const isService = (config: string): boolean => dirname(config) === serviceFolder;
export const secretsFolder = (config: string): string => join(dirname(config), "secrets");

/** Where a command reads the credentials of the configuration at `path`: for root those of the service, as systemd would
 *  give them to it. */
export const credentialsFor = (path: string, env: Io["env"]): { readonly credentialsDirectory?: string } =>
  env["CREDENTIALS_DIRECTORY"] === undefined && isService(path) && process.getuid?.() === 0
    ? { credentialsDirectory: secretsFolder(path) }
    : {};

/** Options of every command that reads the configuration. */
export interface CommandOptions {
  readonly config: string;
  readonly json?: boolean;
}

export type ListOptions = CommandOptions & RowFilter;

/** A command of the command line. Resolves to the exit code. An error that it throws is printed as one line, and
 *  `exitCodeOf` maps it to a code. */
export type Command<Options> = (options: Options, io: Io) => Promise<number>;

/** Discards log records, for commands whose output contains the result. */
export const silentLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** A channel for an adapter that is used outside the daemon: it stores nothing, and reports nothing. */
export const standInChannel = (id: Channel["id"], adapter: string, { timing }: Pick<Io, "timing">): Channel => ({
  id,
  log: silentLog,
  clock: systemClock,
  timing: timing.adapters[adapter] ?? {},
  url: (path) => new URL(`http://127.0.0.1/channels/${id}${path}`),
  accept: () => Promise.reject(new Error("nothing is accepted outside the daemon")),
  unconfirmed: async () => [],
  addresses: async () => [],
  known: async () => new Set(),
  session: async () => null,
  agent: () => null,
  identity: async () => ({ since: new Date(), mark: "check00000", ownerOf: () => "foreign" as const }),
  secrets: { read: async () => null, write: async () => undefined },
  report: () => undefined,
  warn: () => undefined,
});

/** Ends a command with an exit code. Every line of the message is printed to standard error, without a prefix. */
export class CommandFailure extends Error {
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Throws a `CommandFailure`. The code is `failed` unless another is given. */
export function fail(message: string, exitCode: number = exitCodes.failed): never {
  throw new CommandFailure(message, exitCode);
}

/** Runs a command, prints its failure and returns its exit code. */
export async function runCommand<Options>(command: Command<Options>, options: Options, io: Io): Promise<number> {
  try {
    return await command(options, io);
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    for (const line of error.message.split("\n")) io.err(line);
    return error.exitCode;
  }
}

export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });

/** Formats text for standard error: with journal priorities when the stream belongs to the journal. */
export const forStandardError = (text: string, env: Io["env"]): string =>
  isJournal(env["JOURNAL_STREAM"], 2) ? withErrorPriority(text) : text;

/** The exit codes of the process. The unit file, the manual and the tests read this table. */
export const exitCodes = {
  ok: 0,
  /** The command failed and has printed the reason. */
  failed: 1,
  /** The command line is wrong. */
  usage: 2,
  /** The store was written by a newer version (EX_DATAERR). A restart does not help. */
  newerSchema: 65,
  /** A file of the store is damaged (EX_DATAERR). A restart does not help. */
  damagedStore: 65,
  /** `health`: the daemon did not answer (EX_UNAVAILABLE). A retry may succeed. */
  unreachable: 69,
  /** An internal error: an uncaught exception (EX_SOFTWARE). A restart is appropriate. */
  crashed: 70,
  /** There is no usable Node.js: too old, or it cannot be started (EX_OSERR). A restart does not help. */
  oldNode: 71,
  /** The configuration is wrong (EX_CONFIG). A restart does not help. */
  config: 78,
} as const;

const exitMeanings: Readonly<Record<keyof typeof exitCodes, string>> = {
  ok: "success",
  failed: "the command failed; the reason was printed",
  usage: "the command line is invalid",
  newerSchema: "the store was written by a newer version",
  damagedStore: "the store or the backup is damaged",
  unreachable: "the daemon did not answer (health)",
  crashed: "internal error; please report it",
  oldNode: "Node.js is missing or too old",
  config: "the configuration is invalid",
};

export function exitCodeMeanings(): ReadonlyMap<number, string> {
  const meanings = new Map<number, string>();
  for (const [name, meaning] of Object.entries(exitMeanings)) {
    const code = exitCodes[name as keyof typeof exitCodes];
    const other = meanings.get(code);
    meanings.set(code, other === undefined ? meaning : `${other}, or ${meaning}`);
  }
  return meanings;
}

/** The table as `--help` shows it. */
export function exitCodeHelp(): string {
  const lines = [...exitCodeMeanings()].map(([code, meaning]) => `  ${String(code).padEnd(4)}${meaning}`);
  return `\nExit codes:\n${lines.join("\n")}`;
}

/** Returns the exit code for an error that a command threw. main.ts calls it for errors at the top level. Errors are
 *  recognized by name or code, because this table is loaded before anything native may be imported. */
export function exitCodeOf(error: unknown): number {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    if (at.name === "NewerSchema" || (at as { code?: string }).code === "PLATFORM_FILE_NEWER")
      return exitCodes.newerSchema;
    if ((at as { code?: string }).code === "STORE_DAMAGED") return exitCodes.damagedStore;
  }
  return exitCodes.failed;
}

/** `file:line:column key: message (fix)` */
export function problemLine({ file, line, column, key, message, fix }: Problem): string {
  const place = line === 0 ? file : `${file}:${line}:${column}`;
  return `${place}${key === "" ? "" : ` ${key}`}: ${message} (${fix})`;
}
