// What the agent is asked: the person's words, and beside them what an answering person would see on the screen.

import type { MessageEvent } from "bridgehead/contract";

const control = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** The message as the platform gets it. The subject leads a new conversation; attachments are named at the end. */
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

/** A line for each; the empty string when there are none. */
export function attachmentLines(
  attachments: readonly { name: string; media_type: string; size: number | null }[],
): string {
  return attachments.map(attachmentLine).join("\n");
}

function attachmentLine(attachment: { name: string; media_type: string; size: number | null }): string {
  const size = attachment.size === null ? "" : `, ${Math.max(1, Math.round(attachment.size / 1024))} kB`;
  return `[Attachment: ${attachment.name} (${attachment.media_type}${size})]`;
}

/** Facts beside the words; the platform's `context` of a message. Null when there are none. */
export function questionContext(event: MessageEvent): string | null {
  const facts = Object.entries(event.notes ?? {}).map(([name, value]) => `${name}: ${value}`);
  return facts.length > 0 ? facts.join("\n") : null;
}

/** The facts of two messages that are asked together, each once. */
export function joinedContext(first: string | null, second: string | null): string | null {
  const facts = [first, second].flatMap((context) => context?.split("\n") ?? []);
  return facts.length > 0 ? [...new Set(facts)].join("\n") : null;
}
