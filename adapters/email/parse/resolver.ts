// Resolves DNS records for the sender checks: with the system's servers, configured servers, or fixed
// responses.

import { Resolver } from "node:dns/promises";
import type { DNSResolver } from "mailauth";
import type { DnsSettings } from "./types.ts";

const tries = 3;
/** Temporary errors. "There is no such name" is a valid response. */
const temporary = new Set(["ETIMEOUT", "ESERVFAIL", "EREFUSED", "ECONNREFUSED", "ECONNRESET"]);

export function resolverFor(dns: DnsSettings): { resolve: DNSResolver; cancel(): void } {
  const { records } = dns;
  if (records !== undefined)
    return { resolve: (name, type) => fixed(records, name, type), cancel: () => undefined };
  const resolver = new Resolver({ timeout: 2000, tries: 2 });
  if (dns.servers !== undefined && dns.servers.length > 0) resolver.setServers([...dns.servers]);
  return { resolve: (name, type) => ask(resolver, name, type), cancel: () => resolver.cancel() };
}

async function ask(resolver: Resolver, name: string, type: string): Promise<string[] | string[][]> {
  for (let round = 1; ; round++) {
    try {
      return (await resolver.resolve(name, type)) as string[] | string[][];
    } catch (error) {
      if (round >= tries || !temporary.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    }
  }
}

async function fixed(
  records: NonNullable<DnsSettings["records"]>,
  name: string,
  type: string,
): Promise<string[] | string[][]> {
  const question = `${type} ${name.replace(/\.$/, "")}`.toLowerCase();
  const answer = Object.hasOwn(records, question) ? records[question] : undefined;
  if (typeof answer === "string" || answer === undefined) {
    const code = answer ?? "ENOTFOUND";
    throw Object.assign(new Error(`query${type} ${code} ${name}`), { code });
  }
  return type.toUpperCase() === "TXT" ? answer.map((text) => [text]) : [...answer];
}
