// Texts that the interface types as object in one place and as string in another (`smsSignature`, introductions).

import * as z from "zod";

/** A string, an object with the text under a common field name, or an object of texts by language. */
export const textOrObject = z.union([z.string(), z.record(z.string(), z.unknown())]);

const usualNames = ["text", "value", "message", "content", "default", "en", "en-US", "en_US"];

/** A text under a common field name may itself be an object by language. Deeper nesting is ignored. */
const deepest = 2;

/** Returns the trimmed text, or null when there is none. Of several languages it returns English, else
 *  the first that is not empty. */
export function plainText(value: z.output<typeof textOrObject> | null | undefined): string | null {
  return textIn(value, deepest);
}

function textIn(value: unknown, depth: number): string | null {
  if (typeof value === "string") return value.trim() || null;
  if (value === null || typeof value !== "object" || Array.isArray(value) || depth === 0) return null;
  const rank = (name: string) => (usualNames.includes(name) ? usualNames.indexOf(name) : usualNames.length);
  const inOrder = Object.entries(value).toSorted(([a], [b]) => rank(a) - rank(b));
  for (const [, inner] of inOrder) {
    const text = textIn(inner, depth - 1);
    if (text !== null) return text;
  }
  return null;
}
