// The daemon as it is installed: JavaScript, built from this source into a temporary directory. From source Node also
// keeps the compiler that strips the types, and every file twice.

import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Built {
  /** The built main.js. */
  readonly main: string;
  dispose(): void;
}

export async function build(): Promise<Built> {
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-built-"));
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const argv = [
    tsc,
    "-p",
    join(root, "tsconfig.build.json"),
    "--noCheck",
    "--outDir",
    join(directory, "dist"),
  ];
  await promisify(execFile)(process.execPath, argv);
  copyFileSync(join(root, "package.json"), join(directory, "package.json"));
  symlinkSync(join(root, "node_modules"), join(directory, "node_modules"));
  return {
    main: join(directory, "dist", "src", "main.js"),
    dispose: () => rmSync(directory, { recursive: true, force: true }),
  };
}
