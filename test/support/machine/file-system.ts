// A small file system of its own in memory, to be filled or mounted read-only. Needs root.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** Why no file system can be mounted; null when it can. */
export const missingRoot = process.getuid?.() === 0 ? null : "root is needed to mount a small file system";

/** Mounts an empty file system of `megabytes` until the test ends. */
export function smallFileSystem(megabytes: number): string {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-small-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m`, "tmpfs", folder]);
  onTestFinished(() => {
    execFileSync("umount", [folder]);
    rmSync(folder, { recursive: true });
  });
  return folder;
}

/** Uses all free space for a new file. */
export function fill(folder: string, file: string): void {
  const { bavail, bsize } = statfsSync(folder);
  writeFileSync(file, new Uint8Array(bavail * bsize));
}

export const mountReadOnly = (folder: string): void => {
  execFileSync("mount", ["-o", "remount,ro", folder]);
};
