// What the disk under the store takes to say "it is there": each answered mail waits for some of these, the bare script's for none.

import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { median } from "./report.ts";
import { clock } from "./rig.ts";

/** Milliseconds for one small write and its fdatasync, in the median; says how busy the disk is just now. */
export function syncTime(): number {
  const directory = mkdtempSync(join(tmpdir(), "bridgehead-bench-disk-"));
  const file = openSync(join(directory, "probe"), "w");
  const page = Buffer.alloc(4096, 1);
  const times = Array.from({ length: 100 }, () => {
    const began = clock();
    writeSync(file, page);
    fdatasyncSync(file);
    return clock() - began;
  });
  closeSync(file);
  rmSync(directory, { recursive: true, force: true });
  return median(times);
}
