// Where a webhook may go: public HTTPS addresses only, judged by what the name resolves to at the moment of each delivery,
// and connected to exactly that.

import { lookup } from "node:dns/promises";
import ipaddr from "ipaddr.js";

export interface Destination {
  readonly url: URL;
  /** The address to connect to. */
  readonly address: string;
  readonly family: 4 | 6;
}

export type Judged =
  | { readonly ok: true; readonly destination: Destination }
  | { readonly ok: false; readonly reason: string };

/** `allowPrivate`: for receivers on the operator's own machines; http is allowed then as well. Never rejects. */
export async function judge(text: string, allowPrivate: boolean): Promise<Judged> {
  const url = URL.parse(text);
  if (url === null) return refused("is no URL");
  if (url.protocol !== "https:" && !(allowPrivate && url.protocol === "http:"))
    return refused("is not HTTPS");
  if (url.username !== "" || url.password !== "") return refused("carries a user or password");
  const host = url.hostname.replace(/^\[|\]$/g, "");
  let found: readonly { readonly address: string; readonly family: number }[];
  try {
    found = ipaddr.isValid(host)
      ? [{ address: host, family: ipaddr.parse(host).kind() === "ipv6" ? 6 : 4 }]
      : await lookup(host, { all: true, verbatim: true });
  } catch {
    return refused("its name cannot be resolved");
  }
  const [first] = found;
  if (!first) return refused("its name cannot be resolved");
  // One private address among several is enough: which of them is used is not ours to trust.
  if (!allowPrivate && found.some(({ address }) => !isPublic(address)))
    return refused("is not at a public address");
  return { ok: true, destination: { url, address: first.address, family: first.family === 6 ? 6 : 4 } };
}

const refused = (reason: string): Judged => ({ ok: false, reason });

/** False for everything that is not plainly on the internet: loopback, private, link-local, metadata, reserved,
 *  multicast, and IPv4 wrapped into IPv6 in any of its forms. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  return parsed.range() === "unicast";
}
