// Durations, sizes and host names in the configuration: one grammar for the core and for every adapter.

import type * as z from "zod";

/** Milliseconds, for the timing table of an adapter. */
export const second = 1000;
export const minute = 60 * second;
export const hour = 60 * minute;
export const day = 24 * hour;

const milliseconds = { ms: 1, s: second, m: minute, h: hour, d: day } as const;
const durationForm = /^\d{1,9}(\.\d{1,9})?(ms|s|m|h|d)$/;
const bytes = { B: 1, KB: 1000, MB: 1_000_000, GB: 1_000_000_000 } as const;

/** Creates the schemas of durations and sizes with the adapter's own zod: `const { duration, size } = units(z)`. In the
 *  file each is a string, `"1.5m"` or `"25MB"`. Write a default the same way: `duration.prefault("30s")`. The core
 *  recognizes the schemas by their metadata and lists the valid units in error messages. */
export function units(zod: Pick<typeof z, "string">) {
  /** Parses `"500ms"`, `"30s"`, `"1.5m"`, `"2h"`, `"3d"` to whole milliseconds. */
  const duration = zod
    .string()
    .regex(durationForm, 'must be a duration such as "30s", "1.5m", "2h" or "3d"')
    .meta({ unit: "duration" })
    .transform((text) => scaled(text, milliseconds));
  /** Parses `"500B"`, `"64KB"`, `"1.5MB"`, `"1GB"` to whole bytes. A kilobyte has 1000 bytes. */
  const size = zod
    .string()
    .regex(/^\d{1,9}(\.\d{1,9})?(B|KB|MB|GB)$/, 'must be a size such as "64KB", "25MB" or "1GB"')
    .meta({ unit: "size" })
    .transform((text) => scaled(text, bytes));
  return { duration, size };
}

/** Matches a host name or an address, without a scheme and a port: DNS would look for them as a part of the name. */
export const hostPattern = /^(?:[^\s:/@]*|[0-9a-fA-F:.]+(?:%\w+)?)$/;

/** Parses a duration in the same grammar, without zod. Returns milliseconds, or null. */
export const readDuration = (text: string): number | null =>
  durationForm.test(text) ? scaled(text, milliseconds) : null;

function scaled(text: string, factors: Readonly<Record<string, number>>): number {
  const [, amount = "", unit = ""] = /^([\d.]+)([A-Za-z]+)$/.exec(text) ?? [];
  return Math.round(Number(amount) * (factors[unit] ?? 1));
}
