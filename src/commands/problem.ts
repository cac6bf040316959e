// Formats a problem of the configuration for all commands.

import type { Problem } from "../config/index.ts";

/** `file:line:column key: message (fix)` */
export function problemLine({ file, line, column, key, message, fix }: Problem): string {
  const place = line === 0 ? file : `${file}:${line}:${column}`;
  return `${place}${key === "" ? "" : ` ${key}`}: ${message} (${fix})`;
}
