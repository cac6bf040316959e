// An opened configuration file: its text, and functions that add positions to problems.

import { isUtf8 } from "node:buffer";
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { AdapterDefinition } from "bridgehead/contract";
import type { Problem, StoreConfig } from "./config.ts";
import { type Document, type Fault, type Path, readDocument } from "./document.ts";
import type { Finding } from "./explain.ts";
import { type Resolved, resolveReferences } from "./secrets.ts";

export interface LoadOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of systemd's credentials; default: CREDENTIALS_DIRECTORY of `env`. */
  readonly credentialsDirectory?: string;
  /** Loads an adapter by its name in the file, relative to the file's folder. Rejects with a message for
   *  the operator; an error's `fix`, if present, is shown as the remedy. */
  readonly adapters: (name: string, fromFolder: string) => Promise<AdapterDefinition>;
  /** Set when a missing folder of the store is a problem (`check`). Without it, the folder is created at
   *  the start. */
  readonly folderExists?: (path: string) => boolean;
}

export interface Opened {
  /** Absolute path. */
  readonly file: string;
  readonly folder: string;
  readonly document: Document;
  /** Converts YAML errors to problems with positions. */
  readonly told: (faults: readonly Fault[]) => Problem[];
  readonly located: (findings: readonly Finding[]) => Problem[];
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
    told: (faults) =>
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

/** An unresolved reference is reported once; findings about the type of its value are dropped. */
export function withoutUnresolved(
  findings: readonly Finding[],
  unresolved: readonly Finding[],
): readonly Finding[] {
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
    return { ...at, message: "there is no such file", fix: "name another one with --config" };
  if (code === "EISDIR")
    return { ...at, message: "is a directory", fix: "name the YAML file in it with --config" };
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
  if (!text.startsWith("sqlite:")) return { kind: "postgres", url: text };
  return { kind: "sqlite", file: databasePath(folder, text.slice("sqlite:".length)) };
}
