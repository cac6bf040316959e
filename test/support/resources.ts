// What a test uses and gives back at its end: folders. And a log that nothing is read from.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "bridgehead/contract";
import { onTestFinished } from "vitest";

/** Creates an empty folder. `finished` registers its removal: `onTestFinished` of the test, or `afterAll` for all tests of
 *  a file. */
export function newFolder(finished: (undo: () => void) => void = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), "bridgehead-"));
  finished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** Discards its records. */
export const silentLog: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
