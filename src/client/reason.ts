// Formats the text of a reason. Reasons are stored and logged, and the platform's error texts may quote the
// input.

const longest = 200;
/** Characters that are searched for personal data before the cut, so that the cut leaves no partial
 *  address. */
const looked = 1000;

/** Returns the text as one line of limited length. */
export function brief(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .slice(0, longest)
    .trim();
}

/** Removes addresses and telephone numbers from a text of the platform, also when they are part of a
 *  URL. In doubt it removes more. */
export function discreet(text: string): string {
  return text
    .slice(0, looked)
    .replace(/<?[^\s<>@]*(?:@|%40)[^\s<>]*>?/gi, "<address>")
    .replace(/(?:\+|%2B)?\(?\d(?:[\s()./-]{0,3}\d){6,}/gi, "<number>");
}
