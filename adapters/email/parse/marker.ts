// The traces that our mails leave in the answers to them: the Message-ID that we make, and a marker in the body, which survives relays that
// rewrite or drop the ids.

import type { ThreadToken } from "bridgehead/contract";

const marker = /\[ref:bh-([0-9a-z]{8,64})\]/g;

/** The marker as it stands in the text and in the HTML of what we send. */
export function markerOf(token: ThreadToken): string {
  return `[ref:bh-${token}]`;
}

/** The tokens of all markers in a text, without repeats, in their order. */
export function findMarkers(text: string): string[] {
  if (!text.includes("[ref:bh-")) return [];
  return [...new Set([...text.matchAll(marker)].map(([, token]) => token as string))].slice(0, 20);
}

/** The draft's key in a Message-ID of ours (with or without brackets), or null. `domains`: those of our addresses, lower case. */
export function keyIn(messageId: string, domains: ReadonlySet<string>): string | null {
  const [, key, domain] = /^<?([a-z0-9]{4,64})\.bridgehead@([^>\s]{1,255})>?$/.exec(messageId.trim()) ?? [];
  return key !== undefined && domains.has((domain ?? "").toLowerCase()) ? key : null;
}

/** The part after the @, lower case. */
export function domainOf(address: string): string {
  return address.slice(address.lastIndexOf("@") + 1).toLowerCase();
}

/** The address without what follows a plus sign, and what follows it (null without a plus sign). */
export function withoutPlus(address: string): readonly [string, string | null] {
  const [, local, plus, domain] = /^([^+@]+)\+([^@]*)(@.+)$/.exec(address) ?? [];
  return local === undefined ? [address, null] : [`${local}${domain}`, plus ?? ""];
}
