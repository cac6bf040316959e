// Every function that processes untrusted text is registered, so that linear.long.test.ts measures it.

import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { exempt, folders } from "./exempt.ts";
import { cases } from "./registry.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Parameters that may carry text from outside. */
const textual =
  /\b(?:string|String|Uint8Array|unknown|Mail|MessageEvent|Reply|Matter|FormFields|MimePart|Element|HeaderField|Instructions|SpeechInstructions|Json|Entry|Error)\b/;
const declared =
  /^export (?:async )?(?:function\*? (\w+)(?:<[^(]*>)?|const (\w+)(?:: [^=]+)? = (?:async )?)\(((?:[^()]|\([^()]*\))*)\)/gm;

/** `path#name` of every exported function with such a parameter. */
function textFunctions(path: string, source: string): string[] {
  return [...source.matchAll(declared)]
    .filter(([, , , parameters = ""]) => textual.test(parameters))
    .map(([, named, constant]) => `${path}#${named ?? constant}`);
}

const paths = folders.flatMap((folder) => globSync(`${folder}/*.ts`, { cwd: root })).sort();
const found = new Set(paths.flatMap((path) => textFunctions(path, readFileSync(root + path, "utf8"))));
const registered = Object.entries(cases).flatMap(([path, calls]) =>
  Object.keys(calls).map((name) => `${path}#${name}`),
);

describe("functions that process untrusted text", () => {
  it("finds the functions in the sources", () => {
    expect(found.size).toBeGreaterThan(100);
    const source = `export function a(text: string): void {}
export const b = (of: readonly string[], more: () => void): string => "";
export async function c<T>(
  q: Query,
  given: { readonly text: string },
): Promise<void> {}
export function d(count: number): void {}
function e(text: string): void {}`;
    expect(textFunctions("p", source)).toEqual(["p#a", "p#b", "p#c"]);
  });

  it("tests every one of them, or says why not", () => {
    const known = new Set([...registered, ...Object.values(exempt).flat()]);
    const isKnown = (name: string) => known.has(name) || known.has(name.replace(/#.*/, ""));
    expect([...found].filter((name) => !isKnown(name))).toEqual([]);
  });

  it("registers only what its file exports", () => {
    const missing = registered.filter((entry) => {
      const [path = "", name = ""] = entry.split("#");
      const exported = new RegExp(`^export (?:async )?(?:function\\*?|const|class) ${name}\\b`, "m");
      return !exported.test(readFileSync(root + path, "utf8"));
    });
    expect(missing).toEqual([]);
  });

  it("exempts nothing that does not exist, or is tested", () => {
    const all = new Set([...found, ...paths]);
    expect(
      Object.values(exempt)
        .flat()
        .filter((name) => !all.has(name)),
    ).toEqual([]);
    expect(
      Object.values(exempt)
        .flat()
        .filter((name) => registered.includes(name)),
    ).toEqual([]);
  });
});
