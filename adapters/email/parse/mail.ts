// A parsed message, and the messages between callers and the worker thread. All types survive a structured clone, and
// hold no reference to a worker or a parser.

import type { EventRequest, Understanding } from "../events.ts";
import type { EmailTiming } from "../timing.ts";

/** One mailbox of an address header: address in lower case, decoded name. */
export interface Mailbox {
  readonly address: string;
  readonly name: string;
}

export interface Mail {
  /** Hex SHA-256 over Message-ID, Date, subject, the author's text and the files: the same for every copy of one message
   *  (`digestOf`). */
  readonly digest: string;
  /** With angle brackets as received; null when missing or malformed. */
  readonly messageId: string | null;
  readonly inReplyTo: readonly string[];
  /** Oldest first, as written. */
  readonly references: readonly string[];
  readonly from: readonly Mailbox[];
  /** Number of From headers in the message: any number other than 1 is a forgery or a bug. */
  readonly fromFields: number;
  readonly sender: Mailbox | null;
  readonly replyTo: readonly Mailbox[];
  readonly to: readonly Mailbox[];
  readonly cc: readonly Mailbox[];
  /** Addresses in the headers Delivered-To, X-Original-To, Envelope-To, X-Envelope-To and X-Forwarded-To. */
  readonly deliveredTo: readonly string[];
  /** Return-Path without brackets; "" for the null sender; null when absent. */
  readonly returnPath: string | null;
  readonly subject: string;
  /** Epoch milliseconds of the Date header; null when missing or unreadable. */
  readonly date: number | null;
  /** Every header in order, name lower-cased, value unfolded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  /** The author's new text, without quotes and signature; equals `fullText` when trimming would remove everything. */
  readonly text: string;
  /** True when there are attachments and no text by the author: all text is quoted, or a signature. */
  readonly wordless: boolean;
  /** The complete text, from text/plain or from HTML without hidden parts. */
  readonly fullText: string;
  /** True when the end of the text is missing, because it is longer than the parser's limits. */
  readonly isCut: boolean;
  /** Tokens of our body marker that were found in text or HTML. */
  readonly markers: readonly string[];
  /** The author of a message in the envelope of Italian certified mail (PEC). From has the address of the provider, and the
   *  signature is not verified. Null for other messages. */
  readonly certifiedAuthor: Mailbox | null;
  /** The original sender, when the message is a forward that names it. */
  readonly forwardedFrom: Mailbox | null;
  readonly attachments: readonly MailAttachment[];
  /** The parts of a report, or null (`reportOf`). */
  readonly report: DeliveryReport | null;
  /** The first calendar part; null without one. */
  readonly calendar: Calendar | null;
  /** Set when the content, or a part of it, cannot be read: encrypted, or packed in a proprietary format. */
  readonly sealed: Sealed | null;
}

/** A calendar object (RFC 5546). */
export interface Calendar {
  /** METHOD in lower case; "" when the object has none. */
  readonly method: string;
  /** What the attendee wrote: a comment, and the appointment of a proposal (COUNTER). */
  readonly written: readonly string[];
  /** `"Call", 2026-12-01 10:00 (Europe/Berlin) to 2026-12-01 11:00 (Europe/Berlin), at Office`; "" without a time. */
  readonly appointment: string;
}

/** `code` is smime-encrypted, smime-opaque, pgp-encrypted, rights-protected or winmail. */
export interface Sealed {
  readonly code: string;
  readonly reason: string;
}

export interface MailAttachment {
  readonly name: string;
  readonly mediaType: string;
  /** True for parts that the HTML shows in its text (cid images). */
  readonly inline: boolean;
  readonly bytes: Uint8Array;
}

/** RFC 3464 (DSN), RFC 8098 (read receipt) or RFC 5965 (abuse report). */
export interface DeliveryReport {
  readonly type: string;
  readonly recipients: readonly {
    readonly address: string;
    /** One of those that special-parts.ts knows, or "". */
    readonly action: string;
    /** `5.1.1` */
    readonly status: string;
    readonly diagnostic: string;
  }[];
  /** Message-IDs of the reported message, nearest first. */
  readonly about: readonly string[];
  readonly envelopeId: string | null;
}

/** DNS configuration of a worker. */
export interface DnsSettings {
  /** Addresses of DNS servers (`"192.0.2.1"`, `"[2001:db8::1]:53"`). Default: the system's. */
  readonly servers?: readonly string[];
  /** Fixed responses instead of a server, by `"<type> <name>"` in lower case (`"txt
   *  _dmarc.example.com"`). A list is the response, a string is a DNS error code such as `"ESERVFAIL"`.
   *  A name that is not listed does not exist. */
  readonly records?: { readonly [question: string]: readonly string[] | string };
}

export type DnsLimits = Pick<EmailTiming, "dns" | "dnsAnswer">;

export type SenderAuthSettings =
  | { readonly mode: "off" }
  /** Verify DKIM and DMARC in this process. `limits`: of the DNS requests for one message. */
  | { readonly mode: "mailauth"; readonly limits: DnsLimits; readonly dns?: DnsSettings }
  /** Trust the topmost Authentication-Results header when this server wrote it. */
  | { readonly mode: "header"; readonly authservId: string };

export interface ParseContext {
  readonly senderAuth: SenderAuthSettings;
  /** The channel's addresses, lower case. The parser uses them to recognize responses to our messages.
   *  Without them it removes only marked quotes and signatures. Default: none. */
  readonly own?: readonly string[];
}

/** Whether the address in From is authenticated. Only `pass` means yes; `temperror` may be retried later. */
export interface SenderAuth {
  readonly result: "pass" | "fail" | "none" | "temperror";
  readonly method: "dmarc" | "authentication-results";
  /** Domain of the From address, lower-cased; "" when there is not exactly one. */
  readonly domain: string;
  readonly detail: string;
}

interface Unparsed {
  readonly ok: false;
  readonly code: "too-slow" | "too-big-in-memory" | "malformed";
  readonly reason: string;
}

export type ParseResult = { readonly ok: true; readonly mail: Mail; readonly auth: SenderAuth | null } | Unparsed;

/** The events of a message. Its bytes stay with the caller: an event that stores them has empty `raw`. */
export type ReadResult = { readonly ok: true; readonly understanding: Understanding } | Unparsed;

/** A request from the host to the worker. */
export interface ParseJob {
  readonly id: number;
  readonly raw: Uint8Array;
  readonly context: ParseContext;
  /** Null: the response is the parsed message. */
  readonly request: EventRequest | null;
}

/** A response from the worker to the host. */
export type ParseResponse =
  /** Sent once, when the thread has loaded its code. */
  | { readonly id: 0; readonly kind: "ready" }
  /** The message is parsed, and its sender is being checked. */
  | { readonly id: number; readonly kind: "checking" }
  | { readonly id: number; readonly kind: "done"; readonly result: ParseResult | ReadResult };
