// Durations and sizes as people write them in a configuration file.

import * as z from "zod";

const milliseconds = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const bytes = { B: 1, KB: 1000, MB: 1_000_000, GB: 1_000_000_000 } as const;

/** `"30s"`, `"5m"`, `"2h"`, `"3d"`, `"500ms"` → milliseconds. */
export function duration(standard: string) {
  return z
    .string()
    .regex(/^\d+(\.\d+)?(ms|s|m|h|d)$/, 'expected a duration such as "30s", "5m" or "2h"')
    .transform((text) => scaled(text, milliseconds))
    .prefault(standard);
}

/** `"25MB"`, `"500KB"` → bytes. */
export function size(standard: string) {
  return z
    .string()
    .regex(/^\d+(\.\d+)?(B|KB|MB|GB)$/, 'expected a size such as "25MB"')
    .transform((text) => scaled(text, bytes))
    .prefault(standard);
}

function scaled(text: string, units: Readonly<Record<string, number>>): number {
  const [, amount, unit] = /^([\d.]+)([A-Za-z]+)$/.exec(text) ?? [];
  return Math.round(Number(amount) * (units[unit ?? ""] ?? 1));
}
