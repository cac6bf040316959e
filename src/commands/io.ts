// The process environment of a command. Commands access nothing else of the process, so tests run them
// in-process.

import { isJournal, withErrorPriority } from "../ops/systemd.ts";

export interface Io {
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
  /** Called at every SIGHUP. Without a listener SIGHUP ends the process. */
  onHangup(listener: () => void): void;
  /** Called with an uncaught error, just before the process ends with `exitCodes.crashed`. Must not
   *  throw. */
  onCrash(listener: (error: unknown) => void): void;
}

/** Every command file in src/commands exports this interface. */
export interface Command<Options> {
  /** Resolves to the exit code. An error that it throws is printed as one line, and `exitCodeOf` maps it
   *  to a code. */
  run(options: Options, io: Io): Promise<number>;
}

/** Formats text for standard error: with journal priorities when the stream belongs to the journal. */
export const forStandardError = (text: string, env: Io["env"]): string =>
  isJournal(env["JOURNAL_STREAM"], 2) ? withErrorPriority(text) : text;
