// Finds the line of a problem in a YAML file: the line of the key, or of its nearest existing parent.

import { type Document, isMap, isNode, isScalar, type LineCounter, type Node } from "yaml";

export interface Problem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Formats a problem as `agents.yaml:12: agents[0].status: Invalid option ...`. */
export function locate(document: Document, lines: LineCounter, file: string, problem: Problem): string {
  const offset = offsetOf(document, problem.path);
  const line = offset === undefined ? 1 : lines.linePos(offset).line;
  return `${file}:${line}: ${written(problem.path)}: ${problem.message}`;
}

function offsetOf(document: Document, path: readonly PropertyKey[]): number | undefined {
  for (let length = path.length; length >= 0; length--) {
    const parent = length === 0 ? undefined : nodeAt(document, path.slice(0, length - 1));
    const key = path[length - 1];
    const pair = isMap(parent)
      ? parent.items.find((item) => (isScalar(item.key) ? item.key.value : item.key) === key)
      : undefined;
    const found = isNode(pair?.key) ? pair.key : nodeAt(document, path.slice(0, length));
    if (found?.range) return found.range[0];
  }
  return undefined;
}

function nodeAt(document: Document, path: readonly PropertyKey[]): Node | undefined {
  const found = path.length === 0 ? document.contents : document.getIn(path, true);
  return isNode(found) ? found : undefined;
}

function written(path: readonly PropertyKey[]): string {
  let text = "";
  for (const step of path)
    text += typeof step === "number" ? `[${step}]` : `${text ? "." : ""}${String(step)}`;
  return text || "the file";
}
