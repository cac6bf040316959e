// What a channel tells the core. Everything here is a fact the adapter observed, never a decision about the
// conversation: those are the core's (src/domain).

import type { ExternalId, Json, SendKey, SessionId, ThreadToken } from "./ids.ts";

export type InboundEvent = MessageEvent | DeliveryEvent | SessionEvent;

/** A person (or a machine) wrote to us. */
export interface MessageEvent {
  readonly kind: "message";
  /** The dedupe key: the same input gives the same id, for ever. E-mail: mailbox, UIDVALIDITY and UID. */
  readonly id: ExternalId;
  /** A second dedupe key over the content, for copies that arrive under another `id` (a UIDVALIDITY change). */
  readonly fingerprint?: string;
  /** The id that others cite when they answer this message (a Message-ID). Default: `id`. */
  readonly cited?: ExternalId;
  readonly from: Party;
  readonly to: readonly Party[];
  /** The address of ours that the person wrote to, when it is not the channel's default: a second number, `whatsapp:...`,
   *  `rcs:...`. Each is a conversation of its own with that person, and answers go out from it (`Reply.from`). */
  readonly via?: string;
  /** Where an answer goes when that is not `from` (Reply-To). */
  readonly replyTo?: Party;
  /** Others who take part (Cc without our own addresses). */
  readonly cc?: readonly Party[];
  readonly thread: Thread;
  readonly sentAt: Date;
  readonly subject?: string;
  /** What the person said. E-mail: without quoted mails of ours and without the signature, and the whole text when that is in doubt. */
  readonly text: string;
  /** The whole text when trimming removed something. Stored, not sent to the agent. */
  readonly fullText?: string;
  /** True when there are attachments, and nothing of `text` was written for this message: it is quoted, or a signature. */
  readonly wordless?: true;
  readonly attachments?: readonly Attachment[];
  /** Set when the message must never be answered: machine mail, bounces, lists, own mail, too old, denied ... Stored with this reason. */
  readonly refusal?: Refusal;
  /** Set when traces at the provider show that the message was handled although this store does not know it. The core holds
   *  it (`answered-before-restore`) until an operator decides. */
  readonly handledBefore?: HandledBefore;
  /** The whole message is the person's word on being written to (STOP, START, HELP): acted on, never shown to the agent. */
  readonly consent?: Consent;
  /** Meant for people, not for the agent (a missed call, a voicemail): stored and told to the channel's `humans`, never
   *  asked. From a channel of calls it is an escalation, too. With its session as the thread, which need not have been
   *  opened, it is kept with the call. */
  readonly forHumans?: { readonly subject: string };
  /** How many automatic answers of other agents this thread has seen, as their loop header counts them. Default 0. */
  readonly hops?: number;
  /** Facts the agent is told beside the text, such as the verdict on the sender: `{ "sender": "unverified" }`. */
  readonly notes?: { readonly [name: string]: string };
  /** Whether `from` is proven to be who wrote it; absent where the channel cannot tell, or was not asked to. */
  readonly sender?: "verified" | "unverified";
  /** Kept for replay. */
  readonly raw?: Uint8Array;
}

/** `by`: `self` when this channel handled it in a later or earlier state of the store, so that the store is older than the
 *  provider's traces; `other` when another installation, or an unknown one, did. `reason` is for the operator. */
export interface HandledBefore {
  readonly by: "self" | "other";
  /** True when the only trace is an answer that cites the message's id. Senders choose ids and can use one twice, so this
   *  trace counts only when the store has never seen the id. */
  readonly cited?: true;
  readonly reason: string;
}

/** `stop` suppresses the sender's address on this channel until `start`; `help` changes nothing. */
export interface Consent {
  readonly word: "stop" | "start" | "help";
  /** True for a word that is also an everyday message (ALTA, ANMELDEN). As `start` it only counts for an address that is
   *  suppressed; from anybody else it is a message like any other. */
  readonly ambiguous?: true;
  /** What the channel says in return: sent as it is, past a suppression. Absent when the provider says something itself. */
  readonly answer?: string;
}

/** Why a message is not answered. `code` is short and stable (`auto-reply`, `list`, `bounce`, `own`, `too-large` ...). */
export interface Refusal {
  readonly code: string;
  readonly reason: string;
  /** A human has to read the message (it is encrypted): it is held instead of ignored, and responders are notified. */
  readonly hold?: true;
}

/** Something became of what we sent: a status callback, a bounce. */
export interface DeliveryEvent {
  readonly kind: "delivery";
  readonly id: ExternalId;
  readonly fingerprint?: string;
  /** What it is about, tried in this order; `recipient` matches the newest draft sent to that address. `mentioned` are the
   *  addresses in the text of a report that names no recipient in a machine-readable way. Only recipients of the draft
   *  are ever suppressed. */
  readonly about: {
    readonly key?: SendKey;
    readonly sent?: readonly ExternalId[];
    readonly recipient?: string;
    readonly mentioned?: readonly string[];
  };
  readonly state: "accepted" | "delivered" | "read" | "failed";
  /** failed: true when trying that address again is pointless (a hard bounce). Two of them suppress the address. */
  readonly permanent?: boolean;
  /** failed: why, as a refused outcome has it. `opted-out`: the person does not want to be written to; suppressed at once. */
  readonly code?: string;
  readonly detail?: string;
  readonly raw?: Uint8Array;
}

/** A live conversation (a call) began or goes on over a new connection (`opened`), was interrupted, is given to a human
 *  (`handing-over`), lost its connection (`lost`: another may follow) or ended (`closed`: none will). */
export interface SessionEvent {
  readonly kind: "session";
  readonly id: ExternalId;
  readonly session: SessionId;
  readonly state: "opened" | "interrupted" | "handing-over" | "lost" | "closed";
  readonly from: Party;
  /** interrupted: what the caller really heard of our answer. */
  readonly heard?: string;
  /** interrupted: the message whose answer was cut. */
  readonly about?: ExternalId;
  /** handing-over, lost, closed: why; short and stable (`asked`, `hung-up`, `socket` ...). The core knows these: handing-over
   *  `no-answer` (the agent did not answer in time) and `lost` (it cannot be reached), closed `no-answer` and `failed`
   *  (nobody has served the caller): people are told, where they want to know. */
  readonly reason?: string;
  /** closed: how long the call was, in milliseconds. */
  readonly durationMs?: number;
}

/** `address` is the channel's canonical form: a lower-cased mailbox, an E.164 number with its prefix. */
export interface Party {
  readonly address: string;
  readonly name?: string;
}

/** Ids this message answers, nearest first, and tokens found in its addresses or body; or the live session it belongs to. */
export type Thread =
  | {
      readonly answers: readonly ExternalId[];
      readonly tokens?: readonly ThreadToken[];
      /** Those of `answers` that the adapter itself made of a draft's key: they name the draft even when nobody has heard
       *  what became of it, and say that it went out. */
      readonly ours?: readonly { readonly id: ExternalId; readonly key: SendKey }[];
    }
  | { readonly session: SessionId };

/** Bytes in hand are stored in the event's own transaction; bytes elsewhere are fetched later through `Adapter.open()`. */
export type Attachment = {
  readonly name: string;
  readonly mediaType: string;
  /** False: kept, but the agent is not told of it (pictures of a signature). */
  readonly named?: boolean;
  /** Whether the person meant to hand it over; false for what programs add (pictures of a signature, calendar and S/MIME
   *  parts). Nothing else is passed on with a person's answer. Default: as `named`. */
  readonly meant?: boolean;
} & (
  | { readonly bytes: Uint8Array }
  | { readonly size?: number; readonly ref: Json }
  /** There will be no bytes, and why: it was too large to be kept. */
  | { readonly size?: number; readonly missing: string }
);
