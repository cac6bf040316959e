// What a command is given of the process around it. Commands touch nothing else of it, so tests run them in-process.

import { isJournal, withErrorPriority } from "../ops/notify.ts";

export interface Io {
  /** One or more lines to standard output; the last line end is added when missing. */
  readonly out: (text: string) => void;
  /** Bytes to standard output, as they are. */
  readonly write: (bytes: Uint8Array) => void;
  /** One or more lines to standard error; in the journal they have the priority `err`. */
  readonly err: (text: string) => void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts at SIGTERM or SIGINT: end what you do, then return. A second signal ends the process at once. */
  readonly signal: AbortSignal;
  readonly cwd: string;
  /** Lines that the operator types; absent: standard input. */
  readonly input?: NodeJS.ReadableStream;
  /** A person sits at standard input. */
  readonly interactive: boolean;
  /** Standard error is a terminal. */
  readonly terminal: boolean;
  /** Called at every SIGHUP. Without a listener SIGHUP ends the process. */
  onHangup(listener: () => void): void;
  /** Called with what nobody caught, just before the process ends with `exitCodes.crashed`. Must not throw. */
  onCrash(listener: (error: unknown) => void): void;
}

/** Every file in src/commands that is a command exports this. */
export interface Command<Options> {
  /** Resolves to the exit code. What it throws is printed as one line, and `exitCodeOf` maps it to a code. */
  run(options: Options, io: Io): Promise<number>;
}

/** The text as main.ts writes it to standard error: with journal priorities where that is the journal's stream. */
export const forStandardError = (text: string, env: Io["env"]): string =>
  isJournal(env["JOURNAL_STREAM"], 2) ? withErrorPriority(text) : text;
