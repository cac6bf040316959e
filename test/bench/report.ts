// One line a figure: name, bare, ours, ratio, goal, verdict.

import type { Tally } from "./rig.ts";

export interface Figure {
  readonly name: string;
  readonly bare: number | null;
  readonly ours: number;
  readonly unit: string;
  /** How ours is compared: a quotient, a difference, or not at all. */
  readonly compare: "ratio" | "difference" | "none";
  /** Null: for information only. */
  readonly goal: { readonly text: string; readonly met: boolean } | null;
}

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1
    ? (sorted[middle] ?? Number.NaN)
    : ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2;
};

/** The value that `share` (0..1) of them do not exceed; NaN of none. */
export const percentile = (values: readonly number[], share: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
};

const digits = (value: number): string => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2));

export function printHead(): void {
  print("what", "bare", "ours", "compared", "goal", "");
}

export function printFigure({ name, bare, ours, unit, compare, goal }: Figure): void {
  const compared =
    bare === null || compare === "none"
      ? "-"
      : compare === "ratio"
        ? `x ${(ours / bare).toFixed(2)}`
        : `${ours >= bare ? "+" : ""}${digits(ours - bare)} ${unit}`;
  const verdict = goal === null ? "" : goal.met ? "ok" : "MISSED";
  print(
    name,
    bare === null ? "-" : digits(bare),
    `${digits(ours)} ${unit}`,
    compared,
    goal?.text ?? "-",
    verdict,
  );
}

/** Lost and duplicated mails of a measurement; the reason to fail. */
export function printTally(name: string, bare: Tally, ours: Tally): void {
  const text = ({ lost, duplicated }: Tally) => `${lost}/${duplicated}`;
  const clean = ours.lost + ours.duplicated === 0;
  print(`${name}: lost/duplicated`, text(bare), text(ours), "-", "0/0", clean ? "ok" : "MISSED");
}

function print(
  name: string,
  ...[bare = "", ours = "", compared = "", goal = "", verdict = ""]: string[]
): void {
  const columns = [
    name.padEnd(44),
    bare.padStart(9),
    ours.padStart(15),
    compared.padStart(12),
    goal.padStart(12),
  ];
  process.stdout.write(`${columns.join(" ")}  ${verdict}\n`.trimEnd().concat("\n"));
}

export const noTally: Tally = { lost: 0, duplicated: 0 };
export const sum = (tallies: readonly Tally[]): Tally => ({
  lost: tallies.reduce((all, one) => all + one.lost, 0),
  duplicated: tallies.reduce((all, one) => all + one.duplicated, 0),
});
