// Texts that the interface types as object in one place and as string in another (`smsSignature`, introductions).

import * as z from "zod";

/** A string, an object with the text under a usual name, or an object of texts by language. */
export const textOrObject = z.union([z.string(), z.record(z.string(), z.unknown())]);

const usualNames = ["text", "value", "message", "content", "default", "en", "en-US", "en_US"];

/** The text itself, trimmed; null when there is none. Of several languages English wins, else the first. */
export function plainText(value: z.output<typeof textOrObject> | null | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (typeof value === "string") return value.trim() || null;
  const texts = Object.entries(value).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  const named = usualNames.map((name) => texts.find(([key]) => key === name)).find(Boolean);
  return (named ?? texts[0])?.[1].trim() || null;
}
