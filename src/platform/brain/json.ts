/** Returns undefined for invalid JSON. The parser's own error would quote the text and reach the log. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
