// YAML with positions: the values of the file, and the position of each.

import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from "yaml";

export type Path = readonly (string | number)[];
export interface Place {
  /** Counted from 1. */
  readonly line: number;
  readonly column: number;
}
export interface Fault extends Place {
  readonly key: string;
  readonly message: string;
  readonly fix: string;
  /** False when the rest of the file cannot be interpreted. */
  readonly readable: boolean;
}
export interface Document {
  readonly value: unknown;
  readonly faults: readonly Fault[];
  /** Returns the position of a key or of its value. For a key that is not in the file, returns that of
   *  the nearest enclosing key. */
  locate(path: Path, of: "key" | "value"): Place;
}

// `${env:NAME}` may be unquoted inside `{ }` and `[ ]` too, where YAML would interpret its braces. Its
// characters are replaced before parsing, one for one, which keeps every position.
const hidden = new Map([
  ["{", "\uFDD0"],
  ["}", "\uFDD1"],
  ["[", "\uFDD2"],
  ["]", "\uFDD3"],
  [",", "\uFDD4"],
  ["#", "\uFDD5"],
]);
const shown = new Map([...hidden].map(([plain, substitute]) => [substitute, plain]));

const hide = (text: string): string =>
  text.replace(/\$\{[^{}\n]*\}/g, (reference) => reference.replace(/[{}[\],#]/g, (c) => hidden.get(c) ?? c));
const show = (text: string): string => text.replace(/[\uFDD0-\uFDD5]/g, (c) => shown.get(c) ?? c);

function showAll(value: unknown): unknown {
  if (typeof value === "string") return show(value);
  if (Array.isArray(value)) return value.map(showAll);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [show(key), showAll(inner)]));
}

const secondDocument = {
  key: "",
  message: "begins a second YAML document, which would be ignored",
  fix: "remove the line ---, and write everything as one document",
  readable: true,
} as const;

/** Reads YAML 1.2 (with `<<` merges). Never throws: errors are in `faults`. */
export function readDocument(text: string): Document {
  const lines = new LineCounter();
  const document = parseDocument(hide(text), {
    lineCounter: lines,
    prettyErrors: false,
    logLevel: "error",
    merge: true,
  });
  const place = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  const faults: Fault[] = document.errors.map((error) => {
    const at = place(error.pos[0]);
    const twice = error.code === "DUPLICATE_KEY";
    if (error.code === "MULTIPLE_DOCS") return { ...at, ...secondDocument };
    const word = /^[^\s:]*/.exec(text.slice(error.pos[0], error.pos[0] + 100))?.[0] ?? "";
    return {
      ...at,
      key: twice ? word : "",
      message: twice ? "is written twice in the same block" : `is not valid YAML: ${show(error.message)}`,
      fix: twice ? "keep one of the two" : "check indentation, quotes and brackets at this place",
      readable: twice,
    };
  });
  let value: unknown = null;
  try {
    value = showAll(document.toJS());
  } catch (error) {
    const message = `is not valid YAML: ${(error as Error).message}`;
    faults.push({
      line: 1,
      column: 1,
      key: "",
      message,
      fix: "define the anchor before its alias",
      readable: false,
    });
  }
  return { value, faults, locate: (path, of) => place(offsetOf(document.contents, path, of)) };
}

function offsetOf(root: Node | null, path: Path, of: "key" | "value"): number {
  let node: unknown = root;
  let offset = 0;
  for (const [depth, step] of path.entries()) {
    const pair = stepInto(node, step);
    if (pair === undefined) break;
    const last = depth === path.length - 1;
    offset = startOf(last && of === "value" ? (pair.value ?? pair.key) : pair.key) ?? offset;
    node = pair.value;
  }
  return offset;
}

function stepInto(node: unknown, step: string | number): { key: unknown; value: unknown } | undefined {
  if (isMap(node)) {
    const pair = node.items.find(
      (item) => show(String(isScalar(item.key) ? item.key.value : item.key)) === String(step),
    );
    return pair && { key: pair.key, value: pair.value };
  }
  if (!isSeq(node)) return undefined;
  const item = node.items[Number(step)];
  return item === undefined ? undefined : { key: item, value: item };
}

function startOf(node: unknown): number | undefined {
  return (node as { range?: readonly [number, number, number] | null } | null)?.range?.[0];
}
