// Prints a timeline for a terminal of 80 columns or more.

import { durationText } from "../../ops/duration-text.ts";
import type { History } from "../../store/operators/history.ts";
import { type TimelineEntry, timelineOf } from "../../store/operators/timeline.ts";
import type { Io } from "../io.ts";
import { clean, cleanLines, colored, stateText, textWidth, when, wrapped } from "../text.ts";

/** Text of a message is cut after this many lines; `--json` and `--full` print all of it. */
const mostLines = 6;
const indent = 20;

/** Formats the steps of a history, oldest first, with a line for each day. */
export function timelineText(history: History, io: Io, full: boolean): string {
  const lines: string[] = [];
  let day = "";
  if (history.cut) lines.push("older steps are left out (see --limit)");
  for (const entry of timelineOf(history)) {
    const at = when(entry.at);
    if (at.slice(0, 10) !== day) {
      day = at.slice(0, 10);
      lines.push("", colored(io, "bold", `${day} UTC`));
    }
    lines.push(...entryLines(entry, at.slice(11), io, full));
  }
  return lines.join("\n");
}

function entryLines(entry: TimelineEntry, time: string, io: Io, full: boolean): string[] {
  const width = textWidth(io) - indent;
  const took = entry.duration === null ? "" : durationText(entry.duration);
  const head = `${time}  ${took.padStart(8)}  `;
  const [first = "", ...rest] = wrapped(clean(entry.title), width);
  const space = " ".repeat(indent);
  const lines = [head + stateText(io, entry.state, first), ...rest.map((line) => space + line)];
  if (entry.detail !== null)
    for (const line of wrapped(clean(entry.detail), width))
      lines.push(space + stateText(io, entry.state, line));
  if (entry.text !== null)
    lines.push(...textLines(entry.text, width - 2, full).map((line) => `${space}| ${line}`));
  const ids = entry.ids.map(([name, id]) => `${name} ${clean(id)}`);
  if (entry.raw !== null) ids.push(`raw: bridgehead inbox show ${entry.raw} --raw`);
  for (const id of ids) for (const line of wrapped(id, width)) lines.push(space + colored(io, "dim", line));
  return lines;
}

function textLines(text: string, width: number, full: boolean): string[] {
  const lines = cleanLines(full ? text : text.slice(0, width * mostLines * 2)).flatMap((line) =>
    wrapped(line, width),
  );
  if (full) return lines;
  const some = lines.filter((line) => line !== "");
  return some.length > mostLines ? [...some.slice(0, mostLines - 1), "… (--full prints all of it)"] : some;
}
