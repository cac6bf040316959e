// Output of the list and show commands: tables, times and states as text for a terminal, and JSON. Everything that a
// customer, an agent or a server wrote passes `clean` before it is printed.

import { readDuration } from "bridgehead/contract";
import truncatedWidth from "fast-string-truncated-width";
import { durationText } from "../domain/duration-text.ts";
import { systemClock } from "../ops/clock.ts";
import type { Io } from "./io.ts";

/** Characters that change the terminal or the reading direction: C0 and C1 controls, DEL, bidirectional and invisible
 *  formatting, line separators. */
const controls = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+/gu;

/** Escape sequences of terminals: CSI (colours, cursor) and OSC (title, links, clipboard). */
const sequences =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?/gu;

/** Returns the text on one line, without escape sequences and control characters. Linear. */
export const clean = (text: string): string => text.replace(sequences, "").replace(controls, " ").trim();

/** Returns the lines of a text, each without control characters. */
export const cleanLines = (text: string): string[] =>
  text
    .replace(sequences, "")
    .split(/\r\n|[\r\n]/)
    .map((line) => line.replace(controls, " ").trimEnd());

/** Serializes a value for `--json`: one line without characters that change a terminal. */
export const jsonText = (value: unknown, indent = 0): string =>
  JSON.stringify(value, null, indent).replace(
    /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/gu,
    (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/** Formats epoch milliseconds in UTC: `2026-11-20 10:00:00`. */
export const when = (ms: number): string => new Date(ms).toISOString().slice(0, 19).replace("T", " ");

/** Formats a time relative to now: `5 min ago`, `in 3 h`, `now`. */
export function relative(ms: number, now: number): string {
  if (Math.abs(now - ms) < 1000) return "now";
  return ms < now ? `${durationText(now - ms)} ago` : `in ${durationText(ms - now)}`;
}

/** Formats a time for a table: absolute in UTC, then relative. */
export const stamp = (ms: number, now: number): string => `${when(ms)} (${relative(ms, now)})`;

const palette = { red: 31, green: 32, yellow: 33, blue: 34, dim: 2, bold: 1 } as const;
type Color = keyof typeof palette;

const statesByColor = {
  red: "failed held refused open unauthorized",
  yellow: "unknown waiting deferred queued sending asking stored acknowledged paused degraded",
  green: "answered sent delivered ready",
  dim: "ignored dropped silent closed",
} as const;
const stateColors = new Map(
  (Object.keys(statesByColor) as (keyof typeof statesByColor)[]).flatMap((color) =>
    statesByColor[color].split(" ").map((state): [string, Color] => [state, color]),
  ),
);

/** Colours a word. Without a terminal, and with NO_COLOR, it stays unchanged. */
export function colored(io: Pick<Io, "screen">, color: Color, text: string): string {
  return io.screen?.color ? `\u001b[${palette[color]}m${text}\u001b[0m` : text;
}

/** Colours the name of a state: problems red, waiting work yellow, completed work green. */
export function stateText(io: Pick<Io, "screen">, state: string, text = state): string {
  const color = stateColors.get(state);
  return color === undefined ? text : colored(io, color, text);
}

/** Number of terminal columns of a text without control characters: wide characters and emoji take two, combining marks
 *  none. */
const columnsOf = (text: string): number => truncatedWidth(text).width;

/** Cuts a text to a number of columns; the last one is `…` where something is missing. */
function cut(text: string, most: number): string {
  const { truncated, index } = truncatedWidth(text, { limit: most, ellipsis: "…", ellipsisWidth: 1 });
  return truncated ? `${text.slice(0, index)}…` : text;
}

/** Breaks a text into lines of at most `most` columns, at spaces where possible. */
export function wrapped(text: string, most: number): string[] {
  const lines: string[] = [];
  let line = "";
  const push = () => {
    lines.push(line.trimEnd());
    line = "";
  };
  let used = 0;
  for (const word of text.split(/(?<= )/)) {
    const columns = columnsOf(word);
    if (used > 0 && used + columnsOf(word.trimEnd()) > most) {
      push();
      used = 0;
    }
    if (columns <= most) {
      line += word;
      used += columns;
      continue;
    }
    for (const one of word) {
      const width = columnsOf(one);
      if (used + width > most) {
        push();
        used = 0;
      }
      line += one;
      used += width;
    }
  }
  if (line.trim() !== "" || lines.length === 0) push();
  return lines;
}

/** A column of a list. `flexible` columns are cut when the table is wider than the terminal. `state` columns are
 *  coloured by their value. */
export interface ListColumn<Row> {
  readonly head: string;
  /** The text of a row; `now` in epoch milliseconds. */
  readonly cell: (row: Row, now: number) => string | number | null;
  readonly flexible?: true;
  readonly state?: true;
  readonly right?: true;
}

/** The columns of a time: absolute, and how long ago. */
export const timeColumns = <Row>(head: string, at: (row: Row) => number): readonly ListColumn<Row>[] => [
  { head: `${head} (UTC)`, cell: (row) => when(at(row)) },
  { head: "AGO", right: true, cell: (row, now) => relative(at(row), now).replace(" ago", "") },
];

/** Prints the result of a list command: a table, or all properties of the rows as JSON. */
export function printList<Row>(
  rows: readonly Row[],
  columns: readonly ListColumn<Row>[],
  { json }: { readonly json?: boolean },
  io: Io,
): void {
  if (json) io.out(jsonText(rows));
  else io.out(rows.length === 0 ? "nothing" : listing(columns, rows, io));
}

const narrowest = 8;

/** Formats a table. Each column has the width of its widest cell, with two spaces between columns. On a terminal the
 *  flexible columns are cut so that a row is one line; redirected output is complete. */
export function listing<Row>(
  columns: readonly ListColumn<Row>[],
  rows: readonly Row[],
  io: Pick<Io, "screen">,
): string {
  const now = systemClock.now();
  const texts = rows.map((row) => columns.map(({ cell }) => clean(String(cell(row, now) ?? ""))));
  const cells = [columns.map(({ head }) => head), ...texts];
  // A list has more rows than a function takes arguments.
  const widths = columns.map((_, at) => cells.reduce((most, row) => Math.max(most, columnsOf(row[at] ?? "")), 0));
  let excess = widths.reduce((sum, one) => sum + one + 2, -2) - (io.screen?.columns ?? Infinity);
  // The widest flexible column is cut first, down to the next one, and so on.
  while (excess > 0) {
    const flexible = columns.map((_, at) => at).filter((at) => columns[at]?.flexible && (widths[at] ?? 0) > narrowest);
    if (flexible.length === 0) break;
    const widest = flexible.reduce((a, b) => ((widths[b] ?? 0) > (widths[a] ?? 0) ? b : a));
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess -= 1;
  }
  const lines = cells.map((row, line) =>
    columns.map(({ flexible, state, right }, at) => {
      const [cell, width] = [row[at] ?? "", widths[at] ?? 0];
      const shown = flexible ? cut(cell, width) : cell;
      const text = line === 0 ? colored(io, "bold", shown) : state ? stateText(io, cell, shown) : shown;
      const space = " ".repeat(Math.max(0, width - columnsOf(shown)));
      return right ? space + text : text + space;
    }),
  );
  return lines.map((line) => line.join("  ").trimEnd()).join("\n");
}

/** Formats names with their values below each other: `state    held`. Values are wrapped; null values are left out. */
export function details(
  pairs: readonly (readonly [name: string, value: string | null])[],
  io: Pick<Io, "screen">,
): string {
  const shown = pairs.filter((pair): pair is [string, string] => pair[1] !== null && pair[1] !== "");
  const indent = Math.max(0, ...shown.map(([name]) => name.length)) + 2;
  return shown
    .flatMap(([name, value]) =>
      wrapped(clean(value), textWidth(io) - indent).map(
        (line, at) => (at === 0 ? colored(io, "dim", name.padEnd(indent)) : " ".repeat(indent)) + line,
      ),
    )
    .join("\n");
}

/** Columns for running text: those of the terminal, at most 100; 80 for redirected output. */
export const textWidth = (io: Pick<Io, "screen">): number => Math.max(40, Math.min(io.screen?.columns ?? 80, 100));

/** The forms that `readSince` accepts, for help and errors. */
export const sinceForms =
  'a duration such as "30m", "2h" or "3d", or a date in UTC such as "2026-11-20" or "2026-11-20T18:30", or with its offset "2026-11-20T18:30+01:00"';

/** Parses the value of `--since`: a duration before `now`, or a date. Returns epoch milliseconds; null when it is
 *  neither, or in the future. */
export function readSince(text: string, now: number): number | null {
  const age = readDuration(text);
  if (age !== null) return Math.max(0, now - age);
  const [, day, time = "00:00", offset = "Z"] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?))?(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? [];
  if (day === undefined) return null;
  const at = Date.parse(`${day}T${time}${offset}`);
  // A day that does not exist, such as 2026-02-30, would be acknowledged for one of the next month.
  const exists = new Date(`${day}T00:00Z`).toJSON()?.startsWith(day);
  return Number.isNaN(at) || !exists || at > now ? null : at;
}

/** The name of the operator who runs a command, for the history: the login behind sudo, or the own one. */
export const operatorOf = ({ env }: Pick<Io, "env">): string =>
  clean(env["SUDO_USER"] || env["USER"] || env["LOGNAME"] || "an operator").slice(0, 60);
