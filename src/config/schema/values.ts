// The value types of a configuration. Each is a string in the file and a number or a record in the program,
// so that the file shows the units.

import { units } from "bridgehead/contract";
import * as z from "zod";

/** `"30s"`, `"1.5m"` -> milliseconds, in the grammar of the contract. */
export const { duration } = units(z);

/** A duration of at least one millisecond. */
export const span = duration.refine((ms) => ms > 0, "must be longer than 0");

const listenForm = 'must be "host:port", such as "127.0.0.1:8025" or "[::1]:8025"';
const listenPattern = /^(\[[0-9a-fA-F:.]+\]|[^\s:/[\]]+):\d{1,5}$/;

/** `"127.0.0.1:8025"` or `"[::1]:8025"` -> host and port; port 0 selects a free one. */
export const listen = z
  .string(listenForm)
  .refine((text) => listenPattern.test(text), {
    error: listenForm,
    params: { fix: "write an address of this machine and a port; unix sockets and URLs are not possible here" },
  })
  // For editors, which read the JSON Schema.
  .meta({ pattern: listenPattern.source })
  .transform((text) => {
    const cut = text.lastIndexOf(":");
    return { host: text.slice(0, cut).replace(/^\[|\]$/g, ""), port: Number(text.slice(cut + 1)) };
  })
  .refine(({ port }) => port <= 65_535, "the port must be at most 65535");

/** True for an absolute http or https URL without user and fragment. */
export function isHttpUrl(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || !["http:", "https:"].includes(url.protocol)) return false;
  return url.username === "" && url.password === "" && url.hash === "";
}

/** An http(s) URL, without a trailing slash in the output. */
export const httpUrl = z
  .string()
  .refine(
    (text) => isHttpUrl(text) && URL.parse(text)?.search === "",
    "must be an http(s) URL without user, query or fragment",
  )
  .transform((text) => text.replace(/\/+$/, ""));

/** Returns the URL of a PostgreSQL server; null when the driver would read it differently or not at all. As for the driver,
 *  the host may be missing behind `user@` (it is then in the query). A password with `#`, `/` or `?` would end the host. */
export function postgresUrl(text: string): URL | null {
  const url = URL.parse(text) ?? URL.parse(text.replace("@/", "@localhost/"));
  if (url === null || /\s/.test(text) || url.hash !== "" || `${url.pathname}${url.search}`.includes("@")) return null;
  try {
    decodeURIComponent(url.username + url.password + url.hostname + url.pathname);
    return url;
  } catch {
    return null;
  }
}

/** Why `postgresUrl` returns null, and the remedy. */
export const brokenPostgresUrl = {
  message: "is not a valid URL: its user or password seems to have a character that is not percent-encoded",
  fix: "write postgres://user:${env:PGPASSWORD}@host/database, with the password as it is in PGPASSWORD; where the whole URL is a reference, encode % as %25, # as %23, / as %2F, ? as %3F and @ as %40 in its password",
} as const;

/** Returns true for a name or an address of this machine, with or without brackets. */
export function isLoopback(host: string): boolean {
  const plain = host.toLowerCase().replace(/^\[|\]$|\.$/g, "");
  return plain === "localhost" || plain.endsWith(".localhost") || plain === "::1" || /^127(\.\d{1,3}){3}$/.test(plain);
}

/** An http(s) URL of another service, unchanged. */
export const anyHttpUrl = z
  .string()
  .refine((text) => /^https?:$/.test(URL.parse(text)?.protocol ?? ""), "must be an http(s) URL");

/** A name used in logs, metrics and URLs. */
export const name = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9-]{0,62}$/,
    "must be lower-case letters, digits and hyphens, at most 63, not starting with a hyphen",
  );

/** A secret: given by reference only, never printed. */
export const secret = z.string().min(1, "must not be empty").meta({ secret: true });

/** An address pattern: `person@example.com`, `*@example.com`, `+49*`; compared in lower case. */
export const pattern = z
  .string()
  .regex(/^\S+$/, 'must be an address or a pattern such as "*@example.com"')
  .transform((text) => text.toLowerCase());
