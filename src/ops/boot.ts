// Identifies the boot of this machine. What a process wrote to a file before it ended is still there in the same
// boot; after another boot, writes without a sync may be missing.

import { readFileSync } from "node:fs";

/** A number that differs between two boots of a machine, and between machines. Null where the system has none. */
export const bootNumber: number | null = readBoot("/proc/sys/kernel/random/boot_id");

function readBoot(path: string): number | null {
  try {
    // 48 bits of a random UUID: an exact integer.
    const number = Number.parseInt(readFileSync(path, "latin1").replaceAll("-", "").slice(0, 12), 16);
    return Number.isNaN(number) ? null : number;
  } catch {
    return null;
  }
}
