// Reads the file: its values, the position of each, and functions that add positions to problems.

import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { AdapterDefinition } from "bridgehead/contract";
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, visit } from "yaml";
import type { SchemaFinding } from "./explain.ts";
import type { Problem, StoreConfig } from "./index.ts";
import { brokenPostgresUrl, postgresUrl } from "./schema/values.ts";
import { type Resolved, resolveReferences } from "./secrets.ts";

export type Path = readonly (string | number)[];
export interface Place {
  /** Counted from 1. */
  readonly line: number;
  readonly column: number;
}
export interface ConfigFault extends Place {
  readonly key: string;
  readonly message: string;
  readonly fix: string;
  /** False when the rest of the file cannot be interpreted. */
  readonly readable: boolean;
}
export interface Document {
  readonly value: unknown;
  readonly faults: readonly ConfigFault[];
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
function readDocument(text: string): Document {
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
  const faults: ConfigFault[] = document.errors.map((error) => {
    const at = place(error.pos[0]);
    const twice = error.code === "DUPLICATE_KEY";
    if (error.code === "MULTIPLE_DOCS") return { ...at, ...secondDocument };
    const fix =
      error.code === "TAB_AS_INDENT" ? "indent with spaces" : "check indentation, quotes and brackets at this place";
    const word = /^[^\s:]*/.exec(text.slice(error.pos[0], error.pos[0] + 100))?.[0] ?? "";
    return {
      ...at,
      key: twice ? word : "",
      message: twice ? "is written twice in the same block" : `is not valid YAML: ${show(error.message)}`,
      fix: twice ? "keep one of the two" : fix,
      readable: twice,
    };
  });
  // The schema's maps of names would leave it out without an error.
  visit(document, {
    Pair(_, { key }) {
      if (!isScalar(key) || key.value !== "__proto__") return;
      const at = place(key.range?.[0] ?? 0);
      const [message, fix] = ["is not a possible name", "choose another name"];
      faults.push({ ...at, key: "__proto__", message, fix, readable: true });
    },
    Alias(_, alias) {
      if (alias.resolve(document) !== undefined) return;
      const message = `is not valid YAML: the alias *${show(alias.source)} has no anchor`;
      const at = place(alias.range?.[0] ?? 0);
      faults.push({ ...at, key: "", message, fix: "define the anchor before its alias", readable: false });
    },
  });
  let value: unknown = null;
  try {
    value = showAll(document.toJS());
  } catch (error) {
    const message = `is not valid YAML: ${(error as Error).message}`;
    const fix = "correct the anchors, aliases and merges (<<)";
    if (faults.every(({ readable }) => readable))
      faults.push({ line: 1, column: 1, key: "", message, fix, readable: false });
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

export interface LoadOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of systemd's credentials; default: CREDENTIALS_DIRECTORY of `env`. */
  readonly credentialsDirectory?: string;
  /** Loads an adapter by its name in the file, relative to the file's folder. Rejects with a message for
   *  the operator; an error's `fix`, if present, is shown as the remedy. */
  readonly adapters: (name: string, fromFolder: string) => Promise<AdapterDefinition>;
  /** Set when the paths of SQLite files are checked (`check`, `doctor`): the daemon must be able to open or create them. */
  readonly disk?: Disk;
}

/** What the paths of SQLite files are checked against. */
export interface Disk {
  readonly exists: (path: string) => boolean;
  /** Whether this process may write to the folder or file. */
  readonly isWritable: (path: string) => boolean;
  /** Whether its file system is mounted read-only. */
  readonly isMountedReadOnly: (path: string) => boolean;
}

export interface Opened {
  /** Absolute path. */
  readonly file: string;
  readonly folder: string;
  readonly document: Document;
  /** Converts YAML errors to problems with positions. */
  readonly toProblems: (faults: readonly ConfigFault[]) => Problem[];
  readonly located: (findings: readonly SchemaFinding[]) => Problem[];
  /** Resolves every reference in a value. */
  readonly resolve: (raw: unknown) => Resolved;
}

/** Reads the file at `path`. Returns one problem when that fails. */
export async function openFile(
  path: string,
  options: Pick<LoadOptions, "env" | "credentialsDirectory">,
): Promise<Opened | Problem> {
  const file = resolve(path);
  const folder = dirname(file);
  let document: Document;
  try {
    const bytes = await readFile(file);
    const line = lineOutsideUtf8(bytes);
    if (line !== null) return notUtf8(file, line);
    document = readDocument(bytes.toString("utf8"));
  } catch (error) {
    return unreadable(file, error as NodeJS.ErrnoException);
  }
  const credentialsDirectory = options.credentialsDirectory ?? options.env["CREDENTIALS_DIRECTORY"];
  return {
    file,
    folder,
    document,
    toProblems: (faults) =>
      faults.map(({ line, column, key, message, fix }) => ({ file, line, column, key, message, fix })),
    located: (findings) =>
      findings.map(({ path: at, of, message, fix }) => ({
        file,
        ...document.locate(at, of),
        key: keyText(at),
        message,
        fix,
      })),
    resolve: (raw) => resolveReferences(raw, { env: options.env, credentialsDirectory, folder }),
  };
}

/** Returns findings about values of the file at `path` with their positions. The file is read again; when that fails, they
 *  have none. */
export async function located(path: string, findings: readonly SchemaFinding[]): Promise<readonly Problem[]> {
  const opened = await openFile(path, { env: {} });
  if ("located" in opened) return opened.located(findings);
  return findings.map(({ path: at, message, fix }) => ({ ...opened, key: keyText(at), message, fix }));
}

/** An unresolved reference is reported once; findings about the type of its value are dropped. */
export function withoutUnresolved(
  findings: readonly SchemaFinding[],
  unresolved: readonly SchemaFinding[],
): readonly SchemaFinding[] {
  const missing = new Set(unresolved.map((finding) => finding.path.join("\0")));
  return findings.filter((finding) => !missing.has(finding.path.join("\0")));
}

/** Sorts problems by their position in the file. */
export const inOrder = (problems: readonly Problem[]): Problem[] =>
  [...problems].sort((a, b) => a.line - b.line || a.column - b.column);

const keyText = (path: Path): string =>
  path.reduce<string>(
    (text, step) => (typeof step === "number" ? `${text}[${step}]` : text === "" ? step : `${text}.${step}`),
    "",
  );

function unreadable(file: string, { code }: NodeJS.ErrnoException): Problem {
  const at = { file, line: 0, column: 0, key: "" };
  if (code === "ENOENT")
    return {
      ...at,
      message: "there is no such file",
      fix: "name another one with --config, or write one with the command init",
    };
  if (code === "EISDIR") return { ...at, message: "is a directory", fix: "name the YAML file in it with --config" };
  return { ...at, message: `cannot be read (${code})`, fix: "let the daemon's user read it" };
}

function notUtf8(file: string, line: number): Problem {
  return { file, line, column: 1, key: "", message: "is not UTF-8 text", fix: "save the file as UTF-8" };
}

/** Returns the first line, counted from 1, that is not valid UTF-8; null when all are. */
function lineOutsideUtf8(bytes: Buffer): number | null {
  if (isUtf8(bytes)) return null;
  for (let line = 1, from = 0; ; line++) {
    const end = bytes.indexOf(0x0a, from);
    if (end < 0 || !isUtf8(bytes.subarray(from, end))) return line;
    from = end + 1;
  }
}

/** Returns an absolute path; SQLite's `:memory:` is unchanged. */
export const databasePath = (folder: string, path: string): string =>
  path === ":memory:" ? path : resolve(folder, path);

/** Parses the value of the key `store`. */
export function storeConfig(text: string, folder: string): StoreConfig {
  if (!text.startsWith("sqlite:")) return { kind: "postgres", url: withVerifiedTls(text) };
  return { kind: "sqlite", file: databasePath(folder, text.slice("sqlite:".length)) };
}

/** The driver takes these modes as `verify-full`, and prints on standard error that its next version will not. */
const withVerifiedTls = (url: string): string =>
  /[?&]uselibpqcompat=true/.test(url)
    ? url
    : url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, "$1verify-full");

/** Parses a store that a command names, with references as in the file; relative to `folder`. Returns the problem as a
 *  sentence. */
export function parseStore(
  text: string,
  folder: string,
  env: LoadOptions["env"],
): StoreConfig | { readonly problem: string } {
  const { value, problems } = resolveReferences(text, {
    env,
    credentialsDirectory: env["CREDENTIALS_DIRECTORY"],
    folder,
  });
  const [first] = problems;
  if (first !== undefined) return { problem: `${first.message} (${first.fix})` };
  const url = String(value);
  if (!/^(sqlite:.+|postgres(ql)?:\/\/.+)$/.test(url))
    return { problem: 'is not a store: write "sqlite:<path>" or "postgres://user@host/database"' };
  const store = storeConfig(url, folder);
  if (store.kind === "sqlite" || postgresUrl(store.url) !== null) return store;
  return { problem: `${brokenPostgresUrl.message} (${brokenPostgresUrl.fix})` };
}
