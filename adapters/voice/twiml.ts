// Serializes TwiML without the provider's library: its types spell several attributes in ways the provider does not
// accept.

import type { VoiceConfig } from "./config.ts";
import type { Capabilities } from "./dialects/dialect.ts";

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

export function say(text: string, language: string, voice?: string): string {
  return element("Say", { language, voice }, [escapeXml(text)]);
}

export const hangUp = "<Hangup/>";

/** Returns the TwiML document as the HTTP response to the provider. */
export function twiml(...verbs: readonly string[]): Response {
  const body = `<?xml version="1.0" encoding="UTF-8"?><Response>${verbs.join("")}</Response>`;
  return new Response(body, { status: 200, headers: { "content-type": "text/xml; charset=utf-8" } });
}

// Transfers a call to a human: the data for the provider, and the response to its callback.

type TransferConfig = NonNullable<VoiceConfig["transfer"]>;

/** Returns whether this configuration and dialect can transfer a call. The transfers `frame` and `dial` need a
 *  number or address in `dial`. */
export function canTransfer({ transfer }: VoiceConfig, { transfer: way }: Pick<Capabilities, "transfer">): boolean {
  if (way === "callback") return transfer !== undefined;
  return (way === "frame" || way === "dial") && transfer?.dial !== undefined;
}

/** Builds the data sent with the end of the session, below 4 KB. The provider returns it in the callback and shows
 *  it to the human who takes the call, so it contains no conversation text. The callback reads everything but the
 *  language from stored state. */
export function transferData(call: string, reason: string, language: string): string {
  return JSON.stringify({ reason, call, language });
}

export function languageInData(data: string | undefined): string | null {
  try {
    const { language } = JSON.parse(data ?? "") as { language?: unknown };
    return typeof language === "string" ? language.slice(0, 20) : null;
  } catch {
    return null;
  }
}

export interface TransferringCall {
  readonly call: string;
  readonly reason: string;
  /** URL of the callback that reports the result of Dial. */
  readonly dialed: string;
  readonly language: string;
}

/** Builds the verb that transfers the call to a human. Only Dial reports its result in a callback; Redirect and
 *  Enqueue do not. */
export function transferVerb(over: TransferConfig, { call, reason, dialed, language }: TransferringCall): string {
  if (over.redirect !== undefined) return element("Redirect", { method: "POST" }, [escapeXml(over.redirect)]);
  if (over.enqueue !== undefined) {
    const task = { ...over.enqueue.attributes, call_sid: call, reason, language };
    const inner = element("Task", {}, [escapeXml(JSON.stringify(task))]);
    return element("Enqueue", { workflowSid: over.enqueue.workflow_sid }, [inner]);
  }
  return element(
    "Dial",
    {
      action: dialed,
      method: "POST",
      timeout: Math.round(over.timeout / 1000),
      callerId: over.caller_id,
      answerOnBridge: true,
    },
    dialTargets(over),
  );
}

/** Returns the Number and Sip elements that Dial rings. */
function dialTargets(over: TransferConfig): readonly string[] {
  return (over.dial ?? []).map((to) =>
    to.startsWith("sip:") ? element("Sip", {}, [escapeXml(to)]) : element("Number", {}, [escapeXml(to)]),
  );
}
