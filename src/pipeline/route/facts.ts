// Stage route: the data that its functions exchange, and what a message says about itself. A message and its facts (rows.ts)
// lead to a decision (decide.ts, unasked/decide.ts), and a decision to writes (rows.ts, unasked/rows.ts).

import type { Consent, Log, Refusal } from "bridgehead/contract";
import type { Cap, Counted } from "../../domain/guards.ts";
import { type References, references } from "../../domain/turn.ts";
import type { Hop } from "../../ops/hops.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Citation, NewConversation } from "../../store/tables/conversations.ts";
import type { NewNotice } from "../../store/tables/drafts.ts";
import type { EventOutcome, EventRow } from "../../store/tables/events.ts";
import type { AttachmentRow } from "../../store/tables/files.ts";
import type { ErasedSuppression } from "../../store/tables/suppressions.ts";
import type { NewTurn, TurnRow } from "../../store/tables/turns.ts";
import type { StoredMessage } from "../accept/rows.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";
import type { EscalationTrigger } from "../escalation.ts";

export interface Incoming<Event extends StoredMessage = StoredMessage> {
  readonly row: EventRow;
  readonly event: Event;
  /** Ids and tokens that it cites. */
  readonly cites: References;
}

/** Creates the message of an event that was read from `row`. */
export const messageOf = (row: EventRow, event: StoredMessage): Incoming => ({
  row,
  event,
  cites: references(event),
});

export const personOf = ({ event }: Incoming): string => event.from.address.toLowerCase();

/** Returns whether the message is a question in a call: its conversation is that of the session, and no cap counts it. */
export const isCallQuestion = ({ event }: Incoming): boolean =>
  "session" in event.thread && event.forHumans == null && event.consent == null;

/** Returns the address that an answer would be sent to, in lower case. */
export const replyTo = ({ event }: Incoming): string => (event.replyTo ?? event.from).address.toLowerCase();

/** Returns the address that an answer would be sent to without its tag: what follows a `+`, or every word but the first of one
 *  with `=` (VERP). Each message of a program may have another tag. Null: it has none. */
export const untaggedOf = (message: Incoming): string | null => {
  const address = replyTo(message);
  const at = address.lastIndexOf("@");
  const local = address.slice(0, Math.max(0, at));
  const end = local.search(local.includes("=") ? /[-._=+]/ : /\+/);
  return end < 1 ? null : local.slice(0, end) + address.slice(at);
};

/** Returns the addresses that take part in the conversation because of the message, in lower case. */
export const partiesOf = ({ event }: Incoming): string[] =>
  [event.from, ...(event.replyTo ? [event.replyTo] : []), ...(event.cc ?? [])].map(({ address }) =>
    address.toLowerCase(),
  );

export type ConsentMessage = Incoming<StoredMessage & { readonly consent: Consent }>;
export type HumansMessage = Incoming<StoredMessage & { readonly forHumans: { readonly subject: string } }>;

/** The last open turn of a conversation. */
export interface LastTurn
  extends Pick<TurnRow, "id" | "conversation" | "person" | "state" | "trace" | "question" | "context"> {
  /** 1 for the question of a message; 0 for one of a call, an opening and words of a human. */
  readonly own: 0 | 1;
  /** Time at which the first of its messages was accepted. */
  readonly first_at: number;
}

/** What the store says about a message. */
export interface Facts {
  /** Why nothing may be sent to the address of the answer; null when it is not suppressed. */
  readonly suppressed: string | null;
  /** The sender's address is that of a notification target. */
  readonly responder: boolean;
  /** The conversation that the message belongs to; null: it opens one. */
  readonly conversation: string | null;
  /** The conversation of the session (call) that the message belongs to. */
  readonly session: string | null;
  /** Our address that `conversation` is bound to when the message enters it: we opened it, over the channel's default
   *  address, and the person writes to this one. Null: it stays. */
  readonly binds: string | null;
  /** Our address that is to be recorded, or null. */
  readonly ownAddress: string | null;
  /** The suppression of an erased person who writes again, or null. */
  readonly restored: ErasedSuppression | null;
  /** The address of the answer when bounces suppress it and the message is later: the person has a mailbox again. Or null. */
  readonly revived: string | null;
  readonly attachments: readonly AttachmentRow[];
  /** Turns counted against the sender's caps, for the sender, for another Reply-To and for all tags; those of the
   *  conversation follow for the messages of `Plan.known`. */
  readonly counts: readonly Counted[];
  /** The last open turn of `conversation`, with its lane locked: the message may join it. */
  readonly last: LastTurn | null;
  /** For a keyword of consent: whether a later one has replaced it, and the number of the conversation's notices in the
   *  window of each sender cap. */
  readonly keyword: { readonly outdated: boolean; readonly notices: readonly number[] } | null;
}

/** What the decisions of one run of the stage for one channel count. */
export interface Run {
  /** The senders for which the channel's cap has no room. */
  readonly room: { none: boolean; noneForOthers: boolean };
  /** Whether messages wait for room. */
  capped: boolean;
  /** Use of the channel's caps; null before the first look, and after turns that are not counted here. */
  uses: readonly CapUse[] | null;
  /** Number of the channel's held messages, as loaded for a message that only a human can read. */
  held: number;
  /** What counts for an automatic pause: the last message refused as a loop or held by a cap, and the number of new
   *  turns. */
  loop: EventRow | null;
  turns: number;
}

/** Use of one of the channel's caps. */
export interface CapUse {
  readonly cap: Cap;
  total: number;
  others: number;
  sinceOther: number | null;
}

/** Source of new ids. */
export interface Ids {
  id(): string;
  token(): string;
}

/** What decisions depend on besides the loaded facts. */
export interface Context {
  readonly line: ChannelRuntime;
  readonly ids: Ids;
  /** Epoch milliseconds. */
  readonly now: number;
  readonly timing: Timing;
  /** Returns the agent of another channel; undefined when it does not run. */
  readonly agentOf: (channel: string) => string | undefined;
}

/** The result for a message. */
export type RouteDecision = RowDecision | EffectDecision;

/** A result that is nothing but rows. */
export type RowDecision =
  | {
      readonly kind: "finish";
      readonly state: "ignored" | "held";
      readonly code: string;
      readonly reason: string;
    }
  | { readonly kind: "join"; readonly extension: Extension }
  | { readonly kind: "ask"; readonly dueAt: number };

/** A result with effects on more than the message's own rows. */
export type EffectDecision =
  | { readonly kind: "consent"; readonly message: ConsentMessage }
  | { readonly kind: "hold"; readonly refusal: Refusal }
  | { readonly kind: "humans"; readonly message: HumansMessage }
  | { readonly kind: "words"; readonly session: string }
  | { readonly kind: "over"; readonly over: Refusal & Counted }
  | { readonly kind: "wait"; readonly waits: readonly Wait[] };

/** Room under a cap of the channel: in `ms` milliseconds, or when fewer than `below` turns are in its window. */
export type Wait = { readonly cap: Cap } & ({ readonly below: number } | { readonly ms: number });

/** The messages of a channel at its cap are queued: for `ms` milliseconds, and until there is room under each of `rooms`,
 *  which depends on the turns of this transaction too. */
export interface Postponement {
  /** Those of preferred senders are queued as well. */
  readonly preferred: boolean;
  readonly ms: number;
  /** Fewer than `below` turns within `per` milliseconds. */
  readonly rooms: readonly { readonly below: number; readonly per: number }[];
  /** No message waited before. */
  readonly isNew: boolean;
}

/** What follows from the facts about messages that do not depend on each other. */
export interface Plan {
  /** The first message may be a responder's reply: the escalations may take it. */
  readonly mayBeResponders: boolean;
  /** The decision about each message before the caps, in order; null for one that is asked unless a cap prevents it. Ends
   *  before a later message of a responder. */
  readonly guarded: ReadonlyMap<Incoming, RouteDecision | null>;
  /** The messages to ask in known conversations, whose turns are counted for the caps. */
  readonly known: readonly Incoming[];
  /** Those of `known` that may join a waiting turn. */
  readonly joining: readonly Incoming[];
  /** Null when no decision looks up more. */
  readonly unasked: UnaskedLookUps | null;
}

/** What the decisions about messages that are not asked look up. */
export interface UnaskedLookUps {
  /** Whether the channel's held messages are counted. */
  readonly held: boolean;
  readonly keywords: readonly KeywordLookUp[];
}

/** A keyword of consent whose `Facts.keyword` are looked up. */
export interface KeywordLookUp {
  readonly message: Incoming;
  /** The keyword that would replace it if the person sent it after `since` (epoch milliseconds), `to` that own address
   *  (null: the default one; undefined: any). Null: no keyword would. */
  readonly opposite: {
    readonly code: "opt-out" | "opt-in";
    readonly since: number;
    readonly to: string | null | undefined;
  } | null;
  /** The conversation whose notices are counted; null for a new one. */
  readonly conversation: string | null;
}

/** A later message that is added to a waiting turn. */
export interface Extension
  extends Pick<NewTurn, "conversation" | "question" | "context" | "address" | "receivedAt">,
    Required<Pick<NewTurn, "dueAt" | "replyTo" | "untagged">> {
  readonly turn: string;
  /** Of all messages of the turn. */
  readonly trace: string;
}

/** The writes of several decisions. Each table gets its rows in as few statements as possible. */
export interface Writes {
  /** With `firstDue`, the first turn of the conversation is in `first`. */
  readonly conversations: NewConversation[];
  /** Conversations that get another of our addresses. */
  readonly bound: { readonly conversation: string; readonly via: string }[];
  readonly participants: { readonly conversation: string; readonly address: string }[];
  readonly citations: Citation[];
  /** Turns in conversations that these writes open. */
  readonly first: NewTurn[];
  /** Turns in known conversations. */
  readonly next: NewTurn[];
  readonly extended: Extension[];
  readonly outcomes: (EventOutcome & { readonly id: number })[];
  readonly ownAddresses: string[];
  readonly restored: ErasedSuppression[];
  /** Whether the following lists, which are those of messages that are not asked, have rows. */
  unasked: boolean;
  /** `own`: our address from which nothing is sent, or `allOwn`. */
  readonly suppressed: { readonly address: string; readonly own: string; readonly reason: string }[];
  /** Addresses whose suppression by bounces ends. */
  readonly revived: string[];
  /** Addresses whose suppression ends. */
  readonly lifted: { readonly address: string; readonly own: string }[];
  readonly notices: NewNotice[];
  readonly escalations: EscalationTrigger[];
  readonly hops: Hop[];
  /** Lines of the log, written when the transaction is on disk. */
  readonly lines: ((log: Log) => void)[];
  readonly postponed: Postponement[];
  /** For the live sessions, which write these messages themselves. */
  readonly spoken: { readonly message: Incoming; readonly facts: Facts; readonly session: string }[];
  readonly forHumans: { readonly message: HumansMessage; readonly conversation: string }[];
}
