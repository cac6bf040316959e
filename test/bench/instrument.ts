// Copies the built daemon and lets each function of its own files report its file when it is entered. All threads write to
// one shared array, which `probe.ts` creates and reads.

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { pathToFileURL } from "node:url";
import { parseAst } from "vitest/node";
import type { Built } from "./built.ts";
import { enterSource } from "./entries.ts";

export interface Instrumented {
  readonly main: string;
  /** Paths below dist/; the index is the number that is reported. */
  readonly files: readonly string[];
  dispose(): void;
}

export function instrument(built: Built): Instrumented {
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-path-"));
  for (const name of ["dist", "package.json"])
    cpSync(join(built.directory, name), join(directory, name), { recursive: true });
  symlinkSync(join(built.directory, "node_modules"), join(directory, "node_modules"));
  const dist = join(directory, "dist");
  const files = readdirSync(dist, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".js"))
    .sort();
  const enter = join(dist, "enter.js");
  writeFileSync(enter, enterSource);
  for (const [number, file] of files.entries()) {
    const text = readFileSync(join(dist, file), "utf8");
    const head = `import { __enter } from ${JSON.stringify(pathToFileURL(enter).href)};`;
    writeFileSync(join(dist, file), `${head}\n${withCalls(text, number)}`);
  }
  return {
    main: join(dist, relative(join(built.directory, "dist"), built.main)),
    files,
    dispose: () => rmSync(directory, { recursive: true, force: true }),
  };
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly body?: Node;
}

const functions = ["FunctionDeclaration", "FunctionExpression"];

/** Inserts a call at the start of each function body. Arrow functions belong to their callers. */
function withCalls(text: string, number: number): string {
  const insertions: { readonly at: number; readonly text: string }[] = [];
  const visit = (value: unknown): void => {
    if (value === null || typeof value !== "object") return;
    if (Array.isArray(value)) {
      for (const each of value) visit(each);
      return;
    }
    const { type, body } = value as Node;
    if (functions.includes(type) && body) insertions.push({ at: body.start + 1, text: `__enter(${number});` });
    for (const each of Object.values(value)) visit(each);
  };
  visit(parseAst(text));
  let from = 0;
  let result = "";
  for (const { at, text: inserted } of insertions.sort((a, b) => a.at - b.at)) {
    result += text.slice(from, at) + inserted;
    from = at;
  }
  return result + text.slice(from);
}
