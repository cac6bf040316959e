// Guards: decides which messages get no answer. A refusal makes no API request, and its reason is stored.

import type { MessageEvent, Refusal } from "bridgehead/contract";
import { limitText } from "./duration-text.ts";
import { hopLimit } from "./retry.ts";

/** At most `max` turns in any `per` milliseconds. */
export interface Cap {
  readonly max: number;
  readonly per: number;
}

export interface Rules {
  readonly max_age: number;
  readonly allow: readonly string[];
  readonly deny: readonly string[];
}

/** Returns why a message must not be answered, or null. The order of the checks is: the adapter's
 *  refusal, age, deny, allow, hops. The check for messages that only a human can read is last, so that
 *  no responder is notified of a message that is refused anyway. */
export function refuse(event: MessageEvent, rules: Rules, receivedAt: number): Refusal | null {
  if (event.refusal && !event.refusal.hold) return event.refusal;
  const age = receivedAt - event.sentAt.getTime();
  if (age > rules.max_age) {
    return {
      code: tooOldCode,
      reason: `written ${limitText(age)} before we saw it; max_age is ${limitText(rules.max_age)}`,
    };
  }
  const unwanted = barred(event.from.address.toLowerCase(), rules);
  if (unwanted) return unwanted;
  if ((event.hops ?? 0) >= hopLimit) {
    return { code: loopCode, reason: `the thread has passed ${event.hops} automatic answers` };
  }
  return event.refusal ?? null;
}

/** Returns why that address (lower-cased) gets no answer, or null. */
export function barred(address: string, rules: Pick<Rules, "allow" | "deny">): Refusal | null {
  if (rules.deny.some((pattern) => matches(pattern, address)))
    return { code: "denied", reason: "the sender is in deny" };
  if (rules.allow.length > 0 && !rules.allow.some((pattern) => matches(pattern, address))) {
    return { code: "not-allowed", reason: "the sender is not in allow" };
  }
  return null;
}

/** Exact address, or `*` for any run of characters: `*@example.com`, `+49*`. Linear in the address. */
export function matches(pattern: string, address: string): boolean {
  const parts = pattern.toLowerCase().split("*");
  const [first = "", ...rest] = parts;
  if (rest.length === 0) return address === first;
  if (!address.startsWith(first)) return false;
  let position = first.length;
  const last = rest.pop() ?? "";
  for (const part of rest) {
    const found = address.indexOf(part, position);
    if (found < 0) return false;
    position = found + part.length;
  }
  return address.length - last.length >= position && address.endsWith(last);
}

/** A cap smaller than this number of turns is not shared. */
const smallestShared = 10;

/** Computes the shares of a channel's cap. A tenth is reserved for preferred senders (authenticated, or
 *  known). The others get half of the cap at once and then one turn at a time. A flood of forged senders
 *  thus does not use it up. */
function shareOf(cap: Cap): { readonly others: number; readonly burst: number; readonly everyMs: number } {
  if (cap.max < smallestShared) return { others: cap.max, burst: cap.max, everyMs: 0 };
  const others = cap.max - Math.ceil(cap.max / 10);
  const burst = Math.ceil(cap.max / 2);
  return { others, burst, everyMs: cap.per / (others - burst) };
}

/** Returns null when one more turn of a channel may run now. Otherwise returns the condition it waits
 *  for: fewer than `below` turns in the window, or `ms` milliseconds. */
export function channelRoom(
  cap: Cap,
  preferred: boolean,
  use: { readonly total: number; readonly others: number; readonly sinceOther: number | null },
): { readonly below: number } | { readonly ms: number } | null {
  const { others, burst, everyMs } = shareOf(cap);
  const most = preferred ? cap.max : others;
  if (use.total >= most) return { below: most };
  if (preferred || use.others < burst || use.sinceOther === null) return null;
  return use.sinceOther >= everyMs ? null : { ms: everyMs - use.sinceOther };
}

/** The number of turns counted against one cap. */
export interface Counted {
  readonly name: "sender" | "tags" | "conversation";
  readonly cap: Cap;
  readonly count: number;
  /** The cap of the sender, counted for the Reply-To of the message. */
  readonly isReplyTo?: true;
}

/** The cap of a sender, for all addresses that differ in their tags alone: a program may use a new one in each message. It is
 *  larger, because a relay gives one to each of its customers. */
export const capOfTags = ({ max, per }: Cap): Cap => ({ max: 5 * max, per });

const whose = { sender: "", tags: " for all tags of its address", conversation: "" };

/** Returns the first cap that one more turn would exceed, or null. */
export function capped(counts: readonly Counted[]): (Refusal & Counted) | null {
  const over = counts.find(({ cap, count }) => count >= cap.max);
  if (!over) return null;
  return {
    ...over,
    code: `cap-${over.name}`,
    reason: `${over.cap.max} per ${limitText(over.cap.per)} reached${over.isReplyTo ? " for its Reply-To" : whose[over.name]}`,
  };
}

/** The code of a message that has passed too many automatic answers. */
export const loopCode = "loop";

/** The code of a message or draft that is older than `max_age`. */
export const tooOldCode = "too-old";

/** The code of a stored message that was refused as too old while the clock was ahead, and is decided again. It is held when
 *  it still seems too old: it is unknown by how much the clock was wrong when it arrived. */
export const clockAhead = "clock-ahead";

/** Returns the reason of work that waited longer than `max_age` before it was attempted, for example on a paused
 *  channel. Both in milliseconds. */
export const waitedTooLong = (waited: number, maxAge: number): string =>
  `waited ${limitText(waited)}; max_age is ${limitText(maxAge)}`;

/** Short codes belong to automated services: banks, parcel services, televoting. */
export const isShortCode = (address: string): boolean => /^\d{3,8}$/.test(address);

/** The code of a refused outcome or of a delivery receipt when the provider reports that the recipient
 *  has opted out. */
export const optedOut = "opted-out";

/** The code of a message or turn that is not asked because its recipient is suppressed. */
export const suppressedCode = "suppressed";
