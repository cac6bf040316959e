// Prints one line per figure, and keeps all figures for the summary and the published report.

import type { Tally } from "./clock.ts";
import type { Goal } from "./goals.ts";

export interface Figure {
  readonly name: string;
  /** The same quantity of the baseline; null without one. */
  readonly baseline: number | null;
  readonly measured: number;
  readonly unit: string;
  /** Comparison with the baseline: a quotient, a difference, or none. */
  readonly compare: "ratio" | "difference" | "none";
  /** Null for information. */
  readonly goal: Goal | null;
}

/** A figure with the text of its comparison and of its verdict. */
export interface Line {
  readonly name: string;
  readonly baseline: string;
  readonly measured: string;
  readonly compared: string;
  readonly goal: string;
  readonly verdict: "ok" | "MISSED" | "";
  readonly used: number | null;
}

/** A table with columns of its own. The first column is text, the others are figures. */
export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Sentences below the table. */
  readonly notes: readonly string[];
}

export interface Section {
  readonly title: string;
  readonly lines: Line[];
  /** The figures of the lines that have one. */
  readonly figures: Figure[];
  readonly tables: Table[];
  /** How long the measure took. */
  seconds: number;
}

/** All sections of this run, in order. */
export const sections: Section[] = [];

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? Number.NaN)
    : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
};

/** The smallest value that at least `share` (0..1) of the values do not exceed; NaN without values. */
export const percentile = (values: readonly number[], share: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
};

const digits = (value: number): string => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2));

/** Starts a section with its title and, for figures, the head of their table. */
export function printSection(title: string, hasFigures = true): Section {
  const section: Section = { title, lines: [], figures: [], tables: [], seconds: 0 };
  sections.push(section);
  process.stdout.write(`\n${title}\n`);
  if (hasFigures) printColumns("measure", "baseline", "measured", "compared", "goal", "");
  return section;
}

export function printFigure(figure: Figure): void {
  const { name, baseline, measured, unit, compare, goal } = figure;
  printLine({
    name,
    baseline: baseline === null ? "-" : digits(baseline),
    measured: quantity(measured, unit),
    compared: baseline === null || compare === "none" ? "-" : comparison(figure),
    goal: goal?.text ?? "-",
    verdict: goal === null ? "" : goal.met ? "ok" : "MISSED",
    used: goal?.used ?? null,
  });
  sections.at(-1)?.figures.push(figure);
}

const quantity = (value: number, unit: string): string => `${digits(value)} ${unit}`.trimEnd();

/** The text of a measured value as the goal states it: compared with the baseline, or as it is. */
export function comparison({ measured, baseline, unit, compare }: Figure): string {
  if (baseline === null || compare === "none") return quantity(measured, unit);
  if (compare === "ratio") return `x ${(measured / baseline).toFixed(2)}`;
  return `${measured >= baseline ? "+" : ""}${quantity(measured - baseline, unit)}`;
}

/** Prints the lost and duplicated messages of a measurement. */
export function printTally(name: string, baseline: Tally, measured: Tally): void {
  const text = ({ lost, duplicated }: Tally) => `${lost}/${duplicated}`;
  printLine({
    name: `${name}: lost/duplicated`,
    baseline: text(baseline),
    measured: text(measured),
    compared: "-",
    goal: "0/0",
    verdict: measured.lost + measured.duplicated === 0 ? "ok" : "MISSED",
    used: null,
  });
}

export function printTable(table: Table): void {
  sections.at(-1)?.tables.push(table);
  const { title, columns, rows, notes } = table;
  const all = [columns, ...rows];
  const widths = columns.map((_, column) => Math.max(...all.map((row) => (row[column] ?? "").length)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart((widths[column] ?? 0) + 2),
      )
      .join("")
      .trimEnd();
  process.stdout.write(`\n${[title, ...all.map(line), ...notes].join("\n")}\n`);
}

/** All lines of the run that have a goal, the missed ones first. */
export function goalLines(): Line[] {
  const lines = sections.flatMap((section) => section.lines);
  const those = (wanted: Line["verdict"]) => lines.filter(({ verdict }) => verdict === wanted);
  return [...those("MISSED"), ...those("ok")];
}

/** Prints all lines that have a goal, the missed ones first. */
export function printSummary(): void {
  const lines = goalLines();
  const missed = lines.filter(({ verdict }) => verdict === "MISSED");
  process.stdout.write(`\nGoals: ${missed.length} of ${lines.length} missed\n`);
  printColumns("measure", "baseline", "measured", "compared", "goal", "");
  for (const line of lines) print(line);
  const times = sections
    .filter(({ seconds }) => seconds > 0)
    .map(({ title, seconds }) => `${title.split(":")[0]} ${seconds.toFixed(0)}`);
  const minutes = sections.reduce((all, { seconds }) => all + seconds, 0) / 60;
  process.stdout.write(`\nDuration: ${minutes.toFixed(1)} min. Seconds per measure: ${times.join(", ")}\n`);
}

function printLine(line: Line): void {
  if (sections.length === 0) sections.push({ title: "", lines: [], figures: [], tables: [], seconds: 0 });
  sections.at(-1)?.lines.push(line);
  print(line);
}

const print = ({ name, baseline, measured, compared, goal, verdict }: Line): void =>
  printColumns(name, baseline, measured, compared, goal, verdict);

function printColumns(
  ...[name = "", baseline = "", measured = "", compared = "", goal = "", verdict = ""]: string[]
): void {
  const columns = [
    name.padEnd(58),
    baseline.padStart(9),
    measured.padStart(15),
    compared.padStart(12),
    goal.padStart(12),
  ];
  process.stdout.write(`${columns.join(" ")}  ${verdict}`.trimEnd().concat("\n"));
}
