// A parsed mail: everything later steps look at, and nothing that keeps a worker or a parser alive (it is cloned
// from the worker's thread).

/** One mailbox of an address header, lower-cased address, decoded name. */
export interface Mailbox {
  readonly address: string;
  readonly name: string;
}

export interface Mail {
  /** Hex SHA-256 over Message-ID, Date and the author's words: the same for every copy of one message (digest.ts). */
  readonly digest: string;
  /** With angle brackets as it stood; null when missing or malformed. */
  readonly messageId: string | null;
  readonly inReplyTo: readonly string[];
  /** Oldest first, as written. */
  readonly references: readonly string[];
  readonly from: readonly Mailbox[];
  /** How many From header fields the mail has: anything but 1 is a forgery or a bug. */
  readonly fromFields: number;
  readonly sender: Mailbox | null;
  readonly replyTo: readonly Mailbox[];
  readonly to: readonly Mailbox[];
  readonly cc: readonly Mailbox[];
  /** Addresses of Delivered-To, X-Original-To, Envelope-To, X-Envelope-To, X-Forwarded-To. */
  readonly deliveredTo: readonly string[];
  /** Return-Path without brackets; "" for the null sender; null when absent. */
  readonly returnPath: string | null;
  readonly subject: string;
  /** Epoch milliseconds of the Date header; null when missing or unreadable. */
  readonly date: number | null;
  /** Every header in order, name lower-cased, value unfolded. */
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  /** The new words of the writer: quotes and signature trimmed; equals `fullText` when trimming would leave nothing. */
  readonly text: string;
  /** True when there are attachments and no word of the writer's: all is quoted, or a signature. */
  readonly wordless: boolean;
  /** All of the text, from text/plain or from HTML without hidden parts. */
  readonly fullText: string;
  /** Tokens of our body marker found in text or HTML. */
  readonly markers: readonly string[];
  /** The original sender and text when the mail is a forward. */
  readonly forwarded: { readonly from: Mailbox | null; readonly subject: string | null } | null;
  readonly attachments: readonly MailAttachment[];
  /** The parts of a multipart/report, or null. */
  readonly report: DeliveryReport | null;
  /** Top-level content type, lower-cased, without parameters. */
  readonly contentType: string;
  /** METHOD of the first calendar part (RFC 5546), lower-cased; "" when it has none; null without a calendar part. */
  readonly calendarMethod: string | null;
  /** Set when the content, or a part of it, cannot be read: encrypted, or packed in a proprietary format. */
  readonly sealed: Sealed | null;
}

/** `code` is smime-encrypted, smime-opaque, pgp-encrypted, rights-protected or winmail. */
export interface Sealed {
  readonly code: string;
  readonly reason: string;
}

export interface MailAttachment {
  readonly name: string;
  readonly mediaType: string;
  /** True for parts that HTML shows in its text (cid images). */
  readonly inline: boolean;
  readonly bytes: Uint8Array;
}

/** RFC 3464 (DSN), RFC 8098 (read receipt) or RFC 5965 (abuse report). */
export interface DeliveryReport {
  readonly type: string;
  readonly recipients: readonly {
    readonly address: string;
    readonly action: string;
    /** `5.1.1` */
    readonly status: string;
    readonly diagnostic: string;
  }[];
  /** Message-IDs of the mail that is reported on, nearest first. */
  readonly about: readonly string[];
  readonly envelopeId: string | null;
}
