// What an adapter is. Read this file and events.ts, then adapters/email/index.ts as the example.

import type * as z from "zod";
import type { Accepted, Channel } from "./channel.ts";
import type { Party } from "./events.ts";
import type { Cursor, ExternalId, FileRef, Json, SendKey, SessionId, ThreadToken } from "./ids.ts";
import type { ChannelStatus, Probed, SendOutcome, Verdict } from "./outcomes.ts";
import type { Route } from "./routes.ts";

export type { Accepted, Channel };

/** The default export of an adapter package. */
export interface AdapterDefinition<Config extends z.ZodType = z.ZodType, Draft extends Json = Json> {
  /** For logs and metrics. */
  readonly name: string;
  /** The number of this contract; any other is refused at load. */
  readonly contract: 1;
  /** One block of the configuration, without the keys that are the core's. Must be a `z.strictObject`. */
  readonly config: Config;
  readonly traits: Traits;
  /** The canonical form of an address as a person writes it (a lower-cased mailbox, an E.164 number); null when no channel
   *  of this adapter could reach it. Absent: whatever is written is taken. Pure; asked where no channel exists, too. */
  address?(text: string): string | null;
  /** What no second channel may use at the same time (a mailbox folder, a phone number). Two enabled channels of one file
   *  whose resources have the same `id` are rejected by `check`, at start and at a reload. Pure. */
  exclusive?(config: z.output<Config>): readonly ExclusiveResource[];
  /** What no single key can know. Called with a block that was parsed, by `check` and before every start and reload; an
   *  error refuses the configuration. Pure. */
  review?(config: z.output<Config>, around: Surroundings): readonly Remark[];
  /** Called once per channel at start and after a reload that changed its block. No I/O, no timers. */
  create(channel: Channel, config: z.output<Config>): Adapter<Draft>;
}

export interface ExclusiveResource {
  /** The normalized name, compared across all channels: `imap:imap.example.com/support@example.com/INBOX`. */
  readonly id: string;
  /** The resource in the operator's words: `the mailbox INBOX of support@example.com`. */
  readonly name: string;
  /** The key in the channel's block that names it: `["imap", "user"]`. */
  readonly key: readonly (string | number)[];
}

/** What a channel's block depends on beside itself. */
export interface Surroundings {
  /** `http.public_url`: where providers reach us; null when it is not set. */
  readonly publicUrl: URL | null;
  /** No provider reaches this daemon, because its port changes with every start (`http.listen` with port 0): a test or the
   *  demo. */
  readonly trial: boolean;
}

/** Something wrong with a channel's block, and the remedy in terms of its keys. */
export interface Remark {
  readonly severity: "error" | "warning";
  /** From the channel's block on: `["smtp", "port"]`; empty for the block itself; `["..", "http", "public_url"]` for a key of
   *  the whole file that is there. */
  readonly path: readonly (string | number)[];
  readonly message: string;
  readonly fix: string;
}

export interface Traits {
  /** Whether `send` carries the files of a reply (`Reply.attachments`). Where it does not, the core tells who attached them. */
  readonly attachments: boolean;
  /** `thread`: a message that answers nothing opens a new conversation (e-mail). `person`: one conversation a person (SMS). */
  readonly conversations: "thread" | "person";
  /** What the core's keys of a channel block are when the file leaves them out, as one would write them there: `{ "join": "3s" }`. */
  readonly defaults?: { readonly [key: string]: Json };
  /** The platform's name of the channel: `email`, `sms` and `voice` are opened by its start call and need the agent's skill of
   *  that name. Any other (`live_chat`, `matrix`) is opened without a channel of the platform, by the person's foreign key,
   *  and follows the agent's skill of that name (in capitals) where it has one. Null: no agent is asked anything there; the
   *  channel carries notifications to people, and their answers. */
  readonly platform: PlatformChannel | null;
}

/** The channels that the platform can start itself, or the name of another one: lower case, digits and `_`. */
export type PlatformChannel = "email" | "sms" | "voice" | (string & {});

/** A channel may read, send, serve, or any of the three. A missing part is a missing ability. A channel without `inbound`
 *  counts as ready when its routes are mounted, unless it has reported another state. */
export interface Adapter<Draft extends Json = Json> {
  readonly inbound?: Inbound;
  readonly outbound?: Outbound<Draft>;
  readonly routes?: readonly Route[];
  /** Fetches the bytes of an attachment that was announced with a `ref`, after its event was committed and beside
   *  everything else; perhaps again after a failure or a kill. The core bounds size (25 MiB), time and number. Rejects to
   *  be tried again later; with `finalError` when that is pointless. */
  open?(ref: Json, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** Called once, when the channel ends (a reload, a shutdown) and no call of it is running any more: closes what is kept
   *  open and finishes small things until the signal aborts. Never throws. */
  close?(signal: AbortSignal): Promise<void>;
  /** For `check --online` and start-up: connects and logs in; sends nothing, changes nothing. A channel with several sides
   *  probes all of them, answers as the worst one does, and says of each in `parts` what it found. */
  probe?(signal: AbortSignal): Promise<ChannelStatus & { readonly parts?: readonly Probed[] }>;
}

export interface Inbound {
  /** Lives as long as the connection. Reads on from `cursor`; null on the very first run.
   *  Returns when the signal aborts; throws to be started again, with back-off, by the core.
   *  At most one node runs it at a time. */
  run(cursor: Cursor | null, signal: AbortSignal): Promise<void>;
}

export interface Outbound<Draft extends Json = Json> {
  /** How many bytes of files one reply may carry, all together, as this channel is configured; the core gives none more.
   *  Default: 25 MiB. */
  readonly attachmentLimit?: number;
  /** Renders the agent's Markdown where that takes too long for `compose`, for instance in a worker thread. The core calls it
   *  outside any transaction before it stores the answer, and stores the result with it; `compose` gets it as
   *  `Reply.rendered`. Must end soon after the signal aborts (a few seconds). Null, or a throw: there is no rendering, and
   *  `compose` does without. */
  prepare?(markdown: string, signal: AbortSignal): Promise<Json | null>;
  /** One reply -> what will be sent, part by part. The adapter renders the reply's Markdown and splits it where its provider
   *  limits a message: it alone knows in which units. Pure: called inside a transaction, stored before anything is sent. Must
   *  take linear time and a few milliseconds at most, whatever the text is. When it throws, the core calls it again with a
   *  shortened plain text, without signature and introduction. */
  compose(reply: Reply): readonly Draft[];
  /** Called with the draft's lane leased; never twice at once for one conversation. Outcomes are values; a throw before
   *  `crossing()` means nothing was sent, after it nobody knows. */
  send(draft: Draft, attempt: Attempt): Promise<SendOutcome>;
  /** Did that attempt go through? Absent means nobody can tell. */
  reconcile?(draft: Draft, attempt: PastAttempt, signal: AbortSignal): Promise<Verdict>;
  /** Every address that the draft goes to, copies included; a bounce suppresses no other one. Pure. Default: the first
   *  of the reply's `to`. */
  recipients?(draft: Draft): readonly string[];
}

export interface Attempt {
  readonly key: SendKey;
  /** Counted from 1. */
  readonly number: number;
  /** Deadline, end of the lease, or shutdown. */
  readonly signal: AbortSignal;
  /** Call just before the first byte that could have an effect.
   *  Thrown before it: nothing was sent, try again. Thrown after it: nobody knows.
   *  It may itself throw (the lease was lost): then send nothing. */
  crossing(): void;
  /** The bytes of one of the reply's files, by its `ref`: the same at every attempt, in whichever process. Call it before
   *  `crossing()`; rejects when they cannot be had now, and then nothing may be sent. */
  read(ref: FileRef): Promise<Uint8Array>;
}

export interface PastAttempt {
  readonly key: SendKey;
  readonly number: number;
  readonly startedAt: Date;
}

/** One answer of the agent, ready to be dressed for the channel. Everything in it is frozen when it is made. */
export interface Reply {
  /** `answer`: of the agent, to a message. `opening`: we write (or call) first. `notice`: words of the channel's own
   *  (a HELP text) or for a human; sent as it is. Signature and introduction are null but for answers. */
  readonly kind: "answer" | "opening" | "notice";
  /** True for an answer that a person wrote in place of the agent: no automatic mail. */
  readonly byHuman?: true;
  /** True for an answer after which a call goes to a human: said first, then handed over, as the channel is configured to
   *  (`handing-over`, reason `escalated`). A channel that can hand nothing over goes on as after any other answer. */
  readonly handOver?: true;
  /** The key of the first part; part n sends under `partKey(key, n)`. */
  readonly key: SendKey;
  readonly createdAt: Date;
  /** The address of ours to send from: the one the person wrote to (`MessageEvent.via`). Absent for the default. */
  readonly from?: string;
  readonly to: readonly Party[];
  readonly cc: readonly Party[];
  readonly subject: string | null;
  /** The agent's answer, Markdown, without signature; plain text where `plain` says so. */
  readonly text: string;
  /** The text is plain text: never interpret it as markup. Set for notices and for what a person wrote, because they quote
   *  customers, and when `compose` has thrown. */
  readonly plain?: true;
  /** What `prepare` made of the text. */
  readonly rendered?: Json;
  /** Files that the person who wrote it has attached. Absent when there are none, and where `Traits.attachments` is false. */
  readonly attachments?: readonly ReplyAttachment[];
  /** The agent's signature from its skill's settings, or null. */
  readonly signature: string | null;
  /** The agent's introduction, set for the first reply of a conversation that we opened. */
  readonly introduction: string | null;
  /** From the skill's settings; the adapter's configured name wins. */
  readonly senderName: string | null;
  /** In-Reply-To: the id of the message this answers. */
  readonly answers: ExternalId | null;
  /** References, oldest first, `answers` last. */
  readonly history: readonly ExternalId[];
  /** What a person's answer may carry back to us, beside the ids. */
  readonly token: ThreadToken;
  /** What our loop header says: the hops of the message this answers, plus one. */
  readonly hops: number;
  /** The live session to answer in. Null for a channel of calls: place one. */
  readonly session: SessionId | null;
}

/** A file that goes out with a reply. Its bytes stay in the core's store until the reply is settled: a draft keeps the
 *  `ref`, and `send` reads them (`Attempt.read`). */
export interface ReplyAttachment {
  /** As the person's program named it: data, never a path to open. */
  readonly name: string;
  readonly mediaType: string;
  /** Bytes. */
  readonly size: number;
  readonly ref: FileRef;
}
