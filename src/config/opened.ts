// A configuration file that was read: its text, and the places in it that problems are told with.

import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import type { AdapterDefinition } from "bridgehead/contract";
import type { Problem, StoreConfig } from "./config.ts";
import { type Document, type Fault, type Path, readDocument } from "./document.ts";
import type { Finding } from "./explain.ts";
import { type Resolved, resolveReferences } from "./secrets.ts";

export interface LoadOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where systemd put the credentials; default: CREDENTIALS_DIRECTORY of `env`. */
  readonly credentialsDirectory?: string;
  /** Finds an adapter by the name in the file, from the file's folder. Rejects with a message for the operator; an
   *  error's `fix`, if it has one, is shown as the cure. */
  readonly adapters: (name: string, fromFolder: string) => Promise<AdapterDefinition>;
  /** Given where a missing folder of the store is a problem of the configuration (`check`); a start makes it. */
  readonly folderExists?: (path: string) => boolean;
}

export interface Opened {
  /** Absolute. */
  readonly file: string;
  readonly folder: string;
  readonly document: Document;
  /** What is wrong with its YAML. */
  readonly told: (faults: readonly Fault[]) => Problem[];
  readonly located: (findings: readonly Finding[]) => Problem[];
  /** With every reference in it followed. */
  readonly resolve: (raw: unknown) => Resolved;
}

/** Reads the file at `path`; the one problem when that is not possible. */
export async function openFile(
  path: string,
  options: Pick<LoadOptions, "env" | "credentialsDirectory">,
): Promise<Opened | Problem> {
  const file = resolve(path);
  const folder = dirname(file);
  let document: Document;
  try {
    document = readDocument(await readFile(file, "utf8"));
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

/** A value that could not be found is reported once, not again for the shape it does not have. */
export function withoutUnresolved(
  findings: readonly Finding[],
  unresolved: readonly Finding[],
): readonly Finding[] {
  const missing = new Set(unresolved.map((finding) => finding.path.join("\0")));
  return findings.filter((finding) => !missing.has(finding.path.join("\0")));
}

/** As one reads the file. */
export const inOrder = (problems: readonly Problem[]): Problem[] =>
  [...problems].sort((a, b) => a.line - b.line || a.column - b.column);

const keyText = (path: Path): string =>
  path.reduce<string>(
    (text, step) => (typeof step === "number" ? `${text}[${step}]` : text === "" ? step : `${text}.${step}`),
    "",
  );

function unreadable(file: string, { code }: NodeJS.ErrnoException): Problem {
  const fix = code === "ENOENT" ? "name another one with --config" : "let the daemon's user read it";
  const message = code === "ENOENT" ? "there is no such file" : `cannot be read (${code})`;
  return { file, line: 0, column: 0, key: "", message, fix };
}

/** An absolute path, unless it is one that SQLite keeps in memory. */
export const databasePath = (folder: string, path: string): string =>
  path === ":memory:" ? path : resolve(folder, path);

/** The value of the key `store`. */
export function storeConfig(text: string, folder: string): StoreConfig {
  if (!text.startsWith("sqlite:")) return { kind: "postgres", url: text };
  return { kind: "sqlite", file: databasePath(folder, text.slice("sqlite:".length)) };
}
