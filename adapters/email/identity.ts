// The identity of a channel: its addresses, the Message-IDs it creates and recognizes, and the tokens in
// its addresses.

import {
  type ExternalId,
  externalId,
  type SendKey,
  sendKey,
  type ThreadToken,
  threadToken,
} from "bridgehead/contract";
import { asciiAddress } from "./parse/headers.ts";
import { domainOf, keyIn, withoutPlus } from "./parse/marker.ts";

export interface Identity {
  /** Lower case, its domain as A-labels; the From address of responses. */
  readonly address: string;
  /** `address` and the aliases. */
  readonly addresses: readonly string[];
  /** Returns the Message-ID of a draft, with angle brackets. */
  messageId(key: SendKey): ExternalId;
  /** Returns the send key in a Message-ID that we created (with or without brackets), or null. */
  keyOf(messageId: string): SendKey | null;
  /** `support+<token>@example.com` */
  tokenAddress(token: ThreadToken): string;
  /** Returns the token when this is one of our addresses with a token, else null. */
  tokenOf(address: string): ThreadToken | null;
  /** Also true for our addresses with any text after a plus sign. */
  isOwn(address: string): boolean;
}

/** Pure. `aliases` may be in other domains. */
export function identity(address: string, aliases: readonly string[]): Identity {
  const main = asciiAddress(address.toLowerCase());
  const addresses = [...new Set([main, ...aliases.map((alias) => asciiAddress(alias.toLowerCase()))])];
  const domains = new Set(addresses.map(domainOf));
  const own = new Set(addresses);
  return {
    address: main,
    addresses,
    messageId: (key) => `<${key}.bridgehead@${domainOf(main)}>` as ExternalId,
    keyOf(messageId) {
      const key = keyIn(messageId, domains);
      return key === null ? null : sendKey(key);
    },
    tokenAddress: (token) => main.replace(/(\+[^@]*)?@/, `+${token}@`),
    tokenOf(candidate) {
      const [bare, plus] = withoutPlus(asciiAddress(candidate.toLowerCase()));
      return plus !== null && own.has(bare) && /^[a-z0-9]{10,64}$/.test(plus) ? threadToken(plus) : null;
    },
    isOwn(candidate) {
      const plain = asciiAddress(candidate.toLowerCase());
      return own.has(plain) || own.has(withoutPlus(plain)[0]);
    },
  };
}

/** Returns a Message-ID for a message without one. It is derived from the content, so the same message
 *  always gets the same id. */
export function surrogateId(digest: string): ExternalId {
  return externalId(`<${digest.slice(0, 40)}@no-message-id.invalid>`);
}

/** False for surrogate ids, which are unknown to other servers and must not be cited. */
export function isCitable(id: string): boolean {
  return /^<[^<>\s]{1,900}>$/.test(id) && !id.endsWith("@no-message-id.invalid>");
}
