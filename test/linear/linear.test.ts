// Every function that processes untrusted text takes linear time, and less than 50 ms of CPU time for 100 kB of any hostile
// text, on the main thread and in workers.

import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { allowances, exempt, folders } from "./exempt.ts";
import { hostileTexts, mostWork, superLinear } from "./hostile.ts";
import { cases } from "./registry.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Parameters that may carry text from outside. */
const textual =
  /\b(?:string|String|Uint8Array|unknown|Mail|MessageEvent|Reply|Matter|Form|Part|Element|HeaderField|Instructions|Json|Entry|Error)\b/;
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

describe("functions that process untrusted text are linear (review 2)", () => {
  it.each(Object.entries(cases))("%s", async (path, calls) => {
    const module = (await import(root + path)) as Record<string, (...given: readonly unknown[]) => unknown>;
    const slow: string[] = [];
    for (const [name, call] of Object.entries(calls)) {
      const tested = module[name];
      if (tested === undefined) throw new Error(`${path} has no ${name}`);
      for (const hostile of hostileTexts) {
        const wrong = await superLinear((text) => call(tested, text), hostile, allowances[`${path}#${name}`]);
        if (wrong !== null) slow.push(`${name}(${hostile.name}): ${wrong}`);
      }
    }
    expect(slow).toEqual([]);
  });

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

describe("the check can fail", () => {
  const text = { name: "spaces", of: (length: number) => `${" ".repeat(length - 1)}x` };

  it.each([
    ["a quadratic regular expression", (given: string) => / +$/.test(given)],
    [
      "a quadratic loop",
      (given: string) => {
        let sum = 0;
        for (let at = 0; at < given.length; at += 8)
          for (let to = 0; to < given.length; to += 8) sum += given.charCodeAt(at) ^ given.charCodeAt(to);
        return sum;
      },
    ],
    ["an exponential one", (given: string) => /^(?: +)+$/.test(given.slice(0, 27) + given.at(-1))],
    [
      "a linear one that is too slow",
      (given: string) => {
        for (let n = 0; n < 200; n += 1) JSON.parse(JSON.stringify(given.split("")));
      },
    ],
    [
      "one that overflows the stack",
      function deep(given: string): unknown {
        return given === "" ? 0 : [deep(given.slice(1))];
      },
    ],
  ])("on %s", async (_, run) => {
    expect(await superLinear(run, text)).toMatch(/takes \d|call stack/);
  });

  it("and lets a linear one pass", async () => {
    for (const hostile of hostileTexts)
      expect(await superLinear((given) => given.replace(/a/g, "b").trim(), hostile)).toBeNull();
    expect(mostWork).toBe(50);
  });
});
