/**
 * Prints the size and the structure of the source code as a Markdown table: `node test/architecture/counts.ts [--list]`.
 * With `--list` every count is followed by what was counted. The source is formatted by Biome, so that the end of a
 * function is the first line with the function's indentation that begins with a closing brace.
 */
import { globSync, readFileSync } from "node:fs";
import { repeatedFunctions } from "./rules.ts";
import { importsOf, type SourceFile } from "./source.ts";

/** One row: what is counted, and the counted names. */
interface Count {
  what: string;
  names: string[];
}

const read = (pattern: string): SourceFile[] =>
  globSync(pattern)
    .sort()
    .map((path) => ({ path, text: readFileSync(path, "utf8") }));

const source = [...read("src/**/*.ts"), ...read("adapters/**/*.ts")];
const tests = read("test/**/*.ts");

const lines = (file: SourceFile): number => file.text.split("\n").length - 1;

function importers(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const file of source)
    for (const { to, relative } of importsOf(file)) {
      const contract = /^bridgehead\/(.+)$/.exec(to)?.[1];
      const target = relative ? to : `src/${contract}/index.ts`;
      found.set(target, (found.get(target) ?? new Set()).add(file.path));
    }
  return found;
}

/** Every named function and method with its length in lines. Functions inside it count as its lines. */
function functionsOf(file: SourceFile): { name: string; lines: number }[] {
  const rows = file.text.split("\n");
  const starts =
    /^(\s*)(?:export )?(?:default )?(?:(?:async )?function\*? (\w+)|(?:const) (\w+)\b.*=>|(?:private |async |static |\*)*(#?\w+)\()/;
  return rows.flatMap((row, index) => {
    const match = starts.exec(row);
    if (match === null || /^\s*(?:if|for|while|switch|return|await|catch|describe|test|it)\b/.test(row)) return [];
    const [, indent = "", declared, assigned, method] = match;
    if (!/[{(]$/.test(row)) return [];
    const head = rows.slice(index, index + 12).join("\n");
    if (method !== undefined && !/^[^;]*?\)(?::[^;{}]+)? \{\n/.test(head)) return [];
    const end = rows.findIndex((line, at) => at > index && line.startsWith(`${indent}}`));
    return end === -1 ? [] : [{ name: declared ?? assigned ?? method ?? "", lines: end - index + 1 }];
  });
}

function repeated(names: Map<string, Set<string>>, more: number): string[] {
  return [...names].filter(([, files]) => files.size > more).map(([name, files]) => `${name} (${files.size})`);
}

function declared(pattern: RegExp): Map<string, Set<string>> {
  const names = new Map<string, Set<string>>();
  for (const { path, text } of source)
    for (const [, name = ""] of text.matchAll(pattern)) names.set(name, (names.get(name) ?? new Set()).add(path));
  return names;
}

const sizes = source.map(lines).sort((a, b) => a - b);
const total = sizes.reduce((sum, size) => sum + size, 0);
const byPath = new Map(source.map((file) => [file.path, file]));
const single = [...importers()].filter(([path, from]) => from.size === 1 && byPath.has(path)).map(([path]) => path);
const small = single.filter((path) => lines(byPath.get(path) as SourceFile) < 60);
const everything = source.map(({ text }) => text).join("\n");
/** Interfaces with methods: objects, not records. */
const objects = [...everything.matchAll(/^(?:export )?interface (\w+)[^{]*\{\n([^]*?)^\}/gm)]
  .filter(([, , body = ""]) => /^ {2}(?:readonly )?\w+(?:<.*>)?\(|^ {2}(?:readonly )?\w+\??: \(.*=>/m.test(body))
  .map(([, name = ""]) => name);
const onlyOne = objects.filter(
  (name) => [...everything.matchAll(new RegExp(`\\): (?:Promise<)?${name}>? \\{$`, "gm"))].length === 1,
);
const counts: Count[] = [
  { what: "source files", names: source.map(({ path }) => path) },
  { what: "source files with exactly one importer", names: single },
  { what: "of these under 60 lines", names: small },
  {
    what: "source files over 400 lines",
    names: source.filter((file) => lines(file) > 400).map(({ path }) => path),
  },
  { what: "interfaces with methods that one function creates", names: onlyOne },
  {
    what: "interfaces named Deps or Options",
    names: [...everything.matchAll(/^(?:export )?interface (\w*(?:Deps|Options))\b/gm)].map(([, name = ""]) => name),
  },
  {
    what: "functions over 60 lines",
    names: source.flatMap((file) =>
      functionsOf(file)
        .filter((found) => found.lines > 60)
        .map((found) => `${file.path} ${found.name} ${found.lines}`),
    ),
  },
  {
    what: "type names declared twice",
    names: repeated(declared(/^(?:export )?(?:interface|type|class) (\w+)/gm), 1),
  },
  {
    what: "function names in more than eight files",
    names: repeatedFunctions(source),
  },
  {
    what: "support files of the tests",
    names: tests.map(({ path }) => path).filter((path) => !/\.test\.ts$|^test\/(bench|fixtures)\//.test(path)),
  },
  {
    what: "test files named after their origin",
    names: tests.map(({ path }) => path).filter((path) => /\/(review-|rig|world)/.test(path)),
  },
];

console.log("| count | value |\n| --- | ---: |");
console.log(`| source lines | ${total} |\n| median lines of a source file | ${sizes[sizes.length >> 1]} |`);
for (const { what, names } of counts) {
  console.log(`| ${what} | ${names.length} |`);
  if (process.argv.includes("--list") && what !== "source files") for (const name of names) console.log(`  ${name}`);
}
