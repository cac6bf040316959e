// Loaded into the daemon before anything else (`node --import`): wraps exported functions of its modules with the named
// defects and circumstances. PLANT="<name>,<name>". A module that imports a wrapped one gets a generated module in its place,
// which exports all of the real one, and the wrappers. Logs "planted" once for each name that has changed something.

import { writeSync } from "node:fs";
import { registerHooks } from "node:module";
import { isMainThread } from "node:worker_threads";
import type { Wraps } from "./planting.ts";
import { plantNamed } from "./plants.ts";

type Any = (...args: unknown[]) => unknown;
type Wrapper = (real: unknown, module: object) => unknown;

const root = new URL("../../../", import.meta.url).href;
const mark = "?planted";
const registry = "bridgehead.planted";

/** One report for each name. */
function reporting(name: string): () => void {
  let reported = false;
  return () => {
    if (!reported) writeSync(2, `${JSON.stringify({ level: "info", message: "planted", plant: name })}\n`);
    reported = true;
  };
}

/** The wrappers of all plants, by file and export. */
function collected(all: readonly Wraps[]): Map<string, Map<string, Wrapper[]>> {
  const files = new Map<string, Map<string, Wrapper[]>>();
  for (const wraps of all)
    for (const [file, wrappers] of Object.entries(wraps)) {
      const names = files.get(file) ?? new Map<string, Wrapper[]>();
      files.set(file, names);
      for (const [name, wrapper] of Object.entries(wrappers))
        names.set(name, [...(names.get(name) ?? []), wrapper]);
    }
  return files;
}

/** The functions replace classes too. They are hoisted, because modules may import each other in a circle; a default export
 *  is a value. */
function generated(file: string, names: Iterable<string>): string {
  const real = JSON.stringify(root + file);
  const own = [...names].map((name) =>
    name === "default"
      ? "export default wrapped().default;"
      : `export function ${name}(...args) {
  const planted = wrapped().${name};
  return new.target ? new planted(...args) : planted(...args);
}`,
  );
  return `import * as real from ${real};
export * from ${real};
let made;
function wrapped() { return (made ??= globalThis[Symbol.for("${registry}")](${JSON.stringify(file)}, real)); }
${own.join("\n")}
`;
}

const planted = (process.env["PLANT"] ?? "").split(",").filter(Boolean);

if (isMainThread && planted.length > 0) {
  const files = collected(planted.map((name) => plantNamed(name)(reporting(name))));
  const wrap = (file: string, module: Readonly<Record<string, unknown>>) =>
    Object.fromEntries(
      [...(files.get(file) ?? [])].map(([name, wrappers]) => {
        if (!(name in module)) throw new Error(`planting: ${file} exports no ${name}`);
        return [name, wrappers.reduce((inner, wrapper) => wrapper(inner, module) as Any, module[name])];
      }),
    );
  (globalThis as Record<symbol, unknown>)[Symbol.for(registry)] = wrap;
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const resolved = nextResolve(specifier, context);
      const ours = resolved.url.startsWith(root) && files.has(resolved.url.slice(root.length));
      return ours && context.parentURL !== resolved.url + mark
        ? { ...resolved, url: resolved.url + mark, format: "module" }
        : resolved;
    },
    load(url, context, nextLoad) {
      if (!url.startsWith(root) || !url.endsWith(mark)) return nextLoad(url, context);
      const file = url.slice(root.length, -mark.length);
      return { format: "module", shortCircuit: true, source: generated(file, files.get(file)?.keys() ?? []) };
    },
  });
}
