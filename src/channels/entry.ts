// Resolves the entry point of a foreign adapter relative to the configuration's folder. Node's own `import`
// would resolve it relative to this file's folder.

import { existsSync, readFileSync, statSync } from "node:fs";
import { createRequire, findPackageJSON } from "node:module";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** Resolves a file, or a folder with a package.json or an index. Returns a file URL, or null when
 *  nothing exists there. */
export function pathEntry(path: string, fromFolder: string): string | null {
  const base = resolve(fromFolder, path);
  if (!existsSync(base)) return null;
  if (!statSync(base).isDirectory()) return pathToFileURL(base).href;
  const manifest = join(base, "package.json");
  if (existsSync(manifest)) return manifestEntry(manifest);
  const index = ["index.js", "index.mjs", "index.ts"]
    .map((file) => join(base, file))
    .find((file) => existsSync(file));
  return index === undefined ? null : pathToFileURL(index).href;
}

/** Resolves an installed package, with or without a subpath. Returns a file URL, or null when it is not
 *  installed. */
export function packageEntry(name: string, fromFolder: string): string | null {
  const from = pathToFileURL(join(fromFolder, "config.js"));
  try {
    if (/^(@[^/]+\/)?[^/]+$/.test(name)) {
      const manifest = findPackageJSON(name, from);
      return manifest === undefined ? null : manifestEntry(manifest);
    }
    return pathToFileURL(createRequire(from).resolve(name)).href;
  } catch {
    return null;
  }
}

function manifestEntry(manifest: string): string | null {
  const { exports, main } = JSON.parse(readFileSync(manifest, "utf8")) as {
    exports?: unknown;
    main?: string;
  };
  const entry = exported(exports) ?? main ?? "index.js";
  const file = [entry, `${entry}.js`, join(entry, "index.js")]
    .map((path) => join(dirname(manifest), path))
    .find(isFile);
  return file === undefined ? null : pathToFileURL(file).href;
}

/** Returns the main entry of an `exports` map, with the conditions of `import`. */
function exported(exports: unknown): string | undefined {
  if (typeof exports === "string") return exports;
  if (exports === null || typeof exports !== "object") return undefined;
  for (const [condition, target] of Object.entries(exports)) {
    if (![".", "node", "import", "module-sync", "default"].includes(condition)) continue;
    const found = exported(target);
    if (found !== undefined) return found;
  }
  return undefined;
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;
