// The rules for the folders of stages: decide.ts is pure and tested without a database, stage.ts begins with what it does.

import { codeOf, importsOf, type Rule, type SourceFile } from "./source.ts";

const isDecision = ({ path }: SourceFile): boolean => /^src\/.*\/decide\.ts$/.test(path);

/** Decisions get loaded rows: they wait for nothing and run no statement. */
export const pureDecisions: Rule = (files) =>
  files.filter(isDecision).flatMap((file) => {
    const waits = [...codeOf(file).matchAll(/\b(?:await|async)\b/g)].map(([word]) => `${word}: decisions are pure`);
    const queries = [...file.text.matchAll(/^import\b[^;]*?\bQuery\b[^;]*?\bfrom\b/gm)].map(
      () => "imports Query: decisions get loaded rows",
    );
    return [...waits, ...queries].map((found) => `${file.path}: ${found}`);
  });

const items = ["Input:", "Effect:", "Output:", "Failure:", "Crash:"];

/** The comment at the head of a stage names all items, so that a reader knows what a crash leaves. */
export const stageHeaders: Rule = (files) =>
  files
    .filter(({ path }) => /^src\/(?:pipeline|escalation)\/.*\/stage\.ts$/.test(path))
    .flatMap(({ path, text }) => {
      const [header = ""] = /^(?:\/\/.*\n)*/.exec(text) ?? [];
      return items.filter((item) => !header.includes(item)).map((item) => `${path}: its header has no "${item}"`);
    });

const opensStore = /^test\/support\/(?:store|pipeline)\//;

/** True when neither the test nor a file of `test` that it imports opens a store. */
function needsNoStore(path: string, byPath: ReadonlyMap<string, SourceFile>, seen: Set<string>): boolean {
  if (opensStore.test(path)) return false;
  const file = byPath.get(path);
  if (seen.has(path) || file === undefined) return true;
  seen.add(path);
  if (/\bopen(?:Sqlite|Postgres)\(/.test(codeOf(file))) return false;
  return importsOf(file)
    .filter(({ to, typeOnly }) => to.startsWith("test/") && !typeOnly)
    .every(({ to }) => needsNoStore(to, byPath, seen));
}

/** Every decision has a test without a database. */
export const decisionTests: Rule = (files) => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const tested = files
    .filter(({ path }) => path.endsWith(".test.ts") && needsNoStore(path, byPath, new Set()))
    .flatMap(importsOf)
    .filter(({ typeOnly }) => !typeOnly)
    .map(({ to }) => to);
  return files
    .filter(isDecision)
    .filter(({ path }) => !tested.includes(path))
    .map(({ path }) => `${path}: no test without a database imports it`);
};
