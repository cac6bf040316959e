// Texts of notifications, for SMS, mail and webhooks. Plain text, never Markdown. Text of customers and agents is
// quoted as data and bounded: one line in an SMS, several thousand characters of each message in a mail.

import { counted } from "../../domain/duration-text.ts";
import type { EscalationRow, TriggerRow } from "../../store/tables/escalations.ts";
import type { NotificationRow, TargetRow } from "../../store/tables/responders.ts";
import type { CustomerHistory, TranscriptMessage } from "../../store/tables/transcript.ts";
import type { Group } from "./decide.ts";

/** The data of a notification. */
export interface Details {
  readonly row: EscalationRow;
  readonly triggers: readonly TriggerRow[];
  /** The customer; null when it is about a channel. */
  readonly person: {
    readonly address: string;
    readonly name: string | null;
    readonly known?: CustomerHistory | null;
  } | null;
  /** The platform's id of the conversation. */
  readonly platformId?: string | null;
  readonly subject: string | null;
  readonly said: readonly TranscriptMessage[];
  /** True when earlier messages were left out. */
  readonly cut?: boolean;
}

/** Normalizes to one line and removes control characters, including those that change the text direction. */
const oneLine = (text: string): string =>
  text
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/gu, "")
    .trim();
const cut = (text: string, most: number): string => {
  const whole = oneLine(text);
  return whole.length <= most ? whole : `${whole.slice(0, most - 3).toWellFormed()}...`;
};

/** Summarizes the escalation in one line. */
function headline({ row, person }: Details): string {
  // Retention and erasures leave empty texts.
  const what = row.topic ?? (row.reason || "erased");
  const who =
    person === null ? `channel ${row.channel}` : `${person.name ?? (person.address || "erased")}, ${row.channel}`;
  return `${cut(what, 80)} (${cut(who, 60)})`;
}

/** Returns the subject of the mail. It contains the number, so that mail programs group the mails of one escalation. */
export const subjectOf = (details: Details): string => `[Escalation ${details.row.number}] ${headline(details)}`;

/** Returns the escalation number in the subject of a notification, regardless of prefixes that a mail program added. */
export function numberIn(subject: string): number | null {
  const [, number] = /\[Escalation (\d{1,9})\]/u.exec(subject) ?? [];
  return number === undefined ? null : Number(number);
}

/** Renders an SMS: headline, customer, last message, how to answer. `link`: page that acknowledges with one tap. */
export function shortText(details: Details, link: string | null, again: boolean): string {
  return [...headOf(details, again), howToAnswer(details.row, details.person !== null, link)].join("\n");
}

/** Headline, customer, last message. */
function headOf(details: Details, again: boolean): readonly string[] {
  const last = details.said.findLast(({ who }) => who === "person");
  return [
    `${again ? "Still open: " : ""}Escalation ${details.row.number}: ${headline(details)}`,
    ...(last === undefined ? [] : [`${last.other ? `${oneLine(last.other)}: ` : ""}"${cut(last.text, 140)}"`]),
  ];
}

/** Renders a text for a chat that shows only `text` and cannot reply. */
const chatText = (details: Details, link: string | null, again: boolean): string =>
  [...headOf(details, again).map(harmless), ...(link === null ? [] : [`Open it: ${link}`])].join("\n");

/** Escapes the characters that chats interpret as mentions, named links or their definitions (`[a]: https://...`). */
const harmless = (text: string): string =>
  text
    .replaceAll("<", "‹")
    .replaceAll(">", "›")
    .replace(/\](?=[(:])/gu, "] ")
    .replace(/(?<![\p{L}\p{N}._+-])@/gu, "＠");

function howToAnswer(row: EscalationRow, relayed: boolean, link: string | null): string {
  const word = `Reply "ok ${row.number}" to acknowledge it${relayed ? ", or your answer for the customer" : ""}`;
  return link === null ? `${word}.` : `${word}: ${link}`;
}

/** Limit of escalations with a line of their own in one digest. */
export const mostHeadlines = 50;

/** Renders a digest of `count` escalations: the lines of some of them, and how to name one. */
function digestText(all: readonly Details[], count: number): string {
  const more = count - all.length;
  const lines = all.map((details) => `${details.row.number}: ${headline(details)}`);
  return [
    `${count} escalations are open.`,
    ...lines,
    ...(more > 0 ? [`And ${more} more.`] : []),
    'Reply "ok" and a number to acknowledge one ("ok" alone acknowledges all), or a number, a colon and your answer for the customer.',
  ].join("\n");
}

/** Limit of a text that is passed on to a responder, and the part of it for the note about the rest, in characters. */
const mostPassedOn = 20_000;
const noteLength = 100;

/** Truncates a text that is passed on to a responder, with a note that has the missing count and the command that shows all. A
 *  truncated text is not truncated again: it is stored for each target, and rendered for each. `number`: of the escalation. */
export function clipped(text: string, number: number): string {
  if (text.length <= mostPassedOn) return text;
  const kept = mostPassedOn - noteLength;
  return `${text.slice(0, kept).toWellFormed()}\n${cutNote(text.length - kept, number)}`;
}

const cutNote = (count: number, number: number): string =>
  `[${count} more characters: the command escalation show ${number} prints them]`;

/** Truncates a text to the length of an SMS notification. The platform has the full text. */
const bounded = (text: string): string => (text.length <= 900 ? text : `${text.slice(0, 897).toWellFormed()}...`);

/** Limit of one fact in a mail, in characters. */
const mostFact = 500;
const names = { person: "Customer", agent: "Agent", human: "Human" } as const;

/** Renders all known facts and the transcript, in paragraphs. */
function describe(details: Details): readonly string[] {
  const { row, person, subject, triggers, said } = details;
  const facts = [
    `Number: ${row.number}`,
    `Why: ${cut(row.reason, mostFact)}`,
    ...(row.topic === null ? [] : [`Topic: ${cut(row.topic, mostFact)}`]),
    ...(person === null
      ? []
      : [
          `Customer: ${[person.name, person.address]
            .filter(Boolean)
            .map((one) => cut(String(one), mostFact))
            .join(", ")}`,
          ...(person.known ? [historyText(person.known)] : []),
        ]),
    `Channel: ${row.channel}`,
    `Agent: ${row.agent}`,
    ...(subject === null ? [] : [`Subject: ${cut(subject, mostFact)}`]),
    `Since: ${utc(row.opened_at)}`,
    ...(row.conversation === null ? [] : [`Conversation: ${row.conversation}`]),
    ...(details.platformId ? [`On the platform: ${oneLine(details.platformId)}`] : []),
    ...(triggers.length > 1 ? [`Noticed by: ${[...new Set(triggers.map(({ source }) => source))].join(", ")}`] : []),
  ];
  const transcript = said.map(
    ({ at, who, text, other, unsent, cut: left }) =>
      `${utc(at)} ${other ? cut(other, mostFact) : names[who]}${unsent ? " (not sent)" : ""}:\n${quoted(text)}${left ? `\n${cutNote(left, row.number)}` : ""}`,
  );
  if (transcript.length === 0) return [facts.join("\n")];
  const title = details.cut
    ? `What was said, the newest ${said.length} of it (the rest: the command escalation show ${row.number}, or the platform):`
    : "What was said:";
  return [facts.join("\n"), title, transcript.join("\n\n")];
}

/** Renders the mail: all known facts, and how to answer. */
export function longText(details: Details, link: string | null, again: boolean): string {
  const answer =
    details.person === null
      ? [`Answer "ok" to acknowledge it, or #close in a line of its own when it is settled.`]
      : [
          'Answer "ok" to acknowledge it. Whatever else you write or attach goes to the customer, in the thread and under the name of the agent (files where the channel carries them); quotes and your signature are removed.',
          "In a line of its own: #resume ends this and gives the conversation back to the agent, #close ends this and leaves the agent silent, #note keeps what follows to ourselves.",
        ];
  return [
    ...(again ? ["Not acknowledged yet."] : []),
    ...describe(details),
    ...answer,
    ...(link === null ? [] : [`To acknowledge or answer in the browser: ${link}`]),
  ].join("\n\n");
}

const historyText = ({ since, conversations, escalations }: CustomerHistory): string =>
  `Known since: ${utc(since)} (${counted(conversations, "conversation")}, ${counted(escalations, "escalation")} before this)`;

/** Formats a time for humans: `2026-11-21 23:36 UTC`. */
export const utc = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16).replace("T", " ")} UTC`;

/** Quotes a text, so that no line of it looks like a line of the notification. */
const quoted = (text: string): string =>
  text
    // A marker in the customer's text would be confused with our own marker in the reply.
    .replaceAll("[ref:", "[ref ")
    .split(lineEnd)
    .map((line) => `> ${line}`)
    .join("\n");

/** Informs the other targets that a responder has acknowledged the escalation. */
export const acknowledgedText = (row: EscalationRow, by: string): string =>
  `Escalation ${row.number} is acknowledged by ${oneLine(by)}. Nothing to do for you.`;

/** Renders a customer's message for the responder who has acknowledged the escalation. */
export const customerText = (row: EscalationRow, who: string, text: string): string =>
  clipped(`${row.number}, ${oneLine(who)}: ${text}`, row.number);

/** Every character that a mail program, a phone or a chat renders as a line end. */
const lineEnd = /\r\n?|[\n\v\f\u0085\u2028\u2029]/gu;

/** Quotes all lines but the first: a line of the customer could look like our own. */
export const customerQuote = (text: string): string => text.replace(lineEnd, "\n> ");

/** Matched anywhere in a line. */
const ownWords = [/\[ref:[^\]\s]{1,200}\]/u, /\/escalations\/[\w-]{20}/u, /To acknowledge or answer in the browser:/u];
/** Matched at the start of a line, after quote characters. */
const ownLines = [
  /^(?:Still open: )?\[?Escalation \d{1,9}[\]:]/u,
  /^What was said(?:, the newest \d{1,9} of it .*)?:\s*$/u,
  /^Answer "ok" to acknowledge it/u,
];

/** True when a text contains a link, a marker or a fixed line of our own notifications. A mail client,
 *  or the responder, has then left the notification in the answer. Linear: every line is checked once. */
export function quotesNotification(text: string): boolean {
  let numbered = false;
  for (const line of text.split(/[\n\r\u2028\u2029]/u)) {
    const words = line.replace(/^[>\s"“„«]+/u, "");
    if (ownWords.some((pattern) => pattern.test(line)) || ownLines.some((pattern) => pattern.test(words))) return true;
    if (numbered && words.startsWith("Why: ")) return true;
    if (words !== "") numbered = /^Number: \d{1,9}\s*$/u.test(words);
  }
  return false;
}

/** Returns the text of a message about one or several escalations, and its subject on channels with
 *  subjects (`threads`). `details`: of the escalations in the same order, at most `mostHeadlines`. */
export function notificationText(
  group: Group,
  details: readonly Details[],
  link: string | null,
  threads: boolean,
): { readonly text: string; readonly subject: string | null } {
  const [{ notification, target }] = group;
  const [first] = details;
  if (!first) throw new Error("rendering a notification: the escalation was not loaded");
  const subject = threads ? subjectOf(first) : null;
  const { way } = target;
  if (way === "webhook") return { text: webhookText(first, notification, target, link), subject: null };
  if (notification.kind === "acknowledged" && group.length > 1) {
    const numbers = cut(group.map((one) => one.row.number).join(", "), 200);
    const by = oneLine(notification.subject);
    return {
      text: `${group.length} escalations are acknowledged by ${by}: ${numbers}. Nothing to do for you.`,
      subject,
    };
  }
  if (notification.text !== null) {
    const said = clipped(notification.text, first.row.number);
    const text = notification.kind === "customer" ? customerQuote(way === "sms" ? notification.text : said) : said;
    return { text: way === "sms" ? bounded(text) : text, subject };
  }
  if (group.length > 1)
    return {
      text: digestText(way === "sms" ? details.slice(0, 5) : details, group.length),
      subject: subject && `${group.length} escalations are open`,
    };
  const again = notification.kind === "reminder";
  return { text: way === "sms" ? shortText(first, link, again) : longText(first, link, again), subject };
}

const types = {
  opened: "escalation.opened",
  reminder: "escalation.open",
  acknowledged: "escalation.acknowledged",
  customer: "escalation.message",
  message: "escalation.notice",
} as const;

/** Limit of a single fact, in characters. */
const mostValue = 2000;

const fact = <T extends string | null>(text: T): T | string =>
  text === null || text.length <= mostValue ? text : text.slice(0, mostValue).toWellFormed();

/** Returns the JSON body of a webhook notification. The field names are a stable interface: fields are added, never
 *  changed. `timestamp` is the time when the escalation was opened; the time of the delivery is in its headers. Chats
 *  (Slack, Mattermost, Rocket.Chat) show the top-level `text`. `link`: page with the button that acknowledges. */
export function webhookText(
  details: Details,
  notification: NotificationRow,
  target: TargetRow,
  link: string | null,
): string {
  const { row, person, subject, triggers, said } = details;
  const text = notification.text === null ? null : clipped(notification.text, row.number);
  const quoted = text !== null && notification.kind === "customer" ? customerQuote(text) : text;
  return JSON.stringify({
    type: types[notification.kind],
    timestamp: new Date(row.opened_at).toISOString(),
    text: quoted === null ? chatText(details, link, notification.kind === "reminder") : harmless(quoted),
    data: {
      escalation: row.number,
      state: row.state,
      cause: row.cause,
      topic: fact(row.topic),
      reason: fact(row.reason),
      agent: row.agent,
      channel: row.channel,
      conversation: row.conversation,
      customer: person && { ...person, address: fact(person.address), name: fact(person.name) },
      subject: fact(subject),
      triggers: triggers.map(({ source }) => source),
      acknowledgedBy: row.acknowledged_by,
      notified: target.name,
      link,
      text,
      ...(details.cut ? { transcriptCut: true } : {}),
      transcript: said.map(({ at, ...one }) => ({
        at: new Date(at).toISOString(),
        who: one.who,
        text: one.text,
        ...(one.cut ? { charactersCut: one.cut } : {}),
        ...(one.other ? { other: one.other } : {}),
        ...(one.unsent && { unsent: true }),
      })),
    },
  });
}
