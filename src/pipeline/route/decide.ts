// Stage route: the decisions about one message, as pure functions on loaded facts.

import type { Consent, MessageEvent, Refusal } from "bridgehead/contract";
import {
  type Cap,
  type Counted,
  capped,
  channelRoom,
  type Rules,
  refuse,
  suppressedCode,
} from "../../domain/guards.ts";
import {
  answerTo,
  joinedContext,
  questionContext,
  questionText,
  type References,
  references,
} from "../../domain/turn.ts";
import { joinTraces, traceOf } from "../../ops/hops.ts";
import type { Timing } from "../../ops/timing.ts";
import { answeredBefore } from "../../store/restored.ts";
import { type EventRow, exempt } from "../../store/tables/events.ts";
import type { AttachmentRow } from "../../store/tables/files.ts";
import type { StoredMessage } from "../accept/rows.ts";
import type { ChannelRules, ChannelRuntime } from "../channel-runtime.ts";
import type { Extension, JoinableRow, Writes } from "./rows.ts";

/** A stored message. */
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

export type ConsentMessage = Incoming<StoredMessage & { readonly consent: Consent }>;
export type HumansMessage = Incoming<StoredMessage & { readonly forHumans: { readonly subject: string } }>;

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
  /** The only conversation with the person was opened by us, over the channel's default address. */
  readonly unbound: boolean;
  readonly attachments: readonly AttachmentRow[];
  /** Turns counted against the sender's caps; those of the conversation follow in `loadConversations`. */
  readonly counts: readonly Counted[];
  /** The waiting turn that the message may join. */
  readonly last: JoinableRow | null;
}

/** Use of one of the channel's caps. */
export interface CapUse {
  readonly cap: Cap;
  total: number;
  others: number;
  sinceOther: number | null;
}

export const personOf = ({ event }: Incoming): string => event.from.address.toLowerCase();

/** Returns whether the message is a question in a call: its conversation is that of the session, and no cap counts it. */
export const isSaid = ({ event }: Incoming): boolean =>
  "session" in event.thread && event.forHumans === undefined && event.consent === undefined;

/** Returns the address that an answer would be sent to, in lower case. */
export const replyTo = ({ event }: Incoming): string => (event.replyTo ?? event.from).address.toLowerCase();

/** Returns the addresses that take part in the conversation because of the message, in lower case. */
export const partiesOf = ({ event }: Incoming): string[] =>
  [event.from, ...(event.replyTo ? [event.replyTo] : []), ...(event.cc ?? [])].map(({ address }) =>
    address.toLowerCase(),
  );

/** Returns the ids under which a later message may cite this one or its ancestors. */
const citableIds = ({ event, cites }: Incoming): string[] => [event.cited ?? event.id, ...cites.answers];

const isReleased = ({ row }: Incoming): boolean => row.code === "released";

/** True when the message cites another one, so that it may be a responder's reply, and its conversation
 *  depends on all messages before it. Such a message is routed alone. */
export const isReply = ({ event, cites: { answers, tokens } }: Incoming): boolean =>
  answers.length + tokens.length > 0 || ("ours" in event.thread && (event.thread.ours?.length ?? 0) > 0);

/** True when the earlier messages may change the facts about this one. They add their parties to
 *  conversations, count as turns of their senders, and may be keywords of consent. */
export const dependsOn = (message: Incoming, earlier: ReadonlySet<string>): boolean =>
  earlier.has(personOf(message)) || earlier.has(replyTo(message));

/** True for events that the channel's caps apply to. Delivery receipts, exempt events and events released
 *  by an operator do not wait. */
export const isUnderCap = ({ kind, code }: EventRow): boolean =>
  kind === "message" && code !== "released" && code !== exempt;

/** The result for a message. */
export type RouteDecision = RowDecision | EffectDecision;

/** A result that is nothing but rows. */
export type RowDecision =
  | {
      readonly kind: "settle";
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

export const isRows = (decision: RouteDecision): decision is RowDecision =>
  ["settle", "join", "ask"].includes(decision.kind);

/** Room under a cap of the channel: in `ms` milliseconds, or when fewer than `below` turns are in its window. */
export type Wait = { readonly cap: Cap } & ({ readonly below: number } | { readonly ms: number });

/** Decides about keywords of consent, and about messages that may have been answered before a restore. The
 *  latter are held before anything else, because a responder's reply would also reach the customer twice. A
 *  keyword is still applied. Returns null for other messages. */
export function decideFirst(message: Incoming, facts: Facts, rules: Rules): RouteDecision | null {
  const { event, row } = message;
  // An ambiguous START is a keyword only for an address that is suppressed.
  const isQuestion = event.consent?.ambiguous && event.consent.word === "start" && facts.suppressed === null;
  const consent = isQuestion ? undefined : event.consent;
  if (consent) return { kind: "consent", message: { ...message, event: { ...event, consent } } };
  if (!event.handledBefore || isReleased(message)) return null;
  // The message's age counts from the restore and not from its first arrival, so `max_age` is not applied.
  const refusal = refuse(event, { ...rules, max_age: Number.POSITIVE_INFINITY }, row.received_at);
  // A message that only a human can read is held in either case, because no other list contains it.
  return refusal !== null && !refusal.hold
    ? { kind: "settle", state: "ignored", code: refusal.code, reason: refusal.reason }
    : { kind: "settle", state: "held", code: answeredBefore, reason: event.handledBefore.reason };
}

/** Applies the guards. Returns null for a message that is asked, unless a cap prevents it. */
export function decideGuards(
  message: Incoming,
  facts: Facts,
  { traits, rules }: Pick<ChannelRuntime, "traits" | "rules">,
): RouteDecision | null {
  const { event, row } = message;
  if (traits.platform === null) {
    const reason = "the channel carries notices only, and this answers none of them";
    return { kind: "settle", state: "ignored", code: "not-asked", reason };
  }
  const inCall = "session" in event.thread;
  // A released event (`inbox answer`) keeps its former code. The operator has decided, so the guards do not
  // apply. Messages of a call are as old as the call, and humans judge the age of a message themselves.
  const ageless = inCall || event.forHumans !== undefined;
  const own = ageless ? { ...rules, max_age: Number.POSITIVE_INFINITY } : rules;
  const refusal = isReleased(message) ? null : refuse(event, own, row.received_at);
  if (refusal?.hold) return { kind: "hold", refusal };
  if (refusal) return { kind: "settle", state: "ignored", code: refusal.code, reason: refusal.reason };
  const { forHumans } = event;
  if (forHumans) return { kind: "humans", message: { ...message, event: { ...event, forHumans } } };
  if (facts.suppressed !== null && !isReleased(message) && !inCall) {
    const reason = `nothing may be sent to its sender: ${facts.suppressed}`;
    return { kind: "settle", state: "ignored", code: suppressedCode, reason };
  }
  return "session" in event.thread ? { kind: "words", session: event.thread.session } : null;
}

/** Decides about a message that passed the guards: it joins a waiting turn, is held by a cap of its sender
 *  or conversation, waits for room under the channel's caps, or is asked. */
export function decideTurn(
  message: Incoming,
  facts: Facts,
  rules: Pick<ChannelRules, "debounce">,
  uses: readonly CapUse[],
): RouteDecision {
  const { row } = message;
  if (isReleased(message)) return { kind: "ask", dueAt: row.received_at };
  const extension = joined(message, facts, rules.debounce);
  if (extension) return { kind: "join", extension };
  const over = capped(facts.counts);
  if (over) return { kind: "over", over };
  const waits = uses.flatMap((use) => {
    const room = channelRoom(use.cap, row.preferred === 1, use);
    return room === null ? [] : [{ cap: use.cap, ...room }];
  });
  return waits.length > 0 ? { kind: "wait", waits } : { kind: "ask", dueAt: row.received_at + rules.debounce };
}

/** Counts one more turn of the channel. */
export function countTurn(uses: readonly CapUse[], { preferred }: Pick<EventRow, "preferred">): void {
  for (const use of uses) {
    use.total += 1;
    if (preferred === 1) continue;
    use.others += 1;
    use.sinceOther = 0;
  }
}

/** A turn waits at most this many times `debounce` after its first message, however many messages follow. */
const mostJoins = 4;
/** Maximum length of a joined question, in characters. */
const longestQuestion = 20_000;

/** Adds the message to the waiting turn. The answer goes to this message's reply address, and the delay
 *  counts from this message. Returns null when no turn waits for it. */
function joined({ row, event }: Incoming, facts: Facts, debounce: number): Extension | null {
  const { last, conversation } = facts;
  if (last === null || conversation === null) return null;
  const question = `${last.question}\n${questionText(event, false, facts.attachments)}`;
  if (question.length > longestQuestion) return null;
  return {
    turn: last.id,
    trace: joinTraces(last.trace, traceOf(row.id)),
    conversation,
    question,
    context: joinedContext(last.context, questionContext(event)),
    address: JSON.stringify(answerTo(event)),
    receivedAt: row.received_at,
    dueAt: Math.min(row.received_at + debounce, last.first_at + mostJoins * debounce),
  };
}

/** Source of new ids. */
export interface Ids {
  id(): string;
  token(): string;
}

/** Adds the rows of a decision. */
export function addRows(
  writes: Writes,
  line: ChannelRuntime,
  message: Incoming,
  facts: Facts,
  decision: RowDecision,
  ids: Ids,
): void {
  if (decision.kind === "ask") addTurn(writes, line, message, facts, decision.dueAt, ids);
  else if (decision.kind === "join") addExtension(writes, line, message, decision.extension);
  else {
    const { state, code, reason } = decision;
    writes.settled.push({ id: message.row.id, state, code, reason });
  }
}

/** Adds the turn that asks the message, and its conversation when it opens one. */
function addTurn(writes: Writes, line: ChannelRuntime, message: Incoming, facts: Facts, dueAt: number, ids: Ids): void {
  const { row, event } = message;
  const first = facts.conversation === null;
  const conversation = facts.conversation ?? addConversation(writes, line, message, ids, dueAt);
  const turn = ids.id();
  (first ? writes.first : writes.next).push({
    id: turn,
    conversation,
    channel: row.channel,
    person: personOf(message),
    event: row.id,
    question: questionText(event, first, facts.attachments),
    context: questionContext(event),
    address: JSON.stringify(answerTo(event)),
    receivedAt: row.received_at,
    dueAt,
    preferred: row.preferred,
    queue: row.queue,
  });
  remember(writes, line, message, conversation);
  writes.settled.push({ id: row.id, state: "routed", conversation, turn });
}

/** Adds the message to a waiting turn. */
function addExtension(writes: Writes, line: ChannelRuntime, message: Incoming, extension: Extension): void {
  const { conversation, turn } = extension;
  writes.extended.push(extension);
  remember(writes, line, message, conversation);
  writes.settled.push({ id: message.row.id, state: "routed", conversation, turn });
}

/** Adds a conversation with the sender of the message and returns its id. `firstDue`: see `NewConversation`. */
export function addConversation(
  { conversations }: Writes,
  { channel, agent }: ChannelRuntime,
  message: Incoming,
  ids: Ids,
  firstDue?: number,
): string {
  const { event } = message;
  const id = ids.id();
  conversations.push({
    id,
    channel,
    agent,
    person: personOf(message),
    person_name: event.from.name ?? null,
    via: event.via ?? null,
    subject: event.subject ?? null,
    token: ids.token(),
    ...(firstDue === undefined ? {} : { firstDue }),
  });
  return id;
}

/** Adds the participants, and every id under which a later message may cite this one or its ancestors; where a person has
 *  one conversation, citations find none. The sender takes part already: a conversation is opened for the sender, or was
 *  found because of that. */
export function remember(
  { participants, citations }: Writes,
  { channel, traits }: ChannelRuntime,
  message: Incoming,
  conversation: string,
): void {
  const sender = personOf(message);
  for (const address of partiesOf(message)) if (address !== sender) participants.push({ conversation, address });
  if (traits.conversations === "person") return;
  for (const externalId of citableIds(message)) citations.push({ channel, externalId, conversation, draft: null });
}

export const consentCodes = { stop: "opt-out", start: "opt-in", help: "help" } as const;

/** Returns the keyword that would replace this one if it was sent after `since` (epoch milliseconds).
 *  Keywords that arrive without delay count in the order of arrival, independent of all clocks: null. A late
 *  one was found by a backfill, and newer messages may have been processed before it. */
export function contradiction(
  { row, event: { consent, sentAt } }: ConsentMessage,
  { lateArrival, consentOrder }: Timing["route"],
): { readonly code: "opt-out" | "opt-in"; readonly since: number } | null {
  const said = sentAt.getTime();
  if (consent.word === "help" || row.received_at - said < lateArrival) return null;
  return consent.word === "start"
    ? { code: consentCodes.stop, since: said }
    : { code: consentCodes.start, since: said + consentOrder };
}

/** Two machines that answer each other's keywords would loop without end. Confirmations therefore count
 *  against the sender's caps, as answers do. `notices` are the counts for each cap. */
export const isLoop = (caps: readonly Cap[], notices: readonly number[]): boolean =>
  caps.some(({ max }, at) => (notices[at] ?? 0) >= max);

/** Returns the recipients and headers of the confirmation of a keyword. */
export const confirmationTo = (event: MessageEvent) => ({ ...answerTo(event), to: [event.from], cc: [] });
