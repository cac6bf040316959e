// Creates and finds the traces by which responses to our messages are recognized: the Message-ID that we
// create, and a marker in the body. The marker survives relays that rewrite or drop the Message-ID.

import type { ThreadToken } from "bridgehead/contract";

const marker = /\[ref:bh-([0-9a-z]{8,64})\]/g;

/** Returns the marker as it appears in the text and the HTML of sent messages. */
export function markerOf(token: ThreadToken): string {
  return `[ref:bh-${token}]`;
}

/** Returns the tokens of all markers in a text, in order and without duplicates. */
export function findMarkers(text: string): string[] {
  if (!text.includes("[ref:bh-")) return [];
  return [...new Set([...text.matchAll(marker)].map(([, token]) => token as string))].slice(0, 20);
}

/** Returns the draft's key in a Message-ID that we created (with or without brackets), or null.
 *  `domains`: the domains of our addresses, lower case. */
export function keyIn(messageId: string, domains: ReadonlySet<string>): string | null {
  const [, key, domain] = /^<?([a-z0-9]{4,64})\.bridgehead@([^>\s]{1,255})>?$/.exec(messageId.trim()) ?? [];
  return key !== undefined && domains.has((domain ?? "").toLowerCase()) ? key : null;
}

/** Returns the part after the @, lower case. */
export function domainOf(address: string): string {
  return address.slice(address.lastIndexOf("@") + 1).toLowerCase();
}

/** Returns the address without the text after a plus sign, and that text (null without a plus sign). */
export function withoutPlus(address: string): readonly [string, string | null] {
  const [, local, plus, domain] = /^([^+@]+)\+([^@]*)(@.+)$/.exec(address) ?? [];
  return local === undefined ? [address, null] : [`${local}${domain}`, plus ?? ""];
}
