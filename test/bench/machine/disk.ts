// The time of one fdatasync on the disk of the store. Every answered message of the daemon waits for some of these.

import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { clock } from "../clock.ts";
import { median } from "../report.ts";

/** Milliseconds for one write of 4 kB and its fdatasync, median of 100. */
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
