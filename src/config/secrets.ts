// References to values outside the file: ${env:NAME}, ${file:/path}, ${credential:name}. `$${` is a literal `${`.

import { readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Path } from "./document.ts";
import type { SchemaFinding } from "./explain.ts";
import { nearest } from "./nearest.ts";

export interface Sources {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Folder of the unit's systemd credentials. */
  readonly credentialsDirectory: string | undefined;
  /** Base of relative file references. */
  readonly folder: string;
}

export interface ResolvedReference {
  readonly path: Path;
  /** As written, such as `${env:PORT}`. */
  readonly reference: string;
  readonly text: string;
}

export interface Resolved {
  readonly value: unknown;
  /** The values that are one reference and nothing else. */
  readonly references: readonly ResolvedReference[];
  readonly problems: readonly SchemaFinding[];
  readonly warnings: readonly SchemaFinding[];
}

const reference = /\$\$\{|\$\{([^{}]*)\}/g;
const kinds = ["env", "file", "credential"] as const;

export function isReference(text: string): boolean {
  return [...text.matchAll(reference)].some((match) => match[1] !== undefined);
}

/** Returns the paths of all `${file:/path}` references in a value. */
export function referencedFiles(raw: unknown, folder: string): readonly string[] {
  if (typeof raw === "string") {
    return [...raw.matchAll(reference)].flatMap(([, body = ""]) =>
      body.trim().startsWith("file:") ? [resolve(folder, body.trim().slice("file:".length).trim())] : [],
    );
  }
  if (raw === null || typeof raw !== "object") return [];
  return Object.values(raw).flatMap((inner) => referencedFiles(inner, folder));
}

/** Replaces every reference in every string; in the user and the password of a URL, by its percent-encoded value. An
 *  unresolved reference becomes a problem at its position. */
export function resolveReferences(raw: unknown, sources: Sources): Resolved {
  const references: ResolvedReference[] = [];
  const problems: SchemaFinding[] = [];
  const warnings: SchemaFinding[] = [];
  const walk = (value: unknown, path: Path): unknown => {
    if (typeof value === "string") {
      const { from, to } = userinfoOf(value);
      return value.replace(reference, (whole, body: string | undefined, at: number) => {
        if (body === undefined) return "${";
        const found = lookUp(body, sources);
        if ("text" in found) {
          if (found.warning !== undefined) warnings.push({ path, of: "value", ...found.warning });
          if (whole === value) references.push({ path, reference: whole, text: found.text });
          if (at < from || at >= to) return found.text;
          if (/%[\da-f]{2}/i.test(found.text)) warnings.push({ path, of: "value", ...encodedTwice(body) });
          return encodeURIComponent(found.text);
        }
        problems.push({ path, of: "value", ...found });
        return "";
      });
    }
    if (Array.isArray(value)) return value.map((item, index) => walk(item, [...path, index]));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, walk(inner, [...path, key])]));
  };
  return { value: walk(raw, []), references, problems, warnings };
}

/** Returns the range of the user and the password in a URL whose references are not replaced; empty without one. */
function userinfoOf(text: string): { readonly from: number; readonly to: number } {
  const plain = text.replace(reference, (whole) => "x".repeat(whole.length));
  const [, scheme = "", userinfo = ""] = /^([a-z][a-z\d+.-]*:\/\/)([^/?#]*)@/i.exec(plain) ?? [];
  return { from: scheme.length, to: scheme.length + userinfo.length };
}

const encodedTwice = (body: string): Advice => ({
  message: `seems to be percent-encoded already: \${${body}}`,
  fix: "write the value as it is: it is encoded here, in the user and the password of a URL",
});

type Advice = { readonly message: string; readonly fix: string };
type FoundSecret = { readonly text: string; readonly warning?: Advice } | Advice;

function lookUp(body: string, sources: Sources): FoundSecret {
  const cut = body.indexOf(":");
  const kind = cut < 0 ? "" : body.slice(0, cut).trim();
  const rest = body.slice(cut + 1).trim();
  if (rest === "") return { message: `refers to nothing: \${${body}}`, fix: "name what is meant: ${env:NAME}" };
  if (kind === "env") return fromEnvironment(rest, sources);
  if (kind === "file") return fromFile(resolve(sources.folder, rest));
  if (kind === "credential") return fromCredential(rest, sources);
  if (cut < 0) return { message: `has a reference without a kind: \${${body}}`, fix: `write \${env:${rest}}` };
  const guess = nearest(kind, kinds);
  return {
    message: `has a reference of an unknown kind: \${${body}}`,
    fix:
      guess === undefined
        ? "use ${env:NAME}, ${file:/path} or ${credential:name}"
        : `did you mean \${${guess}:${rest}}?`,
  };
}

function fromEnvironment(name: string, { env }: Sources): FoundSecret {
  const text = env[name];
  if (text === undefined) {
    return {
      message: `needs the environment variable ${name}, which is not set`,
      fix: `set ${name}, or use \${file:/path}`,
    };
  }
  if (text === "")
    return { message: `needs the environment variable ${name}, which is empty`, fix: `give ${name} a value` };
  return { text };
}

function fromCredential(name: string, { credentialsDirectory }: Sources): FoundSecret {
  const fix = `write it to /etc/bridgehead/secrets/${name} and restart the service, or add LoadCredential=${name}:/path/to/its/file to the unit`;
  if (!/^[A-Za-z0-9_.-]+$/.test(name) || /^\.+$/.test(name)) {
    return {
      message: `refers to a credential that is not a name: ${name}`,
      fix: "use letters, digits, dots, hyphens",
    };
  }
  if (credentialsDirectory === undefined) {
    return {
      message: `needs the credential ${name}, but systemd gave none to this process`,
      fix: `in the service: ${fix}; by hand: export CREDENTIALS_DIRECTORY=/the/folder/of/${name} (as root, check and doctor read that of the service)`,
    };
  }
  for (const id of [name, `${folderId}_${name}`]) {
    const path = join(credentialsDirectory, id);
    const found = fromFile(path);
    if ("text" in found) return { text: found.text };
    // A file that is empty, or a folder that may not be read, has another fix than a missing file.
    if (!found.isMissing) return found;
  }
  return { message: `needs the credential ${name}, which is not in ${credentialsDirectory}`, fix };
}

/** The unit loads a whole folder under this id; systemd names its files `<id>_<file>` (systemd.exec(5)). */
const folderId = "secrets";

function fromFile(path: string): Extract<FoundSecret, { text: string }> | (Advice & { readonly isMissing?: true }) {
  let text: string;
  let open: boolean;
  try {
    // Without its byte order mark, which Windows editors write.
    text = new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(path)).replace(/\r?\n$/, "");
    open = (statSync(path).mode & 0o004) !== 0;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT")
      return {
        message: `needs the file ${path}, which does not exist`,
        fix: "create it, or correct the path",
        isMissing: true,
      };
    if (code === "ERR_ENCODING_INVALID_ENCODED_DATA")
      return { message: `needs the file ${path}, which is not UTF-8 text`, fix: "save the file as UTF-8" };
    if (code === "EACCES")
      return {
        message: `needs the file ${path}, which may not be read`,
        fix: "let the daemon's user read it",
      };
    return { message: `needs the file ${path}, which cannot be read (${code})`, fix: "name a readable file" };
  }
  if (text === "") return { message: `needs the file ${path}, which is empty`, fix: "write the value into it" };
  if (!open) return { text };
  return {
    text,
    warning: {
      message: `comes from ${path}, which everybody on this machine can read`,
      fix: `chmod 600 ${path}`,
    },
  };
}
