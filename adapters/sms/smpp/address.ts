// Converts numbers to and from SMPP addresses: a type, a numbering plan and digits (SMPP v3.4, 5.2.5 and
// 5.2.6).

import { canonicalNumber, isCountry } from "../numbers.ts";

export interface Address {
  readonly ton: number;
  readonly npi: number;
  readonly address: string;
}

const ton = { unknown: 0, international: 1, national: 2, network: 3, alphanumeric: 5 } as const;
const telephone = 1;

/** Returns null for an address of a service that SMPP does not carry (`whatsapp:...`). */
export function toAddress(canonical: string): Address | null {
  if (canonical.startsWith("+"))
    return { ton: ton.international, npi: telephone, address: canonical.slice(1) };
  if (/^\d+$/.test(canonical)) return { ton: ton.network, npi: 0, address: canonical };
  return canonical.includes(":") ? null : { ton: ton.alphanumeric, npi: 0, address: canonical };
}

/** Returns the canonical number if it can be determined, else the address as received. Message centres
 *  often omit the type of an international number. */
export function fromAddress({ ton: type, address }: Omit<Address, "npi">, country?: string): string {
  if (type === ton.alphanumeric) return address;
  const digits = address.replace(/^\+/, "");
  const home = country !== undefined && isCountry(country) ? country : undefined;
  if (type === ton.national || (type === ton.unknown && home !== undefined && digits.startsWith("0")))
    return canonicalNumber(digits, home) ?? address;
  const long = digits.length > 8;
  return (type === ton.international || long ? canonicalNumber(`+${digits}`) : null) ?? address;
}
