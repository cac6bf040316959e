// The interface that an adapter implements. Read this file and events.ts first, then
// README.md, and test/contract/line-adapter.ts as the example.

import type * as z from "zod";
import type { Accepted, Channel } from "./channel.ts";
import type { Party } from "./events.ts";
import type { Cursor, ExternalId, FileRef, Json, SendKey, SessionId, ThreadToken } from "./ids.ts";
import type { ChannelStatus, Finding, Probed, SendOutcome } from "./outcomes.ts";
import type { Route } from "./routes.ts";

export type { Accepted, Channel };

/** The default export of an adapter package. */
export interface AdapterDefinition<Config extends z.ZodType = z.ZodType, Draft extends Json = Json> {
  /** The adapter's name in logs and metrics. All channels of the adapter share stored secrets by it, so two adapters of one
   *  configuration may not have the same, nor that of a built-in one. */
  readonly name: string;
  /** The version of this contract. The loader rejects any other number. */
  readonly contract: 1;
  /** The schema of a channel's configuration block, without the keys that belong to the core. Must be a
   *  `z.strictObject`. */
  readonly config: Config;
  readonly traits: Traits;
  /** Converts an address as a person writes it to its canonical form (a lower-cased mailbox, an E.164
   *  number). Returns null when no channel of this adapter can reach it, and for an empty text; its own form unchanged.
   *  Absent: every address is accepted unchanged. Pure; also called where no channel exists. An exception counts as null. */
  address?(text: string): string | null;
  /** Names the channel's own addresses in a block, as written: other values, such as undefined, are ignored. `doctor` reports
   *  notifications to them, and `erase` refuses them. The block may be incomplete or invalid, and its references are not
   *  resolved. Default: the keys `address` and `number`. Pure. An exception counts as no address. */
  ownAddresses?(block: Readonly<Record<string, unknown>>): readonly unknown[];
  /** Why a channel with this block opens no conversations (`bridgehead start`), with the remedy: `places no calls: add
   *  account_sid`. Null when it can. The block is as for `ownAddresses`. Default: null. Pure. An exception counts as null. */
  startProblem?(block: Readonly<Record<string, unknown>>): string | null;
  /** The resources that only one channel may use at a time (a mailbox folder, a phone number). Two enabled channels of
   *  one file whose resources have the same `id` are rejected by `check`, at start and at a reload. Pure. An exception
   *  becomes a warning. */
  exclusive?(config: z.output<Config>): readonly ExclusiveResource[];
  /** Validates relations between keys, which a schema of single keys cannot check. Called with a parsed block by
   *  `check` and before every start and reload. A remark of severity `error` rejects the configuration. Pure. An
   *  exception becomes a warning. */
  review?(config: z.output<Config>, around: Surroundings): readonly Remark[];
  /** Creates the adapter of one channel. Called once per channel at start and after a reload that
   *  changed its block. No I/O, no timers. */
  create(channel: Channel, config: z.output<Config>): Adapter<Draft>;
}

export interface ExclusiveResource {
  /** The normalized name, compared across all channels: `imap:imap.example.com/support@example.com/INBOX`. */
  readonly id: string;
  /** The name of the resource for error messages: `the mailbox INBOX of support@example.com`. */
  readonly name: string;
  /** The key in the channel's block that selects the resource: `["imap", "user"]`. */
  readonly key: readonly (string | number)[];
}

/** Settings outside a channel's block that the block depends on. */
export interface Surroundings {
  /** `http.public_url`: the base address at which providers reach the daemon. Null when it is not set. */
  readonly publicUrl: URL | null;
  /** True when no provider can reach this daemon because its port changes with every start
   *  (`http.listen` with port 0): a test or the demo. */
  readonly trial: boolean;
}

/** A configuration error or warning for a channel's block. `fix` is the remedy in terms of its keys. */
export interface Remark {
  readonly severity: "error" | "warning";
  /** Path relative to the channel's block: `["smtp", "port"]`. Empty for the block itself. `".."` is the top of the
   *  file: `["..", "http", "public_url"]`. */
  readonly path: readonly (string | number)[];
  readonly message: string;
  readonly fix: string;
}

export interface Traits {
  /** Whether `send` supports the files of a reply (`Reply.attachments`). If not, the core informs the
   *  person who attached them. */
  readonly attachments: boolean;
  /** How messages are grouped. `thread`: a message that answers no known message opens a new
   *  conversation (e-mail). `person`: one conversation for each person (SMS). */
  readonly conversations: "thread" | "person";
  /** Default values for the core's keys of a channel block, written as in the file: `{ "debounce": "3s" }`.
   *  They apply when the file omits the keys. */
  readonly defaults?: { readonly [key: string]: Json };
  /** The platform's name of the channel. `email`, `sms` and `voice` are opened by the platform's start call and need
   *  the agent's skill of that name. Any other name (`live_chat`, `matrix`) is opened without a platform channel, by
   *  the person's foreign key. It follows the agent's skill of that name (in capitals), if there is one. Null: the
   *  channel never asks an agent; it carries notifications (`notify` of another channel) and their replies. Retries and pauses of `email` take
   *  minutes, those of every other name seconds. */
  readonly platform: PlatformChannel | null;
}

/** A channel that the platform can start itself, or another name of lower-case letters, digits and `_`. */
export type PlatformChannel = "email" | "sms" | "voice" | (string & {});

/** One channel at run time. A channel may read, send, serve, or any combination of the three; an absent
 *  member means that it does not support that function. A channel without `inbound` counts as ready when
 *  its routes are mounted, unless it has reported another state. */
export interface Adapter<Draft extends Json = Json> {
  readonly inbound?: Inbound;
  readonly outbound?: Outbound<Draft>;
  readonly routes?: readonly Route[];
  /** Fetches the bytes of an attachment that an event announced with a `ref`. The core calls it after
   *  the event was committed, concurrently with other calls, and possibly again after a failure or a
   *  crash. The core limits the size (25 MiB), the time and the number. A rejection is retried later,
   *  unless it is a `finalError`, which is permanent. */
  open?(ref: Json, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Called once when the channel ends (a reload, a shutdown), after all its other calls have returned.
   *  Closes open resources, and completes short tasks until the signal aborts. Never throws. */
  close?(signal: AbortSignal): Promise<void>;
  /** Checks the connection for `doctor --online`: connects and logs in, but sends nothing
   *  and changes nothing. A channel with several sides probes all of them, returns the worst status, and
   *  lists the result of each in `parts`. */
  probe?(signal: AbortSignal): Promise<ChannelStatus & { readonly parts?: readonly Probed[] }>;
  /** The TLS servers that the channel connects to; `doctor --online` checks their certificates. */
  readonly servers?: readonly TlsServer[];
  /** Looks for problems that a probe does not see, for `doctor --online`: settings at the provider, missing
   *  capabilities, records in the DNS. Sends nothing and changes nothing. `cursor` is the committed one of
   *  the channel. A rejection counts as a connection that failed; `probe` reports it. */
  examine?(cursor: Cursor | null, signal: AbortSignal): Promise<readonly ChannelFinding[]>;
}

/** A server with a certificate. */
export interface TlsServer {
  /** The key of the block that names it: `imap`. */
  readonly part: string;
  readonly host: string;
  readonly port: number;
  /** When TLS begins: at once, or after the STARTTLS command of that protocol. */
  readonly tls: "implicit" | "imap-starttls" | "smtp-starttls";
  /** The private CA as PEM text or the path of a file; absent for the public CAs. */
  readonly ca?: string;
}

/** A problem that `examine` found. */
export interface ChannelFinding {
  /** Stable, in kebab-case, for the documentation: `webhook-mismatch`. */
  readonly id: string;
  readonly severity: "error" | "warning" | "info";
  /** The cause, in one line. */
  readonly message: string;
  /** The required action: a command, or keys of the channel's block. */
  readonly fix: string;
}

export interface Inbound {
  /** Receives messages for as long as the connection lasts, starting from `cursor`. The cursor is null
   *  on the very first run. Returns when the signal aborts. When it throws, the core restarts it with
   *  backoff. At most one node runs it at a time. */
  run(cursor: Cursor | null, signal: AbortSignal): Promise<void>;
}

export interface Outbound<Draft extends Json = Json> {
  /** The maximum total size in bytes of the files of one reply, as this channel is configured. The core
   *  never passes more. Default: 25 MiB. */
  readonly attachmentLimit?: number;
  /** The channel's default address, on a channel whose people opt out of single addresses: a STOP that was sent to
   *  one of them (`MessageEvent.via`), and a provider's report of it (`opted-out`), suppresses messages from that address.
   *  Absent: an opt-out applies to the whole channel. */
  readonly ownAddress?: string;
  /** Renders the agent's Markdown when that is too slow for `compose`, for instance in a worker thread. Returns null
   *  for a text that `compose` renders, otherwise the function that renders it. The core calls both outside any
   *  transaction before it stores the answer, and stores the result with the answer. `compose` receives the result as
   *  `Reply.rendered`. The function must return within a few seconds after the signal aborts. If it returns null or
   *  throws, `compose` is called without a rendering. */
  prepare?(markdown: string): ((signal: AbortSignal) => Promise<Json | null>) | null;
  /** Converts one reply to the drafts to send, one for each part, and at least one. The adapter renders the reply's Markdown and splits
   *  it at the provider's message limit, in the provider's units. Pure: called inside a transaction, and the drafts are
   *  stored before any is sent. It must run in linear time and take a few milliseconds at most for any text. When it
   *  throws, the core calls it again with a shortened plain text, without signature and introduction. */
  compose(reply: Reply): readonly Draft[];
  /** Sends one draft. The core holds the lease of the draft's lane, so calls for one conversation never
   *  overlap. Outcomes are returned as values. A throw before `crossing()` has resolved means that nothing
   *  was sent; a throw after it is an unknown outcome. */
  send(draft: Draft, attempt: Attempt): Promise<SendOutcome>;
  /** Returns how many more calls of `send` could begin now without waiting for a connection, a window slot or a rate
   *  that the adapter keeps: finite, never negative, and lower by one for each running `send` from its call on. The core
   *  claims no more drafts than that. It reads the value again when a `send` has ended, and at least once
   *  a second. Called inside transactions: cheap, no I/O, never throws. A pause that an outcome has announced (`scope`)
   *  does not lower it: the core keeps such pauses. `countedSends` implements it for a limit. Absent: no `send` waits
   *  for another, and only the configured `concurrency` limits the channel. */
  capacity?(): number;
  /** True: `capacity` is about drafts outside live sessions only. A reply in a session (`Reply.session`) needs nothing
   *  but the connection of that session, so the core claims it at any `capacity`. `send` does not count it,
   *  and never lets it wait for other drafts. Default: every draft counts. */
  readonly unlimitedInSessions?: true;
  /** Checks whether an attempt of unknown outcome was sent. Absent when the adapter cannot determine it. */
  reconcile?(draft: Draft, attempt: PastAttempt, signal: AbortSignal): Promise<Finding>;
  /** Returns every address that the draft goes to, including copies; a bounce suppresses no other
   *  address. Pure. Default: the first of the reply's `to`. */
  recipients?(draft: Draft): readonly string[];
}

export interface Attempt {
  readonly key: SendKey;
  /** The number of the attempt, counted from 1. */
  readonly number: number;
  /** Aborts at the deadline, at the end of the lease, or on shutdown. */
  readonly signal: AbortSignal;
  /** Call it immediately before the first byte that could have an effect at the provider, when the
   *  connection is open and available, and await it. The core records the attempt durably before it
   *  resolves. An error before it resolves means that nothing was sent, and the core retries. An error
   *  after it leaves the outcome unknown. It rejects when the lease was lost, the attempt has ended, or the
   *  draft may no longer be sent: then send nothing. State that was checked before may have changed while
   *  it was pending. A second call in one attempt resolves without a second record. */
  crossing(): Promise<void>;
  /** Reads the bytes of one of the reply's files by its `ref`. The bytes are identical at every attempt and in every
   *  process. Call it before `crossing()`. It rejects when the bytes are unavailable now; then nothing may be sent. */
  read(ref: FileRef): Promise<Uint8Array>;
}

export interface PastAttempt {
  readonly key: SendKey;
  readonly number: number;
  /** By the clock of the channel; that of the provider may differ (`aheadOf`). */
  readonly startedAt: Date;
}

/** One answer of the agent, to be formatted for the channel. All its fields are fixed when it is created. */
export interface Reply {
  /** `answer`: the agent's answer to a message. `opening`: the first message or call of an outbound
   *  conversation. `notice`: a text of the channel itself (a HELP text) or for a human, sent unchanged.
   *  Signature and introduction are null except for answers. */
  readonly kind: "answer" | "opening" | "notice";
  /** True for an answer that a human wrote instead of the agent: it must not be marked as automatic mail. */
  readonly byHuman?: true;
  /** True when a call is to be transferred to a human after this answer. The channel first plays the
   *  answer, then transfers the call as it is configured to (`transferring`, reason `escalated`). A
   *  channel that cannot transfer continues as after any other answer. */
  readonly transfer?: true;
  /** The key of the first part. Part n is sent under `partKey(key, n)`. */
  readonly key: SendKey;
  readonly createdAt: Date;
  /** Our address to send from: the address that the person wrote to (`MessageEvent.via`). Absent for the
   *  default address. */
  readonly from?: string;
  readonly to: readonly Party[];
  readonly cc: readonly Party[];
  readonly subject: string | null;
  /** The agent's answer as Markdown, without signature. It is plain text when `plain` is set. */
  readonly text: string;
  /** The text is plain text and must never be interpreted as markup. Set for notices and for text
   *  written by a human, because both quote customers. Also set after `compose` has thrown. */
  readonly plain?: true;
  /** The result of `prepare` for the text. */
  readonly rendered?: Json;
  /** Files attached by the human who wrote the reply. Absent when there are none, and when
   *  `Traits.attachments` is false. */
  readonly attachments?: readonly ReplyAttachment[];
  /** The agent's signature from its skill's settings, or null. */
  readonly signature: string | null;
  /** The agent's introduction. Set only for the first reply of an outbound conversation. */
  readonly introduction: string | null;
  /** The sender name from the skill's settings. A name in the adapter's configuration takes precedence. */
  readonly senderName: string | null;
  /** In-Reply-To: the id of the message that this reply answers. */
  readonly answers: ExternalId | null;
  /** References, oldest first, `answers` last. */
  readonly history: readonly ExternalId[];
  /** A token that a response may carry back in addition to the ids. */
  readonly token: ThreadToken;
  /** The value of our loop header: the hops of the answered message, plus one. */
  readonly hops: number;
  /** The live session to answer in. Null for a channel of calls: place a call. */
  readonly session: SessionId | null;
}

/** A file that is sent with a reply. Its bytes stay in the core's store until the reply is settled. A
 *  draft keeps the `ref`, and `send` reads the bytes (`Attempt.read`). */
export interface ReplyAttachment {
  /** The file name as the sender's program supplied it. Treat it as data; never open it as a path. */
  readonly name: string;
  readonly mediaType: string;
  /** Size in bytes. */
  readonly size: number;
  readonly ref: FileRef;
}
