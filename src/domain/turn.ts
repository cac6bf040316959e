// From a message to a turn: the references by which its conversation is found, the question for the agent (text, and the
// context that a human agent would see on screen), and the address of the reply. Outbound conversations have a turn
// without a question.

import type { ExternalId, MessageEvent, Party, Reply, ThreadToken } from "bridgehead/contract";

/** At most this many references are followed; genuine threads have no longer chains. */
export const referenceLimit = 20;

export interface References {
  readonly answers: readonly ExternalId[];
  readonly tokens: readonly ThreadToken[];
}

/** Returns the ids and tokens to look up by priority: In-Reply-To, References newest first, then tokens. */
export function references(event: MessageEvent): References {
  if ("session" in event.thread) return { answers: [], tokens: [] };
  const unique = [...new Set(event.thread.answers)];
  return {
    answers: unique.slice(0, referenceLimit),
    tokens: (event.thread.tokens ?? []).slice(0, referenceLimit),
  };
}

const control = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;

/** Returns the message text for the platform. The subject precedes the first message of a conversation, and one without
 *  text, which says all in its subject; attachments are listed at the end. */
export function questionText(
  event: MessageEvent,
  first: boolean,
  attachments: readonly { name: string; media_type: string; size: number | null }[],
): string {
  const parts: string[] = [];
  const subject = event.subject?.replace(control, "").trim();
  const text = event.text.replace(control, "").trim();
  if (subject && (first || text === "")) parts.push(`Subject: ${subject}`);
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

/** The address of a reply. It is fixed when the turn is created; later messages do not change it. */
export type Address = Pick<Reply, "to" | "cc" | "subject" | "answers" | "history" | "hops" | "session">;

/** The address of a notification (`replies.address`). */
export interface NoticeAddress extends Address {
  /** Sent despite a suppression, and before other queued drafts of the conversation. */
  readonly forced: boolean;
}

/** Returns the address of the first message of a new thread. */
export function firstTo(person: Party, subject: string | null): Address {
  return { to: [person], cc: [], subject, answers: null, history: [], hops: 1, session: null };
}

/** Returns the address of a message in a thread that we began. `said` are the ids of its earlier messages, oldest first. */
export function furtherTo(person: Party, subject: string | null, said: readonly ExternalId[]): Address {
  const answers = said.at(-1) ?? null;
  return { to: [person], cc: [], subject, answers, history: said, hops: 1, session: null };
}

/** Returns the address of the reply to `event`. The adapter's configuration decides whether Cc is used. */
export function answerTo(event: MessageEvent): Address {
  const answers = event.cited ?? event.id;
  const inThread = "session" in event.thread ? [] : [...event.thread.answers].reverse();
  return {
    to: [event.replyTo ?? event.from],
    cc: event.cc ?? [],
    subject: event.subject ?? null,
    answers,
    history: [...inThread.filter((id) => id !== answers), answers],
    hops: (event.hops ?? 0) + 1,
    session: "session" in event.thread ? event.thread.session : null,
  };
}

/** The content of an opening turn (`turns.opening`). Null uses the settings of the agent's skill. */
export interface Opening {
  /** The introduction: sent with the start call and, with `speak`, to the customer. */
  readonly introduction: string | null;
  readonly subject: string | null;
  /** Context of the conversation; only the agent receives it. */
  readonly context: string | null;
  /** False: the platform's conversation is bound and no message is sent (a call has its own greeting). */
  readonly speak: boolean;
}

/** Serializes an opening for the database. */
export function writeOpening({ introduction, subject, context, speak }: Opening): string {
  return JSON.stringify({ introduction, subject, context, speak });
}

/** The inverse of `writeOpening`. */
export function readOpening(text: string): Opening {
  return JSON.parse(text) as Opening;
}

/** Normalizes whitespace to compare texts: platforms trim, rewrap and change line ends. */
export const normalizeWhitespace = (text: string): string => text.replace(/\s+/g, " ").trim();
