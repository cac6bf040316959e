// Reads source files as text: which module imports which, and the code without comments and texts. No compiler API is needed.

import { posix } from "node:path";

export interface SourceFile {
  /** From the repository's root, with `/`. */
  readonly path: string;
  readonly text: string;
}

/** Returns the violations of a rule. */
export type Rule = (files: readonly SourceFile[]) => string[];

export interface Import {
  readonly from: string;
  /** A path from the root for a relative import, else the name as written; "?" for a computed one. */
  readonly to: string;
  readonly relative: boolean;
  readonly typeOnly: boolean;
  /** The values that are imported by name, as the module calls them. */
  readonly names: readonly string[];
}

// The formatter puts every import and re-export at the beginning of a line.
const withFrom = /^(?:import|export)\b([^'"`;=]*?)\bfrom\s*["']([^"']+)["']/gm;
const bare = /^import\s*["']([^"']+)["']/gm;
const called = /\b(?:import|require)\s*\(\s*(?:(["'`])([^"'`$]+)\1\s*[,)]|(?=[^"'`\s)]|`[^`]*\$))/g;

export function importsOf({ path, text }: SourceFile): Import[] {
  const code = withoutComments(text);
  const found: [specifier: string, clause: string][] = [
    ...[...code.matchAll(withFrom)].map(([, clause = "", name = ""]): [string, string] => [name, clause]),
    ...[...code.matchAll(bare)].map(([, name = ""]): [string, string] => [name, ""]),
    ...[...code.matchAll(called)].map(([, , name = "?"]): [string, string] => [name, ""]),
  ];
  return found.map(([specifier, clause]) => {
    const relative = specifier.startsWith(".");
    return {
      from: path,
      to: relative ? posix.join(posix.dirname(path), specifier) : specifier,
      relative,
      typeOnly: /^\s*type\b/.test(clause),
      names: listed(clause),
    };
  });
}

/** Returns the names in the braces of an import or export, without types, as they are called before `as`. */
const listed = (clause: string): string[] =>
  [...(/\{([^}]*)\}/.exec(clause)?.[1] ?? "").matchAll(/(?:^|,)\s*(?!type\s)(\w+)/g)].map(([, name = ""]) => name);

/** Only comments that begin a line or stand alone: what follows code on its line cannot hold an import. */
function withoutComments(text: string): string {
  return text.replace(/^\s*\/\/.*$/gm, "").replace(/^\s*\/\*[\s\S]*?\*\//gm, "");
}

/** `src/store/sqlite.ts` -> `store`; `src/app.ts` -> `app.ts`; `adapters/email/x.ts` -> `adapters/email`. */
export function zoneOf(path: string): string {
  const [top = "", second = ""] = path.split("/");
  return top === "src" ? second : `${top}/${second}`;
}

/** `@hono/node-server/x` -> `@hono/node-server`; `node:fs` and `bridgehead/contract` as they are. */
export function packageOf(specifier: string): string {
  if (specifier.startsWith("node:") || specifier.startsWith("bridgehead/")) return specifier;
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

/** Returns the code without comments. */
export const uncommented = ({ text }: SourceFile): string =>
  text.replace(/\/\*[\s\S]*?\*\//g, "").replace(/(^|\s)\/\/.*$/gm, "$1");

/** Returns the code without comments, and with empty texts. */
export const codeOf = (file: SourceFile): string =>
  uncommented(file).replace(/`(?:[^`\\]|\\.)*`|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, "''");
