// The marker that a mail of ours carries in its body, so that an answer finds its conversation even where a relay rewrote or dropped the ids.

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
