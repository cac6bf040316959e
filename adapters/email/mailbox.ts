// An address as a person writes it.

/** RFC 5321, 4.5.3.1.3. */
const longest = 254;
const shape = /^[^\s@<>()[\],;:"\\]+@[^\s@<>()[\],;:"\\]+$/;

/** `AdapterDefinition.address`: one mailbox, lower-cased; null for anything else (a list, a name beside it). */
export function mailbox(text: string): string | null {
  const address = text.trim().toLowerCase();
  return address.length <= longest && shape.test(address) ? address : null;
}
