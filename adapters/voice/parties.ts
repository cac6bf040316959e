// Who calls, as the core knows people: an address that is the same at every call, unless it is withheld.

import type { Party } from "bridgehead/contract";

/** What Twilio and the networks put in place of a withheld number. */
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

/** A caller without a number is a person of this call alone. */
export function personOf(address: string | null, call: string): Party {
  const clean = (address ?? "").trim();
  if (withheld.has(clean.toLowerCase())) return { address: `anonymous:${call}` };
  return { address: clean.toLowerCase().slice(0, 320) };
}

/** The person of a call in the parameters Twilio and its kind send: the caller, or whom we called. */
export function partiesOf(call: {
  readonly From?: string | undefined;
  readonly To?: string | undefined;
  readonly Direction?: string | undefined;
}): { readonly person: string | null; readonly ours: string | null } {
  const { From: from = null, To: to = null } = call;
  return call.Direction?.startsWith("outbound") ? { person: to, ours: from } : { person: from, ours: to };
}
