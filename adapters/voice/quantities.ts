// Durations as people write them in a configuration file.

import * as z from "zod";

const milliseconds = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 } as const;

/** `"250ms"`, `"30s"`, `"5m"`, `"2h"` → milliseconds. */
export function span() {
  return z
    .string()
    .regex(/^\d+(\.\d+)?(ms|s|m|h)$/, 'expected a duration such as "250ms", "30s" or "5m"')
    .transform((text) => {
      const [, amount, unit] = /^([\d.]+)([a-z]+)$/.exec(text) ?? [];
      return Math.round(Number(amount) * milliseconds[unit as keyof typeof milliseconds]);
    });
}

/** The same with a standard. */
export function duration(standard: string) {
  return span().prefault(standard);
}
