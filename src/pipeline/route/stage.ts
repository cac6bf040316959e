// Stage route.
// Input: events in state `stored`, per channel in the order of arrival; in fair order of the senders when
// the channel is at its cap.
// Effect: finds or opens the conversation; applies the guards (machine mail, age, allow and deny, loops,
// caps); passes delivery receipts to the drafts.
// Output: a turn `waiting` in the conversation's inbound lane, or the event `ignored` or `held` with its
// reason.
// Failure: retried with backoff; `failed` after five attempts.
// Crash: the event is still `stored`.

import type { Clock, Log, MessageEvent } from "bridgehead/contract";
import { answerTo } from "../../domain/address.ts";
import { type Counted, capped, channelRoom, type Rules, refuse } from "../../domain/guards.ts";
import { questionContext, questionText } from "../../domain/question.ts";
import { chooseConversation, references } from "../../domain/thread.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { newId, newToken } from "../../ops/clock.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Query } from "../../store/driver.ts";
import { answeredBefore } from "../../store/restored.ts";
import { elderEvents, fairEvents, isCapped, postponeChannel } from "../../store/tables/capped.ts";
import {
  addParticipant,
  bindVia,
  cite,
  conversationByToken,
  conversationsCiting,
  conversationWith,
  insertConversation,
  noteOwnAddress,
  participantsOf,
} from "../../store/tables/conversations.ts";
import {
  attachmentsOf,
  channelsToRoute,
  type EventRow,
  exempt,
  lockChannel,
  postponeEvent,
  settleEvent,
  stateOf,
  storedEvents,
} from "../../store/tables/events.ts";
import { readSession } from "../../store/tables/sessions.ts";
import { suppression } from "../../store/tables/suppressions.ts";
import { capUse, countTurns, enqueueTurn, roomIn } from "../../store/tables/turns.ts";
import { readBody } from "../accept/decide.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../channel-runtime.ts";
import type { LiveSessions } from "../live-sessions.ts";
import { applyReplyAsReceipt, matchReceipt } from "../reconcile/receipts.ts";
import { heed, suppressedCode } from "./consent.ts";
import { dueAt, joinTurn } from "./debounce.ts";
import { holdForHuman, raiseHeld, tellHeld, tellHumans } from "./notices.ts";

interface RouteDeps {
  readonly lines: () => ChannelRuntimes;
  readonly sessions: LiveSessions;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  /** Cancels the running question of that conversation, because it is obsolete. */
  cancel(conversation: string): void;
}

const batch = 200;
/** Batch size for a channel at its cap: few messages have room, and the next sweep follows within a
 *  second. */
const fairBatch = 64;
const attemptLimit = 5;

export function routeStage(deps: RouteDeps): TransactionalStage {
  return {
    takes: "events",
    async run(q) {
      const committed: (() => void)[] = [];
      for (const channel of await channelsToRoute(q)) {
        const line = deps.lines().get(channel);
        if (!line) continue;
        if (!(await lockChannel(q, channel))) continue; // another transaction holds the lock: retried after its commit
        const room: Room = { none: false, noneForOthers: false };
        const route = (row: EventRow) =>
          q
            .savepoint(() => routeEvent(q, line, row, { ...deps, committed, room }))
            .catch(async (error: unknown) => {
              deps.log.error({ channel, event: row.id, err: error }, "routing an event failed");
              await postponeEvent(q, row.id, 2 ** row.attempts * 1000, attemptLimit, String(error));
            });
        for (const row of await inTurn(q, line)) {
          // The fair order may move a message ahead of others. Earlier messages of its own conversation are
          // routed before it.
          for (let next = await eldest(q, line, row); next !== null && hasRoom(room, next); ) {
            await route(next);
            next = next.id === row.id ? null : await eldest(q, line, row);
          }
        }
        failpoint("route.commit", "before", { channel });
        committed.push(() => failpoint("route.commit", "after", { channel }));
      }
      return committed;
    },
  };
}

/** The senders for which the channel's cap has no room, as found in this run. */
interface Room {
  none: boolean;
  noneForOthers: boolean;
}

/** Delivery receipts, exempt events and events released by an operator do not wait for room under the
 *  cap. */
const hasRoom = (room: Room, row: EventRow): boolean =>
  !isUnderCap(row) || !(room.none || (room.noneForOthers && row.preferred === 0));
const isUnderCap = ({ kind, code }: EventRow): boolean =>
  kind === "message" && code !== "released" && code !== exempt;

/** Returns the due events of a channel in order of arrival. When they exceed the room under the
 *  channel's cap, its messages are in fair order. */
async function inTurn(q: Query, line: ChannelRuntime): Promise<readonly EventRow[]> {
  const rows = await storedEvents(q, line.channel, batch);
  const caps = line.rules.caps.channel;
  const messages = rows.filter(isUnderCap);
  if (caps.length === 0 || messages.length === 0) return rows;
  const least = Math.min(...caps.map(({ max }) => max));
  if (messages.length < Math.max(2, least / 2) && !(await isCapped(q, line.channel))) return rows;
  const window = Math.max(...caps.map(({ per }) => per));
  const fair = await fairEvents(q, line.channel, window, fairBatch);
  return [...rows.filter((row) => !isUnderCap(row)), ...fair];
}

async function routeEvent(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  deps: RouteDeps & { committed: (() => void)[]; room: Room },
): Promise<void> {
  const event = readBody(row.body);
  if (event.kind === "delivery") {
    const draft = await matchReceipt(q, line, row, event, deps.log);
    if (draft)
      deps.committed.push(() => failpoint("receipt.commit", "after", { channel: row.channel, draft }));
    return;
  }
  if (event.kind === "session") return deps.sessions.routeEvent(q, line, row, event, deps);
  await applyReplyAsReceipt(q, line, event, deps.log);
  const [ours] = event.to;
  if (ours && line.traits.conversations === "person") await noteOwnAddress(q, line.channel, ours.address);

  const place = () => placeOf(q, line, event, deps.clock);
  const { forHumans } = event;
  const suppressed = await suppression(q, line.channel, addressOf(event));
  const isQuestion = event.consent?.ambiguous && event.consent.word === "start" && suppressed === null;
  const consent = isQuestion ? undefined : event.consent;
  if (event.handledBefore && !consent && row.code !== "released")
    return holdHandled(q, line, row, event, event.handledBefore.reason, deps.log);
  if (consent) return heed(q, line, row, { ...event, consent }, place, deps);
  if (await line.escalation()?.hear(q, line, row, event)) return;
  if (line.traits.platform === null)
    return settleEvent(q, row.id, {
      state: "ignored",
      code: "not-asked",
      reason: "the channel carries notices only, and this answers none of them",
    });
  // A released event (`inbox answer`) keeps its former code. The operator has decided, so the guards do not
  // apply.
  const released = row.code === "released";
  const refusal = released ? null : refuse(event, rulesFor(event, line.rules), row.received_at);
  if (refusal?.hold) return holdForHuman(q, line, row, event, refusal, await place(), deps);
  if (refusal) {
    deps.log.info({ channel: row.channel, event: row.id, code: refusal.code }, "message not answered");
    return settleEvent(q, row.id, { state: "ignored", ...refusal });
  }
  if (forHumans) {
    const conversation = await place();
    await tellHumans(q, line, row, { ...event, forHumans }, conversation, deps);
    return deps.sessions.openForHumans(q, line, row, { ...event, forHumans }, conversation);
  }
  const { thread } = event;
  if (suppressed !== null && !released && !("session" in thread)) {
    deps.log.info({ channel: row.channel, event: row.id, code: suppressedCode }, "message not answered");
    const reason = `nothing may be sent to its sender: ${suppressed}`;
    return settleEvent(q, row.id, { state: "ignored", code: suppressedCode, reason });
  }
  if ("session" in thread) return deps.sessions.routeMessage(q, line, row, event, thread.session, deps);
  const known = await findConversation(q, line, event);
  const { join } = line.rules;
  if (known !== null && join > 0 && !released) {
    const turn = await joinTurn(q, row, event, known, join);
    if (turn !== null) {
      await remember(q, line, event, known);
      return settleEvent(q, row.id, { state: "routed", conversation: known, turn });
    }
  }
  const over = released ? null : capped(await counts(q, line, event, known));
  const waitMs = released || over ? null : await roomFor(q, line, row);
  if (waitMs !== null) return waitForRoom(q, line, row, waitMs, deps);
  if (over) {
    deps.log.warn({ channel: row.channel, event: row.id, code: over.code }, "message held by a cap");
    await settleEvent(q, row.id, { state: "held", code: over.code, reason: over.reason });
    if (line.rules.cap_text) await tellHeld(q, line, event, over.cap, await place(), deps.clock);
    return raiseHeld(q, line, row, over.reason);
  }
  const conversation = known ?? (await openConversation(q, line, event, deps.clock));
  await remember(q, line, event, conversation);
  const turn = newId(deps.clock.now());
  await enqueueTurn(q, {
    id: turn,
    conversation,
    channel: row.channel,
    person: event.from.address.toLowerCase(),
    event: row.id,
    question: questionText(event, known === null, await attachmentsOf(q, row.id)),
    context: questionContext(event),
    address: JSON.stringify(answerTo(event)),
    receivedAt: row.received_at,
    dueAt: dueAt(q, row, released ? 0 : join),
    preferred: row.preferred,
    queue: row.queue,
  });
  await settleEvent(q, row.id, { state: "routed", conversation, turn });
}

/** Holds a message that may have been answered before a restore. Runs before all other decisions,
 *  because a responder's reply would also reach the customer twice. A consent keyword is still applied. */
async function holdHandled(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: MessageEvent,
  reason: string,
  log: Log,
): Promise<void> {
  // The message's age counts from the restore and not from its first arrival, so `max_age` is not applied.
  const refusal = refuse(event, { ...line.rules, max_age: Number.POSITIVE_INFINITY }, row.received_at);
  // A message that only a human can read is held in either case, because no other list contains it.
  const outcome =
    refusal !== null && !refusal.hold
      ? { state: "ignored", ...refusal }
      : { state: "held", code: answeredBefore, reason };
  log.info({ channel: row.channel, event: row.id, code: outcome.code }, "message not answered");
  return settleEvent(q, row.id, outcome);
}

/** Returns the rules without `max_age` for messages of a call and messages for humans. Messages of a
 *  call are as old as the call, and humans judge the age of a message themselves. */
const rulesFor = (event: MessageEvent, rules: Rules): Rules =>
  "session" in event.thread || event.forHumans !== undefined
    ? { ...rules, max_age: Number.POSITIVE_INFINITY }
    : rules;

/** Returns the first queued message of the same conversation, which may be the message itself; null when
 *  the message was already routed. */
async function eldest(q: Query, line: ChannelRuntime, row: EventRow): Promise<EventRow | null> {
  if (!isUnderCap(row)) return row;
  if ((await stateOf(q, row.id)) !== "stored") return null;
  if (line.rules.caps.channel.length === 0 || line.traits.conversations === "person") return row;
  const of = async ({ body }: EventRow) => {
    const event = readBody(body);
    return event.kind === "message" ? findConversation(q, line, event) : null;
  };
  const conversation = await of(row);
  if (conversation === null) return row;
  for (const elder of await elderEvents(q, line.channel, row.id, conversation))
    if ((await of(elder)) === conversation) return elder;
  return row;
}

/** Returns how long the message waits for room under the channel's caps, in milliseconds; null when
 *  there is room. */
async function roomFor(q: Query, line: ChannelRuntime, row: EventRow): Promise<number | null> {
  let longest: number | null = null;
  for (const cap of line.rules.caps.channel) {
    const room = channelRoom(cap, row.preferred === 1, await capUse(q, line.channel, cap.per));
    if (room === null) continue;
    const ms = "ms" in room ? room.ms : await roomIn(q, line.channel, room.below, cap.per);
    longest = Math.max(longest ?? 0, ms);
  }
  return longest;
}

/** The channel is at its cap because of a storm or the backlog of a long outage. The message and all
 *  others of its kind stay queued without a decision. Responders are notified once, and again when the
 *  cap lasts for more than an hour after they closed that escalation. */
async function waitForRoom(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  waitMs: number,
  deps: { log: Log; clock: Clock; room: Room },
): Promise<void> {
  const { channel, agent } = line;
  const preferred = row.preferred === 1;
  deps.room.noneForOthers = true;
  if (preferred) deps.room.none = true;
  if (!(await isCapped(q, channel)))
    deps.log.warn(
      { channel, wait_ms: Math.ceil(waitMs), preferred },
      "channel at its cap: messages are queued",
    );
  await postponeChannel(q, channel, waitMs, preferred);
  await line.escalation()?.raise(q, {
    key: `cap:${channel}:${Math.floor(deps.clock.now() / 3_600_000)}`,
    source: "ours",
    cause: "cap",
    channel,
    agent,
    conversation: null,
    topic: null,
    reason: "the channel is at its cap: messages are queued, those of authenticated and known senders first",
  });
}

/** Returns the address that an answer would be sent to. */
const addressOf = (event: MessageEvent): string => (event.replyTo ?? event.from).address;

async function findConversation(q: Query, line: ChannelRuntime, event: MessageEvent): Promise<string | null> {
  if (line.traits.conversations === "person") {
    const person = event.from.address.toLowerCase();
    const known = await conversationWith(q, line.channel, person, event.via ?? null);
    return known ?? (event.via === undefined ? null : bindVia(q, line.channel, person, event.via));
  }
  const { answers, tokens } = references(event);
  const ids: string[] = [];
  const sender = event.from.address;
  for (const answer of answers) ids.push(...(await conversationsCiting(q, line.channel, answer, sender)));
  for (const token of tokens) {
    const found = await conversationByToken(q, line.channel, token);
    if (found) ids.push(found);
  }
  const candidates = [];
  for (const id of new Set(ids))
    candidates.push({ conversation: id, participants: await participantsOf(q, id) });
  return chooseConversation(event.from.address, candidates);
}

async function counts(
  q: Query,
  line: ChannelRuntime,
  event: MessageEvent,
  conversation: string | null,
): Promise<Counted[]> {
  const scopes = { sender: event.from.address.toLowerCase(), conversation };
  const found: Counted[] = [];
  for (const name of ["sender", "conversation"] as const) {
    const value = scopes[name];
    if (value === null) continue;
    for (const cap of line.rules.caps[name]) {
      found.push({ name, cap, count: await countTurns(q, name, line.channel, value, cap.per) });
    }
  }
  return found;
}

async function openConversation(
  q: Query,
  line: ChannelRuntime,
  event: MessageEvent,
  clock: Clock,
): Promise<string> {
  const id = newId(clock.now());
  await insertConversation(q, {
    id,
    channel: line.channel,
    agent: line.agent,
    person: event.from.address.toLowerCase(),
    person_name: event.from.name ?? null,
    via: event.via ?? null,
    subject: event.subject ?? null,
    token: newToken(),
  });
  return id;
}

/** Returns the conversation of a message that is not asked; opens one when there is none. */
async function placeOf(q: Query, line: ChannelRuntime, event: MessageEvent, clock: Clock): Promise<string> {
  const session = "session" in event.thread ? await readSession(q, line.channel, event.thread.session) : null;
  const conversation =
    session?.conversation ??
    (await findConversation(q, line, event)) ??
    (await openConversation(q, line, event, clock));
  await remember(q, line, event, conversation);
  return conversation;
}

/** Records the participants, and every id under which a later message may cite this one or its
 *  ancestors. */
async function remember(
  q: Query,
  line: ChannelRuntime,
  event: MessageEvent,
  conversation: string,
): Promise<void> {
  for (const party of [event.from, ...(event.replyTo ? [event.replyTo] : []), ...(event.cc ?? [])]) {
    await addParticipant(q, conversation, party.address);
  }
  for (const id of [event.cited ?? event.id, ...references(event).answers]) {
    await cite(q, line.channel, id, conversation, null);
  }
}
