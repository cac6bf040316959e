// The words of a reason. Reasons are stored and logged, and error texts may repeat what they complain about.

const longest = 200;
/** What is looked through before cutting, so that no cut leaves half an address behind. */
const looked = 1000;

/** One line, bounded. */
export function brief(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ")
    .slice(0, longest)
    .trim();
}

/** A text of the platform's without the addresses and telephone numbers it may repeat, as they are or as parts of a
 *  URL. Rather too much is taken than too little. */
export function discreet(text: string): string {
  return text
    .slice(0, looked)
    .replace(/<?[^\s<>@]*(?:@|%40)[^\s<>]*>?/gi, "<address>")
    .replace(/(?:\+|%2B)?\(?\d(?:[\s()./-]{0,3}\d){6,}/gi, "<number>");
}
