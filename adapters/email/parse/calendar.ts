// Reads the calendar objects of invitations and of the responses to them (RFC 5545, RFC 5546).

import { decodeText } from "./charsets.ts";
import { cleanLine, cleanText } from "./headers.ts";
import type { Calendar } from "./mail.ts";
import { type MimePart, walk } from "./mime.ts";

/** Bytes of an object that are read. */
const maxBytes = 100_000;
/** Characters of a comment. */
const maxComment = 10_000;

/** Returns the first calendar part, or null. A calendar file attached to a text counts as an ordinary file; calendar
 *  programs send theirs as an alternative of the text. */
export function calendarIn(root: MimePart, text: string): Calendar | null {
  for (const part of walk(root)) {
    if (part.disposition === "attachment" && text.trim() !== "") continue;
    const isCalendar =
      part.mediaType === "text/calendar" ||
      part.mediaType === "application/ics" ||
      (part.mediaType === "application/octet-stream" && /\.ics$/i.test(part.fileName ?? ""));
    if (isCalendar) return calendarOf(part);
  }
  return null;
}

function calendarOf({ content, parameters }: MimePart): Calendar {
  const lines = decodeText(content.subarray(0, maxBytes), parameters["charset"] ?? null)
    .replace(/\r\n?/g, "\n")
    .replace(/\n[ \t]/g, "");
  const method = (parameters["method"] ?? valueOf(lines, "METHOD")).trim().toLowerCase();
  // The object also describes time zones, and alarms below the event.
  const [, event = ""] = lines.split(/^BEGIN:VEVENT$/m);
  const appointment = appointmentIn(event);
  const written = [commentIn(event, method), method === "counter" ? appointment : ""];
  return { method, written: written.filter((part) => part !== ""), appointment };
}

/** Returns the attendee's comment: Outlook, Apple and Nextcloud write a property, Google a parameter of the attendee. The
 *  organizer's objects repeat the comments of all attendees. */
function commentIn(event: string, method: string): string {
  const parameter = method === "reply" ? /;X-RESPONSE-COMMENT=(?:"([^"\n]*)"|([^":;\n]*))/i.exec(event) : null;
  return unescaped(valueOf(event, "COMMENT") || (parameter?.[1] ?? parameter?.[2] ?? ""));
}

/** Adds what the attendee wrote to the text of the message, unless it is there. */
export function withWritten(text: string, written: readonly string[]): string {
  const there = text.replace(/\s+/g, " ");
  const missing = written.filter((part) => !there.includes(part.replace(/\s+/g, " ")));
  return [text, ...missing].join("\n\n").trim();
}

/** Returns what, when and where, on one line; "" without a time. */
function appointmentIn(event: string): string {
  const [start, end] = ["DTSTART", "DTEND"].map((name) => timeOf(event, name));
  if (!start) return "";
  const [what, where, rule] = ["SUMMARY", "LOCATION", "RRULE"].map((name) => unescaped(valueOf(event, name)));
  const parts = [
    what && `"${what}"`,
    end ? `${start} to ${end}` : start,
    rule && `repeated (${rule})`,
    where && `at ${where}`,
  ];
  return cleanLine(parts.filter(Boolean).join(", "), 500);
}

/** Returns "2026-12-01 10:00 (Europe/Berlin)", a day without a time, or "". */
function timeOf(event: string, name: string): string {
  const [, year, month, day, hour, minute, utc] =
    /^(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d{0,2}(Z)?)?/.exec(valueOf(event, name)) ?? [];
  if (year === undefined) return "";
  const named = new RegExp(`^${name};[^:\\n]{0,200}?TZID=(?:"([^"\\n]{1,100})"|([^:;\\n]{1,100}))`, "im").exec(event);
  const zone = utc ? "UTC" : (named?.[1] ?? named?.[2]);
  return `${year}-${month}-${day}${hour ? ` ${hour}:${minute}` : ""}${zone ? ` (${zone})` : ""}`;
}

/** Returns the value of the first property of that name, "" when there is none. */
function valueOf(lines: string, name: string): string {
  const property = new RegExp(`^${name}(?:;(?:"[^"\\n]{0,500}"|[^":\\n]){0,500})?:(.*)$`, "im");
  return property.exec(lines)?.[1] ?? "";
}

const unescaped = (value: string): string =>
  cleanText(
    value.slice(0, maxComment).replace(/\\([\\;,n])/gi, (_, sign: string) => (/n/i.test(sign) ? "\n" : sign)),
  ).trim();
