// Checks the destination of a webhook: public HTTPS addresses, plus those that the operator allows. Checks
// the addresses that the name resolves to at each delivery, and connects to exactly those. Binds the addresses of servers.

import { lookup } from "node:dns/promises";
import { BlockList, isIP, type Server } from "node:net";
import ipaddr from "ipaddr.js";

export interface Destination {
  readonly url: URL;
  /** The addresses to connect to, in this order. Never empty; all of them were checked. */
  readonly addresses: readonly ResolvedAddress[];
}

export interface ResolvedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

export type Judged =
  | { readonly ok: true; readonly destination: Destination }
  /** `unresolved`: the name may resolve at a later attempt. All other refusals hold until the URL or its
   *  addresses change. */
  | { readonly ok: false; readonly reason: string; readonly unresolved: boolean };

/** Non-public destinations that are allowed, over http as well: host names, addresses and CIDR ranges;
 *  or everything. */
export type Allowed = readonly string[] | "everything";

/** Returns all addresses of a name; rejects when there are none. */
export type Resolve = (host: string) => Promise<readonly { readonly address: string }[]>;

const longestUrl = 2048;

const resolveBySystem: Resolve = (host) => lookup(host, { all: true, verbatim: true });

/** Checks a webhook URL. Never rejects. `signal` limits the time for name resolution. */
export async function judge(
  text: string,
  allowed: Allowed,
  options: { readonly resolve?: Resolve; readonly signal?: AbortSignal } = {},
): Promise<Judged> {
  const url = readUrl(text);
  if (typeof url === "string") return refused(url);
  const host = hostOf(url);
  const named = isAllowed(host, allowed);
  if (url.protocol === "http:" && allowed.length === 0) return refused("is not HTTPS");
  if (isLocalName(host) && !named) return refused(notPublic);
  let found: readonly ResolvedAddress[];
  try {
    found = isIP(host) > 0 ? [known(host)] : await resolved(host, options);
  } catch {
    return { ok: false, reason: "its name cannot be resolved", unresolved: true };
  }
  const own = found.filter(({ address }) => named || isAllowed(address, allowed));
  // One private address among several is enough to refuse, because the resolver decides which one is used.
  if (found.some((one) => !own.includes(one) && !isPublic(one.address))) return refused(notPublic);
  if (url.protocol === "http:" && own.length < found.length) return refused("is not HTTPS");
  return { ok: true, destination: { url, addresses: found } };
}

const notPublic = "is not at a public address";
const refused = (reason: string): Judged => ({ ok: false, reason, unresolved: false });

/** Returns the URL, or the reason for its refusal. URLs that parsers read differently are refused, so
 *  that the operator sees the host that is actually used. */
function readUrl(text: string): URL | string {
  if (text.length > longestUrl) return "is too long";
  if (/[\p{Cc}\p{Z}\\]/u.test(text)) return "has characters that no URL has";
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  const url = URL.parse(text);
  if (url === null) return "is no URL";
  if (!/^https?:$/.test(url.protocol)) return "is not HTTPS";
  if (authority === undefined || url.hostname === "") return "is no URL";
  if (authority.includes("@")) return "carries a user or password";
  return url;
}

/** Returns the host of a URL without brackets and without the trailing dot of the root. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");

async function resolved(
  host: string,
  { resolve = resolveBySystem, signal }: Parameters<typeof judge>[2] & object,
): Promise<readonly ResolvedAddress[]> {
  // The system resolver cannot be cancelled; the abort only ends the wait for it.
  const found = await (signal ? Promise.race([resolve(host), aborted(signal)]) : resolve(host));
  if (found.length === 0) throw new Error("it has no address");
  return found.map(({ address }) => known(address));
}

function aborted(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = () => reject(new Error("resolving took too long"));
  if (signal.aborted) stop();
  signal.addEventListener("abort", stop, { once: true });
  return promise;
}

const known = (address: string): ResolvedAddress => ({ address, family: isIP(address) === 6 ? 6 : 4 });

/** Names that always resolve to this machine. */
export const isLocalName = (host: string): boolean => /(^|\.)localhost\.?$/i.test(host);

/** Returns false unless the address is clearly on the internet. Excluded: loopback, private, link-local,
 *  metadata, reserved and multicast addresses, and IPv4 embedded in IPv6 in any form. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== "unicast") return false;
  // Only this IPv6 range is allocated for global unicast (RFC 4291). Other addresses embed IPv4 or are internal.
  return parsed.kind() === "ipv6" ? parsed.match(globalUnicast) : !inside.includes(parsed.toString());
}

const globalUnicast = ipaddr.parseCIDR("2000::/3");
/** Appears public, but serves a cloud's own machines (Azure's platform service). */
const inside = ["168.63.129.16"];

/** Returns whether the operator allows `host`: a name, or an address in any valid notation. */
export function isAllowed(host: string, allowed: Allowed): boolean {
  if (allowed === "everything") return true;
  const plain = host.toLowerCase().replace(/%.*|\.$/, "");
  if (isIP(plain) === 0) return allowed.some((entry) => entry.toLowerCase().replace(/\.$/, "") === plain);
  const ranges = new BlockList();
  for (const entry of allowed) addRange(ranges, entry);
  const address = ipaddr.process(plain);
  return ranges.check(address.toString(), address.kind());
}

/** Adds a CIDR range or an address. Entries that are neither are ignored. */
function addRange(ranges: BlockList, entry: string): void {
  const [address = "", bits] = entry.split("/");
  const family = { 0: null, 4: "ipv4", 6: "ipv6" } as const;
  const kind = family[isIP(address) as 0 | 4 | 6];
  const most = kind === "ipv4" ? 32 : 128;
  const width = Number(bits ?? most);
  if (kind !== null && Number.isInteger(width) && width >= 0 && width <= most) ranges.addSubnet(address, width, kind);
}

export interface ListenAddress {
  readonly host: string;
  /** Port 0 selects a free one. */
  readonly port: number;
}

/** Resolves when the server listens. `key`: the configuration key of the address. */
export function bound(server: Server, { host, port }: ListenAddress, key: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      const problem = `listening on ${host}:${port} (${key}): ${error.message} (${bindRemedy(error, port)})`;
      reject(new Error(problem, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
}

/** Returns what an operator does about an address that cannot be bound. */
export function bindRemedy({ code }: NodeJS.ErrnoException, port: number): string {
  if (code === "EADDRINUSE") return `end the other program (ss -ltnp 'sport = :${port}'), or choose another port`;
  return code === "EACCES" ? "use a port above 1023" : "use an address of this machine";
}
