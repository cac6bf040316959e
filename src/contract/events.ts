// The events that a channel reports to the core. Every field is a fact that the adapter observed. Decisions
// about the conversation belong to the core (src/domain).

import type { ExternalId, Json, SendKey, SessionId, ThreadToken } from "./ids.ts";

export type InboundEvent = MessageEvent | DeliveryEvent | SessionEvent;

/** A message from a person or a machine. */
export interface MessageEvent {
  readonly kind: "message";
  /** The deduplication key. The same input must always give the same id. E-mail: mailbox, UIDVALIDITY and UID. */
  readonly id: ExternalId;
  /** A second deduplication key over the content, for copies that arrive under another `id` (a UIDVALIDITY change). */
  readonly fingerprint?: string;
  /** The id that later messages cite when they answer this message (a Message-ID). Default: `id`. */
  readonly cited?: ExternalId;
  readonly from: Party;
  readonly to: readonly Party[];
  /** Our address that the message was sent to, when it is not the channel's default: a second number, `whatsapp:...`,
   *  `rcs:...`. Each address has its own conversation with that person, and replies are sent from it (`Reply.from`). */
  readonly via?: string;
  /** The address for replies when it differs from `from` (Reply-To). */
  readonly replyTo?: Party;
  /** Other participants (Cc without our own addresses). */
  readonly cc?: readonly Party[];
  readonly thread: Thread;
  readonly sentAt: Date;
  readonly subject?: string;
  /** The text that the sender wrote. E-mail: without quotes of our mails and without the signature; the
   *  whole text when the adapter cannot separate them reliably. */
  readonly text: string;
  /** True when there are attachments and no part of `text` was written for this message: it is all
   *  quotes or signature. */
  readonly wordless?: true;
  readonly attachments?: readonly Attachment[];
  /** Set when the message must never be answered: machine mail, bounces, lists, own mail, too old,
   *  denied ... The core stores the message with this reason. */
  readonly refusal?: Refusal;
  /** Set when traces at the provider show that the message was already handled, although this store has
   *  no record of it. The core holds the message (`answered-before-restore`) until an operator decides. */
  readonly handledBefore?: HandledBefore;
  /** Set when the whole message is an opt-out, opt-in or help keyword (STOP, START, HELP). The core acts
   *  on it and never passes it to the agent. */
  readonly consent?: Consent;
  /** Set for a message for humans (a missed call, a voicemail). The core stores it, notifies the
   *  channel's `notify`, and never asks the agent. From a channel of calls it is also an escalation.
   *  With a session as its thread, it is stored with that call; the session need not have been opened. */
  readonly forHumans?: { readonly subject: string };
  /** Number of automatic answers by other agents in this thread, according to their loop header. Default 0. */
  readonly hops?: number;
  /** Facts that the agent receives with the text, such as the sender verification: `{ "sender": "unverified" }`. */
  readonly notes?: { readonly [name: string]: string };
  /** Whether the sender address `from` was authenticated. Absent when the channel cannot check it or is
   *  not configured to. */
  readonly sender?: "verified" | "unverified";
  /** The original bytes, kept for replay. */
  readonly raw?: Uint8Array;
}

/** `by` is `self` when this channel handled the message in an earlier or later state of the store: the
 *  store is then older than the traces at the provider. It is `other` when another or an unknown
 *  installation handled it. `reason` is for the operator. */
export interface HandledBefore {
  readonly by: "self" | "other";
  /** True when the only trace is a reply that cites the message's id. Senders choose ids and can reuse
   *  them, so this trace counts only when the store has no record of the id. */
  readonly cited?: true;
  readonly reason: string;
}

/** `stop` suppresses the sender's address on this channel until `start`; where `Outbound.ownAddress` is given, for messages
 *  from our address that it was sent to. `help` changes no state. */
export interface Consent {
  readonly word: "stop" | "start" | "help";
  /** True for a keyword that is also an everyday message (ALTA, ANMELDEN). As `start` it counts only for
   *  an address that is suppressed. From any other address it is handled as a normal message. */
  readonly ambiguous?: true;
  /** The text that the channel sends in response. It is sent unchanged, even to a suppressed address.
   *  Absent when the provider sends its own response. */
  readonly answer?: string;
}

/** Why a message is not answered. `code` is short and stable (`auto-reply`, `list`, `bounce`, `own`,
 *  `too-large` ...). */
export interface Refusal {
  readonly code: string;
  readonly reason: string;
  /** True when a human must read the message (for example, because it is encrypted). The core holds it
   *  instead of ignoring it, and notifies responders. */
  readonly hold?: true;
}

/** A delivery receipt for a sent message: a status callback or a bounce (DSN). */
export interface DeliveryEvent {
  readonly kind: "delivery";
  readonly id: ExternalId;
  readonly fingerprint?: string;
  /** Identifies the draft that the event concerns; the core tries the fields in this order. `recipient` matches the
   *  newest draft sent to that address. `mentioned` lists the addresses in the text of a report that names no recipient
   *  in machine-readable form. Only recipients of the draft are ever suppressed. */
  readonly about: {
    readonly key?: SendKey;
    readonly sent?: readonly ExternalId[];
    readonly recipient?: string;
    readonly mentioned?: readonly string[];
  };
  readonly state: "accepted" | "delivered" | "read" | "failed";
  /** failed: true when a retry to that address cannot succeed (a hard bounce). The second such event
   *  suppresses the address. */
  readonly permanent?: boolean;
  /** failed: the error code, as in a refused outcome. `opted-out`: the recipient has opted out, and the
   *  core suppresses the address at once. */
  readonly code?: string;
  readonly detail?: string;
  readonly raw?: Uint8Array;
}

/** A state change of a live conversation (a call). `opened`: it began, or continues over a new connection.
 *  `interrupted`: the caller interrupted a reply (barge-in). `transferring`: it is being transferred to a human.
 *  `lost`: its connection was lost and another may follow. `closed`: it ended and no other connection follows. */
export interface SessionEvent {
  readonly kind: "session";
  readonly id: ExternalId;
  readonly session: SessionId;
  readonly state: "opened" | "interrupted" | "transferring" | "lost" | "closed";
  readonly from: Party;
  /** interrupted: the part of the reply that was played to the caller. */
  readonly heard?: string;
  /** interrupted: the message whose reply was cut off. */
  readonly about?: ExternalId;
  /** transferring, lost, closed: the reason as a short stable code (`asked`, `hung-up`, `socket` ...).
   *  The core interprets these codes: transferring `no-answer` (the agent did not answer before its
   *  timeout) and `lost` (the agent is unreachable); closed `no-answer` and `failed` (the caller was not
   *  served). For these it notifies responders, if they are configured for it. */
  readonly reason?: string;
  /** closed: the duration of the call in milliseconds. */
  readonly durationMs?: number;
}

/** A participant. `address` is in the channel's canonical form: a lower-cased mailbox, an E.164 number
 *  with its prefix. */
export interface Party {
  readonly address: string;
  readonly name?: string;
}

/** The ids that this message answers, nearest first, and the tokens found in its addresses or body; or
 *  the live session that it belongs to. */
export type Thread =
  | {
      readonly answers: readonly ExternalId[];
      readonly tokens?: readonly ThreadToken[];
      /** Those of `answers` that the adapter derived from a draft's key. They identify the draft even
       *  when its outcome is unknown, and prove that it was sent. */
      readonly ours?: readonly { readonly id: ExternalId; readonly key: SendKey }[];
    }
  | { readonly session: SessionId };

/** Inline bytes are stored in the event's own transaction. Bytes behind a `ref` are fetched later
 *  through `Adapter.open()`. */
export type Attachment = {
  readonly name: string;
  readonly mediaType: string;
  /** False: the attachment is stored, but the agent is not informed of it (images of a signature). */
  readonly named?: boolean;
  /** Whether the sender attached it deliberately. False for parts that mail programs add (images of a
   *  signature, calendar and S/MIME parts). Only deliberate attachments are forwarded with a human's
   *  reply. Default: the value of `named`. */
  readonly meant?: boolean;
} & (
  | { readonly bytes: Uint8Array }
  | { readonly size?: number; readonly ref: Json }
  /** The bytes will never be available; `missing` is the reason, for example that the file exceeded the size limit. */
  | { readonly size?: number; readonly missing: string }
);
