// What a command is given of the process around it. Commands touch nothing else of it, so tests run them in-process.

export interface Io {
  /** One or more lines to standard output; the last line end is added when missing. */
  readonly out: (text: string) => void;
  /** Bytes to standard output, as they are. */
  readonly write: (bytes: Uint8Array) => void;
  /** One or more lines to standard error. */
  readonly err: (text: string) => void;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts at SIGTERM or SIGINT: end what you do, then return. A second signal ends the process at once. */
  readonly signal: AbortSignal;
  readonly cwd: string;
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
  /** Resolves to the exit code. What it throws is printed as one line and ends in `exitCodes.failed`. */
  run(options: Options, io: Io): Promise<number>;
}
