// Serializes TwiML without the provider's library: its types spell several attributes in ways the provider does not
// accept.

/** Returns an element as text. Attributes without a value are omitted. Attribute values are escaped; children are
 *  not. */
export function element(
  name: string,
  attributes: Readonly<Record<string, string | number | boolean | null | undefined>>,
  children: readonly string[] = [],
): string {
  const written = Object.entries(attributes)
    .filter(([, value]) => value !== null && value !== undefined)
    .map(([key, value]) => ` ${key}="${escapeXml(String(value))}"`)
    .join("");
  return children.length === 0 ? `<${name}${written}/>` : `<${name}${written}>${children.join("")}</${name}>`;
}

/** Escapes text for element content or an attribute. Characters that are invalid in XML are dropped. */
export function escapeXml(text: string): string {
  return text
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&apos;");
}

/** Returns a `<Say>` element in the given language. */
export function say(text: string, language: string, voice?: string): string {
  return element("Say", { language, voice }, [escapeXml(text)]);
}

export const hangUp = "<Hangup/>";

/** Returns the TwiML document as the HTTP response to the provider. */
export function twiml(...verbs: readonly string[]): Response {
  const body = `<?xml version="1.0" encoding="UTF-8"?><Response>${verbs.join("")}</Response>`;
  return new Response(body, { status: 200, headers: { "content-type": "text/xml; charset=utf-8" } });
}
