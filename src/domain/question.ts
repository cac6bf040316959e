// Builds the question for the agent: the message text, and the context that a human agent would see on
// screen.

import type { MessageEvent } from "bridgehead/contract";

const control = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** Returns the message text for the platform. The subject precedes the first message of a conversation;
 *  attachments are listed at the end. */
export function questionText(
  event: MessageEvent,
  first: boolean,
  attachments: readonly { name: string; media_type: string; size: number | null }[],
): string {
  const parts: string[] = [];
  const subject = event.subject?.replace(control, "").trim();
  if (first && subject) parts.push(`Subject: ${subject}`);
  const text = event.text.replace(control, "").trim();
  if (text) parts.push(text);
  if (attachments.length > 0) parts.push(attachmentLines(attachments));
  return parts.join("\n\n") || "(empty message)";
}

/** Returns one line for each attachment; the empty string when there are none. */
export function attachmentLines(
  attachments: readonly { name: string; media_type: string; size: number | null }[],
): string {
  return attachments.map(attachmentLine).join("\n");
}

function attachmentLine(attachment: { name: string; media_type: string; size: number | null }): string {
  const size = attachment.size === null ? "" : `, ${Math.max(1, Math.round(attachment.size / 1024))} kB`;
  return `[Attachment: ${attachment.name} (${attachment.media_type}${size})]`;
}

/** Returns the facts of a message for the platform's `context` field; null when there are none. */
export function questionContext(event: MessageEvent): string | null {
  const facts = Object.entries(event.notes ?? {}).map(([name, value]) => `${name}: ${value}`);
  return facts.length > 0 ? facts.join("\n") : null;
}

/** Joins the facts of two messages that are asked together, without duplicates. */
export function joinedContext(first: string | null, second: string | null): string | null {
  const facts = [first, second].flatMap((context) => context?.split("\n") ?? []);
  return facts.length > 0 ? [...new Set(facts)].join("\n") : null;
}
