// The daemon as it is installed: JavaScript built from this checkout into a temporary directory, with its launcher.

import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Built {
  /** Contains dist/, bin/, package.json and node_modules/. */
  readonly directory: string;
  /** The built main.js. */
  readonly main: string;
  /** The launcher bridgehead.cjs. */
  readonly launcher: string;
  /** Removes the directory. */
  dispose(): void;
}

export async function build(): Promise<Built> {
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-built-"));
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const dist = join(directory, "dist");
  const argv = [tsc, "-p", join(root, "tsconfig.build.json"), "--noCheck", "--outDir", dist];
  await promisify(execFile)(process.execPath, argv);
  for (const name of ["package.json", "bin"]) cpSync(join(root, name), join(directory, name), { recursive: true });
  symlinkSync(join(root, "node_modules"), join(directory, "node_modules"));
  return {
    directory,
    main: join(dist, "src", "main.js"),
    launcher: join(directory, "bin", "bridgehead.cjs"),
    dispose: () => rmSync(directory, { recursive: true, force: true }),
  };
}
