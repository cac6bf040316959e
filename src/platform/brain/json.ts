/** Undefined when it is not JSON: the parser's own complaint would quote the text, and end up in a log. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
