// Durations and sizes as an operator writes them: one grammar for the core and for every adapter.

import type * as z from "zod";

const milliseconds = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const bytes = { B: 1, KB: 1000, MB: 1_000_000, GB: 1_000_000_000 } as const;

/** The schemas of quantities, made with the adapter's own zod: `const { duration, size } = units(z)`. In the file each is a
 *  text, `"1.5m"` or `"25MB"`; a default is written alike: `duration.prefault("30s")`. The core recognizes them by their
 *  metadata and tells the operator which units there are. */
export function units(zod: Pick<typeof z, "string">) {
  /** `"500ms"`, `"30s"`, `"1.5m"`, `"2h"`, `"3d"` -> whole milliseconds. */
  const duration = zod
    .string()
    .regex(/^\d{1,9}(\.\d{1,9})?(ms|s|m|h|d)$/, 'must be a duration such as "30s", "1.5m", "2h" or "3d"')
    .meta({ unit: "duration" })
    .transform((text) => scaled(text, milliseconds));
  /** `"500B"`, `"64KB"`, `"1.5MB"`, `"1GB"` -> whole bytes; a kilobyte has 1000. */
  const size = zod
    .string()
    .regex(/^\d{1,9}(\.\d{1,9})?(B|KB|MB|GB)$/, 'must be a size such as "64KB", "25MB" or "1GB"')
    .meta({ unit: "size" })
    .transform((text) => scaled(text, bytes));
  return { duration, size };
}

function scaled(text: string, factors: Readonly<Record<string, number>>): number {
  const [, amount = "", unit = ""] = /^([\d.]+)([A-Za-z]+)$/.exec(text) ?? [];
  return Math.round(Number(amount) * (factors[unit] ?? 1));
}
