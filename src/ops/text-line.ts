// Formats a log entry as text for a terminal.

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

/** `12:30:01 warn  the channel is degraded  channel=support-mail reason="no route"`, with stacks on
 *  separate lines. */
export function textLine(entry: Entry, colour: boolean): string {
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
  if (typeof value === "string") return /^[\w.:/@+-]+$/.test(value) ? value : JSON.stringify(value);
  const message = (value as { message?: unknown } | null)?.message;
  return JSON.stringify(typeof message === "string" ? message : value);
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

/** Replaces control characters, so that text cannot move the cursor or start a new line. */
const oneLine = (text: string): string => text.replace(/[\u0000-\u001F\u007F-\u009F\u2028\u2029]/g, "?");
