// An address as a person writes it.

import { asciiAddress } from "./parse/headers.ts";

/** RFC 5321, 4.5.3.1.3. */
const longest = 254;
const shape = /^[^\s@<>()[\],;:"\\]+@[^\s@<>()[\],;:"\\]+$/;

/** `AdapterDefinition.address`: one mailbox in lower case, its domain as A-labels; null for anything else (a list, a name beside it). */
export function mailbox(text: string): string | null {
  const address = asciiAddress(text.trim().toLowerCase());
  return address.length <= longest && shape.test(address) ? address : null;
}
