// Logger: one line per entry, fields as columns, constant messages. JSON for machines, text for terminals,
// and journald priorities when the output goes to the journal.

import { writeSync } from "node:fs";
import type { Clock, Log, LogFields } from "bridgehead/contract";
import { pino, stdSerializers } from "pino";
import { after, pause } from "./clock.ts";
import type { Timing } from "./timing.ts";

export type Level = "debug" | "info" | "warn" | "error";

export interface LogOptions {
  readonly level: Level;
  /** auto: text on a terminal, JSON elsewhere. */
  readonly format: "auto" | "json" | "text";
  readonly out: {
    write(text: string): unknown;
    /** Called after a warning or an error: it may explain why the process ends. */
    flush?(): void;
    /** Returns the number of lines that were dropped since the last call. */
    dropped?(): number;
    readonly isTTY?: boolean;
  };
  readonly clock: Pick<Clock, "now">;
  /** True when `out` is connected to journald: each line starts with its priority (sd-daemon(3)). */
  readonly journal?: boolean;
}

export interface RunningLog extends Log {
  /** Changes the level at run time. */
  setLevel(level: Level): void;
  /** Sets the function that masks secrets in all later lines. */
  setMask(mask: (line: string) => string): void;
}

const priorities: Readonly<Record<string, string>> = { debug: "<7>", info: "<6>", warn: "<4>", error: "<3>" };

export function createLog(options: LogOptions): RunningLog {
  let mask = (line: string): string => line;
  const text = options.format === "text" || (options.format === "auto" && options.out.isTTY === true);
  const write = (json: string): void => {
    const lines = options.out.dropped?.() ?? 0;
    if (lines > 0) root.warn({ lines }, "log lines dropped: their reader had stalled");
    const level = /^\{"level":"(\w+)"/.exec(json)?.[1] ?? "info";
    const line = text ? textLine(JSON.parse(json) as Entry, options.out.isTTY === true) : json.trimEnd();
    const shown = level !== "debug" && mayNameAddress.test(line) ? maskAddresses(line) : line;
    const safe = mask(shown);
    options.out.write(options.journal === true ? `${safe.replace(/^/gm, priorities[level] ?? "")}\n` : `${safe}\n`);
    if (level === "error" || level === "warn") options.out.flush?.();
  };
  const root = pino(
    {
      level: options.level,
      base: null,
      messageKey: "message",
      timestamp: () => `,"time":"${new Date(options.clock.now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: serializeError, error: serializeError },
    },
    { write },
  );
  return {
    debug: (fields: LogFields, message) => root.debug(fields, message),
    info: (fields: LogFields, message) => root.info(fields, message),
    warn: (fields: LogFields, message) => root.warn(fields, message),
    error: (fields: LogFields, message) => root.error(fields, message),
    setLevel(level) {
      root.level = level;
    },
    setMask(next) {
      mask = next;
    },
  };
}

type OutputStream = Pick<NodeJS.WriteStream, "emit"> & { readonly fd: number; readonly isTTY?: boolean };

type LogTiming = Pick<Timing["upkeep"], "logFlush" | "logReader">;

/** Standard error of a daemon. Lines wait up to `Timing.upkeep.logFlush` and are written together: a message logs one line
 *  per hop, and a system call costs more than the line. Warnings and errors are written at once, with what waits. A reader
 *  that stalls, or a disk that is full, does not block the process: the rest waits in memory, up to a limit; lines above it
 *  are dropped and counted.
 *  Lines that wait when the process exits are written first; SIGKILL loses them. */
export class LogOutput {
  readonly isTTY: boolean;
  readonly #stream: OutputStream;
  readonly #timing: LogTiming;
  /** Interval at which a stalled reader is tried again, in milliseconds. */
  readonly #interval: number;
  /** Lines that wait for the next flush. */
  #lines = "";
  #cancelFlush: () => void = () => undefined;
  /** What the reader has not taken, oldest first. */
  #rest: Buffer[] = [];
  #restBytes = 0;
  readonly #mostBytes: number;
  #dropped = 0;

  constructor(timing: LogTiming, stream: OutputStream = process.stderr, mostBytes = 16_000_000) {
    this.#stream = stream;
    this.#mostBytes = mostBytes;
    this.#timing = timing;
    this.#interval = timing.logReader / 100;
    this.isTTY = stream.isTTY === true;
    process.on("exit", () => this.#end());
  }

  write(lines: string): void {
    if (this.#lines === "") this.#cancelFlush = after(this.#timing.logFlush, () => this.flush());
    this.#lines += lines;
  }

  /** Writes what waits as far as the reader takes it. A kill of the process does not lose what was written. */
  flush(): void {
    const isStalled = this.#rest.length > 0;
    this.#cancelFlush();
    if (this.#lines !== "") this.#keep(Buffer.from(this.#lines));
    this.#lines = "";
    if (!this.#writeRest() && !isStalled) this.#retry();
  }

  /** Returns 0 while the reader is stalled. */
  dropped(): number {
    if (this.#rest.length > 0) return 0;
    const lines = this.#dropped;
    this.#dropped = 0;
    return lines;
  }

  #keep(lines: Buffer): void {
    if (this.#restBytes > 0 && this.#restBytes + lines.length > this.#mostBytes) {
      this.#dropped += lines.reduce((count, byte) => (byte === newline ? count + 1 : count), 0);
      return;
    }
    this.#rest.push(lines);
    this.#restBytes += lines.length;
  }

  #retry(): void {
    after(this.#interval, () => {
      if (!this.#writeRest()) this.#retry();
    });
  }

  /** Returns false when the reader takes no more. The stream reports an error: its listener ends the process. */
  #writeRest(): boolean {
    for (let [next] = this.#rest; next !== undefined; [next] = this.#rest) {
      try {
        const left = next.subarray(writeSync(this.#stream.fd, next));
        this.#restBytes -= next.length - left.length;
        if (left.length > 0) this.#rest[0] = left;
        else this.#rest.shift();
      } catch (error) {
        if (passing.has((error as NodeJS.ErrnoException).code ?? "")) return false;
        this.#rest = [];
        this.#restBytes = 0;
        this.#stream.emit("error", error);
      }
    }
    return true;
  }

  /** Waits for the reader, which blocks the thread: the event loop has ended. */
  #end(): void {
    this.flush();
    for (let left = this.#timing.logReader; left > 0 && !this.#writeRest(); left -= this.#interval)
      pause(this.#interval);
  }
}

const newline = 10;

/** Errors of a write that end by themselves or by an operator: the reader stalls, or a log file is at the limit of its disk, quota
 *  or size, or on a file system that has turned read-only. */
const passing: ReadonlySet<string> = new Set(["EAGAIN", "ENOSPC", "EDQUOT", "EFBIG", "EROFS"]);

/** Every email address and international number has one of these characters; few lines have one. */
const mayNameAddress = /[@+]/;

/** Masks email addresses, except their domain, and phone numbers, except their last two digits: responses of mail servers
 *  and providers quote the customer's address. Called with every line above `debug`. Linear. */
function maskAddresses(line: string): string {
  let masked = "";
  let done = 0;
  for (let at = line.indexOf("@"); at >= 0; at = line.indexOf("@", at + 1)) {
    let start = at;
    while (start > done && isLocal.test(line.charAt(start - 1))) start -= 1;
    if (start === at || !isDomain.test(line.charAt(at + 1))) continue;
    masked += `${line.slice(done, start)}***`;
    done = at;
  }
  return (masked + line.slice(done)).replace(
    /\+\d{8,15}/g,
    (number) => `+${"*".repeat(number.length - 3)}${number.slice(-2)}`,
  );
}
const isLocal = /[\p{L}\p{N}.!#$%&'*+=?^_`{|}~-]/u;
const isDomain = /[\p{L}\p{N}]/u;

/** PostgreSQL error fields that contain rows and statements, and so possibly customers' addresses. */
const omittedFields: ReadonlySet<string> = new Set(["detail", "where", "internalQuery"]);

/** Serializes an error with its causes; other values stay unchanged. */
function serializeError(value: unknown): unknown {
  return value instanceof Error ? withoutUnsaid(stdSerializers.errWithCause(value)) : value;
}

function withoutUnsaid(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutUnsaid);
  if (value === null || typeof value !== "object") return value;
  const said = Object.entries(value).filter(([key]) => !omittedFields.has(key));
  return Object.fromEntries(
    said.map(([key, inner]) => [key, key === "cause" || key === "aggregateErrors" ? withoutUnsaid(inner) : inner]),
  );
}

export interface Entry {
  /** ISO 8601. */
  readonly time: string;
  readonly level: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

const colours: Readonly<Record<string, string>> = {
  debug: "\u001B[2m",
  warn: "\u001B[33m",
  error: "\u001B[31m",
};

/** `12:30:01 warn the channel is degraded channel=support-mail reason="no route"`, with stacks on separate lines. */
function textLine(entry: Entry, colour: boolean): string {
  const { time, level, message, ...fields } = entry;
  const columns = Object.entries(fields).map(([key, value]) => `${key}=${column(value)}`);
  const head = `${time.slice(11, 19)} ${level.padEnd(5)} ${oneLine(message)}`;
  const tint = colour ? (colours[level] ?? "") : "";
  const first = tint === "" ? head : `${tint}${head}\u001B[0m`;
  const stacks = Object.values(fields)
    .map(stack)
    .filter((text) => text !== "");
  return [[first, ...columns].join("  "), ...stacks].join("\n");
}

function column(value: unknown): string {
  if (typeof value === "string") return /^[\w.:/@+-]+$/.test(value) ? value : oneLine(JSON.stringify(value));
  const message = (value as { message?: unknown } | null)?.message;
  return oneLine(JSON.stringify(typeof message === "string" ? message : value));
}

/** Returns the stack, indented so that its lines cannot be confused with log entries. */
function stack(value: unknown): string {
  const text = (value as { stack?: unknown } | null)?.stack;
  return typeof text === "string"
    ? text
        .split("\n")
        .map((line) => `    ${oneLine(line)}`)
        .join("\n")
    : "";
}

/** Replaces control characters, so that text cannot move the cursor, start a new line or change the reading direction. */
const oneLine = (text: string): string =>
  text.replace(/[\u0000-\u001F\u007F-\u009F\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/g, "?");
