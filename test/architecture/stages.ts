// The rules for the folders of stages: decide.ts is pure and tested without a database, a stage begins with what it does.

import { codeOf, importsOf, type Rule, type SourceFile, uncommented } from "./source.ts";

const isDecision = ({ path }: SourceFile): boolean => /^src\/.*\/decide\.ts$/.test(path);

/** The sources of time, chance and effects. Templates contain code, so texts are searched too. */
const effects: readonly RegExp[] = [
  /\b(?:Promise|fetch\(|queueMicrotask\()|\.then\(/g,
  /\bDate\.now\b|\bnew Date\b(?!\([^)])|(?<!new )\bDate\(|\bperformance\.\w+/g,
  /\b(?:Math\.random\b|random[A-Z]\w+|getRandomValues\b)/g,
  /\b(?:setTimeout|setInterval|setImmediate)\b|\b(?:process|console|globalThis)\.\w+/g,
  // State of the module.
  /^(?:export )?(?:let|var)\b/gm,
  // A member or a parameter: the clock, the log, and of a channel what asks or changes its agent. A function of the log that
  // is returned gets it from the stage: `(log) => log.info(...)`.
  /(?<!Math)\.(?:clock|log|client|report|catchingUp)\b|(?:\bPick<[^>]*|\[)"(?:clock|log|client|report)"|[{,(]\s*(?:readonly )?(?:clock|log|client|report)\s*(?:\?\s*)?[,:}]/g,
  // The methods of adapters, and of a store, under its usual names or another one.
  /\.(?:open|send|prepare|reconcile)\(/g,
  /(?<!["'])\b(?:q|db)(?:\.\w+|(?=\s*[,)}:]))|(?<!\b(?:Promise|q|db))\.(?:all|one|run|write|read)\(/g,
];

const changing = "set|add|delete|clear|push|pop|shift|unshift|splice|sort|reverse|fill|copyWithin";

/** Returns the writes to values of the module itself: they would be state. */
function moduleWrites(code: string): string[] {
  const owned = [...code.matchAll(/^(?:export )?const (\w+)\b/gm)].map(([, name]) => name);
  const member = `\\b(?:${owned.join("|")})(?:\\.\\w+|\\[[^\\]\\n]*\\])`;
  const writes = new RegExp(
    `${member}*\\.(?:${changing})\\(|${member}+\\s*(?:[-+*/%&|^?]*=(?![=>])|\\+\\+|--)|\\b(?:Object\\.assign\\(|delete )(?:${owned.join("|")})\\b`,
    "g",
  );
  return owned.length === 0 ? [] : (code.match(writes) ?? []);
}

/** Types of objects with effects. */
const objects = /\b(?:Query|Database|Core|Clock|Log)\b/g;
/** Modules with effects. */
const effectful = /\/(?:ops\/(?:clock|failpoints|log|tasks)|(?:[\w-]+-)?rows|stage)\.ts$|^node:(?!crypto$)/;

/** Decisions get loaded rows and values: they wait for nothing, run no statement, and read neither clock nor chance. What is
 *  to be logged is returned. Of a channel they may read `settings`, `problem`, `address` and `escalation`. Not seen: an object
 *  with effects under another name (`const ask = line["client"]`), a function with effects that is imported or passed, and
 *  state in a closure, or of the module under a second name. */
export const pureDecisions: Rule = (files) =>
  files.filter(isDecision).flatMap((file) => {
    const { path } = file;
    const code = uncommented(file);
    const waits = [...codeOf(file).matchAll(/\b(?:await|async)\b/g)].map(([word]) => word);
    const uses = effects.flatMap((pattern) =>
      [...code.matchAll(pattern)].map(([found]) => found.replace(/^[{,(]\s*/, "")),
    );
    const types = [...code.matchAll(/^import\b([^;]*?)\bfrom\b/gm)].flatMap(
      ([, clause = ""]) => clause.match(objects) ?? [],
    );
    const modules = importsOf(file).filter(({ to, typeOnly }) => !typeOnly && effectful.test(to));
    return [
      ...[...waits, ...uses, ...moduleWrites(code)].map((found) => `${path}: ${found}: decisions are pure`),
      ...[...types, ...modules.map(({ to }) => to)].map(
        (name) => `${path}: imports ${name}: decisions get loaded rows`,
      ),
    ];
  });

const items = ["Input:", "Effect:", "Output:", "Failure:", "Crash:"];

/** True for a file in the place of a stage, and for one that makes a stage for the scheduler (`takes`). */
const isStage = (file: SourceFile): boolean =>
  /^src\/(?!engine\/).*\.ts$/.test(file.path) &&
  (file.path.endsWith("/stage.ts") || /^\s*takes[:,]/m.test(codeOf(file)));

/** The comment at the head of a stage names all items, so that a reader knows what a crash leaves. */
export const stageHeaders: Rule = (files) =>
  files.filter(isStage).flatMap(({ path, text }) => {
    const [header = ""] = /^(?:\/\/.*\n)*/.exec(text) ?? [];
    return items.filter((item) => !header.includes(item)).map((item) => `${path}: its header has no "${item}"`);
  });

const opensStore = /^test\/support\/(?:store|pipeline|daemon|process)\//;

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

/** Functions, also those that another one returns, and objects. Not texts and numbers: what uses them is tested. */
const exportedValues =
  /^export (?:(?:async )?function\*? ?(\w+)|const (\w+)(?=(?:: .*?)? =\s+[^\s"'`\d-])|\{([^}]*)\})/gm;

/** Every exported decision is imported by name by a test without a database; the linter reports imports that are not used.
 *  Not seen: a test that uses the name and expects nothing of it. */
export const decisionTests: Rule = (files) => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const tested = files
    .filter(({ path }) => path.endsWith(".test.ts") && needsNoStore(path, byPath, new Set()))
    .flatMap(importsOf)
    .filter(({ typeOnly }) => !typeOnly);
  return files.filter(isDecision).flatMap((file) => {
    const { path } = file;
    const own = tested.filter(({ to }) => to === path);
    if (own.length === 0) return [`${path}: no test without a database imports it`];
    const named = new Set(own.flatMap(({ names }) => names));
    return [...uncommented(file).matchAll(exportedValues)]
      .flatMap(([, declared, assigned, list = ""]) => declared ?? assigned ?? list.match(/\w+(?=\s*(?:,|$))/g) ?? [])
      .filter((name) => !named.has(name))
      .map((name) => `${path}: ${name}: no test without a database names it`);
  });
};
