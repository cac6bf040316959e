// Where a webhook may go: public HTTPS addresses only, and what the operator allows besides. Judged by what the name
// resolves to at the moment of each delivery, and connected to exactly that.

import { lookup } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import ipaddr from "ipaddr.js";

export interface Destination {
  readonly url: URL;
  /** The addresses to connect to, in this order. Never empty; all of them were judged. */
  readonly addresses: readonly ResolvedAddress[];
}

export interface ResolvedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

export type Judged =
  | { readonly ok: true; readonly destination: Destination }
  /** `unresolved`: it may be another time; everything else is so for as long as the URL and its name's addresses are. */
  | { readonly ok: false; readonly reason: string; readonly unresolved: boolean };

/** What is reached although it is not public, over http as well: host names, addresses and CIDR ranges; or everything. */
export type Allowed = readonly string[] | "everything";

/** Every address of a name; rejects when there is none. */
export type Resolve = (host: string) => Promise<readonly { readonly address: string }[]>;

const longestUrl = 2048;

const resolveBySystem: Resolve = (host) => lookup(host, { all: true, verbatim: true });

/** Never rejects. `signal`: how long the name may take. */
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
  // One private address among several is enough: which of them is used is not ours to trust.
  if (found.some((one) => !own.includes(one) && !isPublic(one.address))) return refused(notPublic);
  if (url.protocol === "http:" && own.length < found.length) return refused("is not HTTPS");
  return { ok: true, destination: { url, addresses: found } };
}

const notPublic = "is not at a public address";
const refused = (reason: string): Judged => ({ ok: false, reason, unresolved: false });

/** The URL, or what is wrong with it. Whatever one parser reads in another way than the next is refused: the operator
 *  should see the host that is meant. */
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

/** The host of a URL without brackets and without the dot of the root. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "");

async function resolved(
  host: string,
  { resolve = resolveBySystem, signal }: Parameters<typeof judge>[2] & object,
): Promise<readonly ResolvedAddress[]> {
  // The system's resolver cannot be interrupted; it is only not waited for any longer.
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

/** Names that stand for this machine wherever they are looked up. */
export const isLocalName = (host: string): boolean => /(^|\.)localhost\.?$/i.test(host);

/** False for everything that is not plainly on the internet: loopback, private, link-local, metadata, reserved,
 *  multicast, and IPv4 wrapped into IPv6 in any of its forms. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false;
  const parsed = ipaddr.process(address);
  if (parsed.range() !== "unicast") return false;
  // Of IPv6 only this is given out at all (RFC 4291): what lies elsewhere wraps something, or is used inside.
  return parsed.kind() === "ipv6" ? parsed.match(globalUnicast) : !inside.includes(parsed.toString());
}

const globalUnicast = ipaddr.parseCIDR("2000::/3");
/** Looks public, and is a cloud's own service for its machines. */
const inside = ["168.63.129.16"];

/** Whether `host` (a name, or an address in any form that is one) is among what the operator allows. */
export function isAllowed(host: string, allowed: Allowed): boolean {
  if (allowed === "everything") return true;
  const plain = host.toLowerCase().replace(/%.*|\.$/, "");
  if (isIP(plain) === 0) return allowed.some((entry) => entry.toLowerCase().replace(/\.$/, "") === plain);
  const ranges = new BlockList();
  for (const entry of allowed) addRange(ranges, entry);
  const address = ipaddr.process(plain);
  return ranges.check(address.toString(), address.kind());
}

/** What is no range is none. */
function addRange(ranges: BlockList, entry: string): void {
  const [address = "", bits] = entry.split("/");
  const family = { 0: null, 4: "ipv4", 6: "ipv6" } as const;
  const kind = family[isIP(address) as 0 | 4 | 6];
  const most = kind === "ipv4" ? 32 : 128;
  const width = Number(bits ?? most);
  if (kind !== null && Number.isInteger(width) && width >= 0 && width <= most)
    ranges.addSubnet(address, width, kind);
}
