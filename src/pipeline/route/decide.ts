// Stage route: the decisions about messages, as pure functions on loaded facts. unasked/decide.ts has those about messages
// that are not asked.

import { capped, clockAhead, loopCode, type Rules, refuse, suppressedCode, tooOldCode } from "../../domain/guards.ts";
import { answerTo, joinedContext, questionContext, questionText } from "../../domain/turn.ts";
import { joinTraces, traceOf } from "../../ops/hops.ts";
import { answeredBefore } from "../../store/restored.ts";
import { type EventRow, exempt, releasedCode } from "../../store/tables/events.ts";
import type { ChannelRules, ChannelRuntime } from "../channel-runtime.ts";
import {
  type CapUse,
  type Context,
  type Extension,
  type Facts,
  type Incoming,
  type LastTurn,
  type Plan,
  partiesOf,
  personOf,
  type RouteDecision,
  type Run,
  replyTo,
  untaggedOf,
  type Writes,
} from "./facts.ts";
import { addUnasked, lookUpsOf, waitsOf } from "./unasked/decide.ts";

export const newRun = (): Run => ({
  room: { none: false, noneForOthers: false },
  capped: false,
  uses: null,
  held: 0,
  loop: null,
  turns: 0,
});

/** Returns `replyTo` when it is not the sender's address, else null. */
const otherReplyTo = (message: Incoming): string | null =>
  replyTo(message) === personOf(message) ? null : replyTo(message);

const isReleased = ({ row }: Incoming): boolean => row.code === releasedCode;

/** True when the message cites another one, so that it may be a responder's reply, and its conversation
 *  depends on all messages before it. Such a message is routed alone. */
export const isReply = ({ event, cites: { answers, tokens } }: Incoming): boolean =>
  answers.length + tokens.length > 0 || ("ours" in event.thread && (event.thread.ours?.length ?? 0) > 0);

/** True when the earlier messages may change the facts about this one. They add their parties to
 *  conversations, count as turns of their senders, and may be keywords of consent. */
export const dependsOn = (message: Incoming, earlier: ReadonlySet<string>): boolean =>
  [personOf, replyTo, untaggedOf].some((of) => earlier.has(of(message) ?? ""));

/** Returns the messages up to the first one of a responder, which may change other conversations, so it is alone. */
export function strangers(messages: readonly Incoming[], facts: ReadonlyMap<Incoming, Facts>): readonly Incoming[] {
  const end = messages.findIndex((message) => facts.get(message)?.responder);
  return end < 0 ? messages : messages.slice(0, Math.max(1, end));
}

/** True for events that the channel's caps apply to. Delivery receipts, exempt events and events released
 *  by an operator do not wait. */
export const isUnderCap = ({ kind, code }: EventRow): boolean =>
  kind === "message" && code !== releasedCode && code !== exempt;

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
    ? { kind: "finish", state: "ignored", code: refusal.code, reason: refusal.reason }
    : { kind: "finish", state: "held", code: answeredBefore, reason: event.handledBefore.reason };
}

/** True for a message that may be a responder's reply. Escalations handle it before the guards: they record the replies
 *  of machines themselves. */
export const mayBeResponders = (message: Incoming, facts: Facts, rules: Rules): boolean =>
  (isReply(message) || facts.responder) && decideFirst(message, facts, rules) === null;

/** Applies the guards. Returns null for a message that is asked, unless a cap prevents it. */
export function decideGuards(
  message: Incoming,
  facts: Facts,
  { traits, rules }: Pick<ChannelRuntime, "traits" | "rules">,
): RouteDecision | null {
  const { event, row } = message;
  if (traits.platform === null) {
    const reason = "the channel carries notices only, and this answers none of them";
    return { kind: "finish", state: "ignored", code: "not-asked", reason };
  }
  const inCall = "session" in event.thread;
  // A released event (`inbox answer`) keeps its former code. The operator has decided, so the guards do not
  // apply. Messages of a call are as old as the call, and humans judge the age of a message themselves.
  const ageless = inCall || event.forHumans != null;
  const own = ageless ? { ...rules, max_age: Number.POSITIVE_INFINITY } : rules;
  const refusal = isReleased(message) ? null : refuse(event, own, row.received_at);
  if (refusal?.hold) return { kind: "hold", refusal };
  if (refusal?.code === tooOldCode && row.code === clockAhead)
    return { kind: "hold", refusal: { ...refusal, reason: `${refusal.reason}, by a clock that was ahead` } };
  if (refusal) return { kind: "finish", state: "ignored", code: refusal.code, reason: refusal.reason };
  const { forHumans } = event;
  if (forHumans) return { kind: "humans", message: { ...message, event: { ...event, forHumans } } };
  if (facts.suppressed !== null && !isReleased(message) && !inCall) {
    const reason = `nothing may be sent to its sender: ${facts.suppressed}`;
    return { kind: "finish", state: "ignored", code: suppressedCode, reason };
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
  const waits = waitsOf(uses, row.preferred === 1);
  return waits.length > 0 ? { kind: "wait", waits } : { kind: "ask", dueAt: row.received_at + rules.debounce };
}

export const hasRoom = ({ room }: Run, row: EventRow): boolean =>
  !isUnderCap(row) || !(room.none || (room.noneForOthers && row.preferred === 0));

/** Decides about a message before the caps: keywords of consent and the guards. Returns null for a message that is asked,
 *  unless a cap prevents it. */
export const guard = (message: Incoming, facts: Facts, line: ChannelRuntime): RouteDecision | null =>
  decideFirst(message, facts, line.rules) ?? decideGuards(message, facts, line);

/** Applies the guards to messages that do not depend on each other. Returns their results, and all that the other decisions
 *  look up. */
export function planOf(context: Context, messages: readonly Incoming[], facts: ReadonlyMap<Incoming, Facts>): Plan {
  const { line } = context;
  const [first] = messages;
  const mayBeReply = first !== undefined && mayBeResponders(first, facts.get(first) as Facts, line.rules);
  const group = strangers(messages, facts);
  const guarded = new Map(group.map((message) => [message, guard(message, facts.get(message) as Facts, line)]));
  const isKnown = (message: Incoming) => guarded.get(message) === null && facts.get(message)?.conversation !== null;
  const known = group.filter(isKnown);
  const looksUp = [...guarded.values()].some((one) => one?.kind === "consent" || one?.kind === "hold");
  return {
    mayBeResponders: mayBeReply,
    guarded,
    known,
    joining: line.rules.debounce > 0 ? known.filter((message) => !isReleased(message)) : [],
    unasked: looksUp ? lookUpsOf(context, facts, guarded) : null,
  };
}

/** Decides about messages that do not depend on each other. `guarded`: see `Plan`. Returns what is to be written. */
export function decideAll(
  context: Context,
  run: Run,
  facts: ReadonlyMap<Incoming, Facts>,
  guarded: ReadonlyMap<Incoming, RouteDecision | null>,
): Writes {
  const writes = noWrites();
  for (const [message, first] of guarded) {
    const own = facts.get(message) as Facts;
    addNoted(writes, own);
    if (!hasRoom(run, message.row)) continue;
    const decision = first ?? decideTurn(message, own, context.line.rules, run.uses ?? []);
    addDecision(writes, context, run, message, own, decision);
  }
  return writes;
}

/** Adds the rows of a decision, and counts it. */
function addDecision(
  writes: Writes,
  context: Context,
  run: Run,
  message: Incoming,
  facts: Facts,
  decision: RouteDecision,
): void {
  const { row } = message;
  switch (decision.kind) {
    case "ask":
      addTurn(writes, context, message, facts, decision.dueAt);
      if (run.uses !== null) countTurn(run.uses, row);
      run.turns += 1;
      return;
    case "join":
      return addExtension(writes, context, message, facts, decision.extension);
    case "finish": {
      const { state, code, reason } = decision;
      writes.outcomes.push({ id: row.id, state, code, reason });
      if (state === "held") run.held += 1;
      if (code === loopCode) run.loop = row;
      return;
    }
    default:
      writes.unasked = true;
      return addUnasked(writes, context, run, message, facts, decision, () => place(writes, context, message, facts));
  }
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

/** True for a turn that a message of that person (lower case) may join: it is the person's question, and has certainly not
 *  reached the platform, because it waits for its first attempt or for a retry. */
export const isJoinable = (last: LastTurn, person: string): boolean =>
  last.state === "waiting" && last.own === 1 && last.person === person;

/** Adds the message to the waiting turn. The answer goes to this message's reply address, and the delay
 *  counts from this message. Returns null when no turn waits for it. */
function joined(message: Incoming, facts: Facts, debounce: number): Extension | null {
  const { row, event } = message;
  const { last, conversation } = facts;
  if (last === null || conversation === null || !isJoinable(last, personOf(message))) return null;
  const question = `${last.question}\n${questionText(event, false, facts.attachments)}`;
  if (question.length > longestQuestion) return null;
  return {
    turn: last.id,
    trace: joinTraces(last.trace, traceOf(row.id)),
    conversation,
    question,
    context: joinedContext(last.context, questionContext(event)),
    address: JSON.stringify(answerTo(event)),
    replyTo: otherReplyTo(message),
    untagged: untaggedOf(message),
    receivedAt: row.received_at,
    dueAt: Math.min(row.received_at + debounce, last.first_at + mostJoins * debounce),
  };
}

/** Adds what is written about a message independently of the decision. */
export function addNoted(writes: Writes, facts: Facts): void {
  if (facts.ownAddress !== null) writes.ownAddresses.push(facts.ownAddress);
  if (facts.restored !== null) writes.restored.push(facts.restored);
  if (facts.revived === null) return;
  writes.revived.push(facts.revived);
  writes.unasked = true;
}

/** Adds the turn that asks the message, and its conversation when it opens one. */
function addTurn(writes: Writes, context: Context, message: Incoming, facts: Facts, dueAt: number): void {
  const { row, event } = message;
  const first = facts.conversation === null;
  const conversation = facts.conversation ?? addConversation(writes, context, message, dueAt);
  const turn = context.ids.id();
  (first ? writes.first : writes.next).push({
    id: turn,
    conversation,
    channel: row.channel,
    person: personOf(message),
    event: row.id,
    question: questionText(event, first, facts.attachments),
    context: questionContext(event),
    address: JSON.stringify(answerTo(event)),
    replyTo: otherReplyTo(message),
    untagged: untaggedOf(message),
    receivedAt: row.received_at,
    dueAt,
    preferred: row.preferred,
    queue: row.queue,
  });
  remember(writes, context, message, facts, conversation);
  writes.outcomes.push({ id: row.id, state: "routed", conversation, turn });
}

/** Adds the message to a waiting turn. */
function addExtension(writes: Writes, context: Context, message: Incoming, facts: Facts, extension: Extension): void {
  const { conversation, turn } = extension;
  writes.extended.push(extension);
  remember(writes, context, message, facts, conversation);
  writes.outcomes.push({ id: message.row.id, state: "routed", conversation, turn });
}

/** Returns the conversation of a message that is not asked; opens one if it has none. */
function place(writes: Writes, context: Context, message: Incoming, facts: Facts): string {
  const conversation = facts.session ?? facts.conversation ?? addConversation(writes, context, message);
  remember(writes, context, message, facts, conversation);
  return conversation;
}

/** Adds a conversation with the sender of the message and returns its id. `firstDue`: see `NewConversation`. */
function addConversation(
  { conversations }: Writes,
  { line: { channel, agent }, ids }: Context,
  message: Incoming,
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

/** Adds the address that the conversation is bound to, the participants, and every id under which a later message may
 *  cite this one or its ancestors; where a person has one conversation, citations find none. The sender takes part
 *  already: a conversation is opened for the sender, or was found because of that. */
function remember(
  { bound, participants, citations }: Writes,
  { line: { channel, traits } }: Context,
  message: Incoming,
  facts: Facts,
  conversation: string,
): void {
  if (facts.binds !== null && conversation === facts.conversation) bound.push({ conversation, via: facts.binds });
  const sender = personOf(message);
  for (const address of partiesOf(message)) if (address !== sender) participants.push({ conversation, address });
  if (traits.conversations === "person") return;
  // A later message may cite this one or its ancestors.
  for (const externalId of [message.event.cited ?? message.event.id, ...message.cites.answers])
    citations.push({ channel, externalId, conversation, draft: null });
}

export const noWrites = (): Writes => ({
  conversations: [],
  bound: [],
  participants: [],
  citations: [],
  first: [],
  next: [],
  extended: [],
  outcomes: [],
  ownAddresses: [],
  restored: [],
  revived: [],
  unasked: false,
  suppressed: [],
  lifted: [],
  notices: [],
  escalations: [],
  hops: [],
  lines: [],
  postponed: [],
  spoken: [],
  forHumans: [],
});
