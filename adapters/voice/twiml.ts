// TwiML, written by ourselves: the provider's own types spell several attributes in ways the provider does not know.

/** An element as text. Attributes without a value are left out; texts are escaped, children are not. */
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

/** Text between tags or in an attribute. Characters that XML cannot hold are dropped. */
export function escapeXml(text: string): string {
  return text
    .replace(/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, "")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&apos;");
}

/** `<Say>` in a language. */
export function say(text: string, language: string, voice?: string): string {
  return element("Say", { language, voice }, [escapeXml(text)]);
}

export const hangUp = "<Hangup/>";

/** The whole document, as the answer to the provider. */
export function twiml(...verbs: readonly string[]): Response {
  const body = `<?xml version="1.0" encoding="UTF-8"?><Response>${verbs.join("")}</Response>`;
  return new Response(body, { status: 200, headers: { "content-type": "text/xml; charset=utf-8" } });
}
