// Maps callers to the core's `Party`: the address is stable across calls, except for a withheld number.

import type { Party } from "bridgehead/contract";

/** Values that Twilio and carriers send in place of a withheld number. */
const withheld = new Set([
  "",
  "anonymous",
  "restricted",
  "unavailable",
  "unknown",
  "private",
  "+266696687", // "anonymous" on a keypad
  "+7378742833", // "restricted"
  "+86282452253", // "unavailable"
  "+8656696", // "unknown"
  "+2562533", // "blocked"
]);

/** Returns the party of a caller. A caller with a withheld number gets an address that is unique to this call. */
export function personOf(address: string | null, call: string): Party {
  const clean = (address ?? "").trim();
  if (withheld.has(clean.toLowerCase())) return { address: `anonymous:${call}` };
  return { address: clean.toLowerCase().slice(0, 320) };
}

/** Returns both parties of a call from Twilio-style parameters. `person` is the caller of an inbound call or the
 *  callee of an outbound call. */
export function partiesOf(call: {
  readonly From?: string | undefined;
  readonly To?: string | undefined;
  readonly Direction?: string | undefined;
}): { readonly person: string | null; readonly ours: string | null } {
  const { From: from = null, To: to = null } = call;
  return call.Direction?.startsWith("outbound") ? { person: to, ours: from } : { person: from, ours: to };
}
