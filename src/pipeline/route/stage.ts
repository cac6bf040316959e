// Stage route. Input: events in state `stored`, per channel in the order of arrival; in fair order of the senders when
// the channel is at its cap. Effect: finds or opens the conversation; applies the guards (machine mail, age, allow and
// deny, loops, caps); passes delivery receipts to the drafts. Output: a turn `waiting` in the conversation's inbound
// lane, or the event `ignored` or `held` with its reason. Failure: retried with backoff; `failed` after five attempts.
// Crash: the event is still `stored`.

import { loopCode } from "../../domain/guards.ts";
import { routeDelay } from "../../domain/retry.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { newId, newToken } from "../../ops/clock.ts";
import { type Core, failpointOfCommit, type Query } from "../../store/driver.ts";
import {
  type EventRow,
  elderEvents,
  fairEvents,
  isCapped,
  lockChannel,
  postponeEvent,
  settleEvent,
  storedEvents,
} from "../../store/tables/events.ts";
import { capUse } from "../../store/tables/turns.ts";
import { readBody } from "../accept/rows.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../channel-runtime.ts";
import type { LiveSessions } from "../live-sessions.ts";
import { applyReplyAsReceipt, matchReceipt } from "../reconcile/receipts.ts";
import {
  addConversation,
  addRows,
  type CapUse,
  countTurn,
  decideFirst,
  decideGuards,
  decideTurn,
  dependsOn,
  type EffectDecision,
  type Facts,
  type Ids,
  type Incoming,
  isReply,
  isRows,
  isUnderCap,
  messageOf,
  partiesOf,
  type RouteDecision,
  type RowDecision,
  remember,
} from "./decide.ts";
import { applyConsent, escalateHeld, forwardToHumans, holdForHuman, notifyHeld } from "./held-notifications.ts";
import { pauseAtLimit, waitForRoom } from "./limits.ts";
import { boundConversation, loadConversations, loadFacts, noWrites, write } from "./rows.ts";

interface RouteDeps extends Omit<Core, "db"> {
  readonly lines: () => ChannelRuntimes;
  readonly sessions: LiveSessions;
  /** Cancels the running question of that conversation, because it is obsolete. */
  cancel(conversation: string): void;
}

/** One run of the stage for one channel. */
export interface Pass extends RouteDeps {
  readonly line: ChannelRuntime;
  /** The senders for which the channel's cap has no room, as found in this run. */
  readonly room: { none: boolean; noneForOthers: boolean };
  /** Use of the channel's caps; null before the first look, and after turns that are not counted here. */
  uses: readonly CapUse[] | null;
  /** What counts for an automatic pause in this run: the last message refused as a loop or held by a cap, and the
   *  number of new turns. */
  readonly counted: { loop: EventRow | null; turns: number };
  committed: (() => void)[];
}

const batch = 200;
/** Batch size for a channel at its cap: few messages have room, and the next sweep follows within a second. */
const fairBatch = 64;
const attemptLimit = 5;

export function routeStage(deps: RouteDeps): TransactionalStage {
  return {
    takes: "events",
    async run(q, channels) {
      const committed: (() => void)[] = [];
      for (const channel of channels ?? []) {
        const line = deps.lines().get(channel);
        if (!line) continue;
        if (!(await lockChannel(q, channel))) continue; // another transaction holds the lock: retried after its commit
        const room = { none: false, noneForOthers: false };
        const pass: Pass = {
          ...deps,
          line,
          room,
          uses: null,
          counted: { loop: null, turns: 0 },
          committed: [],
        };
        const rows = await storedEvents(q, channel, batch);
        const fair = await fairOrder(q, line, rows);
        if (fair === null) await routeInOrder(q, pass, rows);
        else await routeFairly(q, pass, [...rows.filter((row) => !isUnderCap(row)), ...fair]);
        if (pass.counted.loop !== null || line.rules.pause_on?.replies.length) await pauseAtLimit(q, pass);
        failpointOfCommit(q, "route.commit", { channel });
        committed.push(...pass.committed);
      }
      return committed;
    },
  };
}

const hasRoom = ({ room }: Pass, row: EventRow): boolean =>
  !isUnderCap(row) || !(room.none || (room.noneForOthers && row.preferred === 0));

/** Returns the channel's messages in fair order when they exceed the room under its cap; else null. */
async function fairOrder(
  q: Query,
  line: ChannelRuntime,
  rows: readonly EventRow[],
): Promise<readonly EventRow[] | null> {
  const caps = line.rules.caps.channel;
  const messages = rows.filter(isUnderCap);
  if (caps.length === 0 || messages.length === 0) return null;
  const least = Math.min(...caps.map(({ max }) => max));
  if (messages.length < Math.max(2, least / 2) && !(await isCapped(q, line.channel))) return null;
  const window = Math.max(...caps.map(({ per }) => per));
  return fairEvents(q, line.channel, window, fairBatch);
}

/** Routes events in the order of arrival. Consecutive messages that do not depend on each other share the
 *  statements that load and write their rows. */
async function routeInOrder(q: Query, pass: Pass, rows: readonly EventRow[]): Promise<void> {
  let group: Incoming[] = [];
  const parties = new Set<string>();
  const flush = async () => {
    for (let rest = group; rest.length > 0; ) rest = rest.slice(await routeGroup(q, pass, rest));
    group = [];
    parties.clear();
  };
  for (const row of rows) {
    const message = parsed(row);
    if (message === null) {
      await flush();
      await routeOther(q, pass, row);
      continue;
    }
    if (isReply(message) || dependsOn(message, parties)) await flush();
    group.push(message);
    for (const party of partiesOf(message)) parties.add(party);
    if (isReply(message)) await flush();
  }
  await flush();
}

/** Routes the messages of a channel at its cap. The fair order may move a message ahead of others. Earlier
 *  messages of its own conversation are routed before it. */
async function routeFairly(q: Query, pass: Pass, rows: readonly EventRow[]): Promise<void> {
  const done = new Set<number>();
  for (const row of rows) {
    const message = parsed(row);
    if (message === null) {
      await routeOther(q, pass, row);
      continue;
    }
    while (!done.has(row.id) && hasRoom(pass, row)) {
      const next = await eldest(q, pass, message, done);
      if (!hasRoom(pass, next.row)) break;
      done.add(next.row.id);
      await routeGroup(q, pass, [next]);
    }
  }
}

/** Returns the first queued message of the same conversation, which may be the message itself. */
async function eldest(q: Query, pass: Pass, message: Incoming, done: ReadonlySet<number>): Promise<Incoming> {
  const { line } = pass;
  if (!isUnderCap(message.row) || line.rules.caps.channel.length === 0) return message;
  if (line.traits.conversations === "person") return message;
  const of = async (one: Incoming) =>
    (await loadFacts(q, line, [one], pass.timing.route.ownAddress)).get(one)?.conversation ?? null;
  const conversation = await of(message);
  if (conversation === null) return message;
  for (const row of await elderEvents(q, line.channel, message.row.id, conversation)) {
    const elder = done.has(row.id) ? null : parsed(row);
    if (elder !== null && (await of(elder)) === conversation) return elder;
  }
  return message;
}

/** Returns the message of the event; null for other events and for one that cannot be read. */
function parsed(row: EventRow): Incoming | null {
  try {
    const event = readBody(row.body);
    if (event.kind !== "message") return null;
    return typeof event.from.address === "string" && typeof event.thread === "object" ? messageOf(row, event) : null;
  } catch {
    return null;
  }
}

/** Runs `work` in a savepoint. Returns null, or the error after which nothing of it is kept. */
async function attempt(q: Query, pass: Pass, work: () => Promise<void>): Promise<unknown> {
  const before = pass.committed.length;
  try {
    await q.savepoint(work);
    return null;
  } catch (error) {
    pass.committed.length = before;
    pass.uses = null;
    return error ?? new Error("routing failed");
  }
}

async function postpone(q: Query, { line, log }: Pass, row: EventRow, error: unknown): Promise<void> {
  log.error({ channel: line.channel, event: row.id, err: error }, "routing an event failed");
  await postponeEvent(q, row.id, routeDelay(row.attempts), attemptLimit, String(error));
}

/** Routes a delivery receipt or a session event. */
async function routeOther(q: Query, pass: Pass, row: EventRow): Promise<void> {
  const { line } = pass;
  const error = await attempt(q, pass, async () => {
    const event = readBody(row.body);
    if (event.kind === "session") return pass.sessions.routeEvent(q, line, row, event, pass);
    if (event.kind !== "delivery") throw new Error("the stored event cannot be read");
    await matchReceipt(q, line, row, event, pass);
  });
  if (error !== null) await postpone(q, pass, row, error);
}

/** Routes messages that do not depend on each other. Returns the number of messages that are done, at least
 *  one. When that fails, each of them is routed alone, so that only the failing ones are postponed. */
async function routeGroup(q: Query, pass: Pass, messages: readonly Incoming[]): Promise<number> {
  let done = 0;
  const error = await attempt(q, pass, async () => {
    done = await routeMessages(q, pass, messages);
  });
  if (error === null) return done;
  const [first] = messages;
  if (first && messages.length === 1) await postpone(q, pass, first.row, error);
  else for (const message of messages) await routeGroup(q, pass, [message]);
  return messages.length;
}

/** Loads the facts, decides, and writes the results. */
async function routeMessages(q: Query, pass: Pass, messages: readonly Incoming[]): Promise<number> {
  const { line } = pass;
  const [first] = messages;
  // A message that cites others is alone (`isReply`).
  const ours = first && "ours" in first.event.thread ? (first.event.thread.ours ?? []) : [];
  if (first && ours.length > 0) await applyReplyAsReceipt(q, line, first.event.id, ours, pass.log);
  const facts = await loadFacts(q, line, messages, pass.timing.route.ownAddress);
  const factsOf = (message: Incoming): Facts => facts.get(message) as Facts;
  // A message of a responder may change other conversations, so it is alone.
  const stranger = (message: Incoming) => !factsOf(message).responder;
  const end = messages.findIndex((message, at) => at > 0 && !(stranger(message) && first && stranger(first)));
  const group = end < 0 ? messages : messages.slice(0, end);
  const decisions = new Map<Incoming, RouteDecision>();
  for (const message of group) {
    const decision = decideFirst(message, factsOf(message), line.rules);
    const mayBeReply = isReply(message) || !stranger(message);
    if (!decision && mayBeReply && (await line.escalation()?.routeReply(q, line, message.row, message.event))) return 1;
    const guarded = decision ?? decideGuards(message, factsOf(message), line);
    if (guarded) decisions.set(message, guarded);
  }
  const asked = group.filter((message) => !decisions.has(message));
  const inKnown = asked.filter((message) => factsOf(message).conversation !== null || factsOf(message).unbound);
  if (inKnown.length > 0) await loadConversations(q, line, facts, inKnown);
  if (asked.length > 0 && line.rules.caps.channel.length > 0) pass.uses ??= await loadUses(q, line);
  const writes = noWrites();
  for (const message of group) {
    if (!hasRoom(pass, message.row)) continue;
    const own = factsOf(message);
    const decision = decisions.get(message) ?? decideTurn(message, own, line.rules, pass.uses ?? []);
    if (isRows(decision)) {
      addRows(writes, line, message, own, decision, idsOf(pass));
      note(q, pass, message.row, decision);
    } else {
      await write(q, writes);
      await perform(q, pass, message, own, decision);
    }
  }
  await write(q, writes);
  return group.length;
}

async function loadUses(q: Query, { channel, rules }: ChannelRuntime): Promise<CapUse[]> {
  const uses: CapUse[] = [];
  for (const cap of rules.caps.channel) uses.push({ cap, ...(await capUse(q, channel, cap.per)) });
  return uses;
}

/** Counts a decision for the limits of the channel, and sets the timer of a turn. */
function note(q: Query, pass: Pass, row: EventRow, decision: RowDecision): void {
  if (decision.kind === "settle") {
    if (decision.code === loopCode) pass.counted.loop = row;
    return;
  }
  if (decision.kind === "ask") {
    if (pass.uses !== null) countTurn(pass.uses, row);
    pass.counted.turns += 1;
  }
  // The turn does not wait for the next sweep.
  const { debounce } = pass.line.rules;
  if (debounce > 0) q.waits.add(debounce);
}

const idsOf = ({ clock }: Pass): Ids => ({ id: () => newId(clock.now()), token: newToken });

/** Carries out a decision that has effects of its own. */
async function perform(q: Query, pass: Pass, message: Incoming, facts: Facts, decision: EffectDecision): Promise<void> {
  const { line } = pass;
  const { row, event } = message;
  const place = () => placeOf(q, pass, message, facts);
  switch (decision.kind) {
    case "consent":
      return applyConsent(q, line, decision.message, facts, place, pass);
    case "hold":
      return holdForHuman(q, line, message, facts, decision.refusal, await place(), pass);
    case "humans": {
      const conversation = await place();
      await forwardToHumans(q, line, decision.message, facts, conversation, pass);
      return pass.sessions.openForHumans(q, line, row, decision.message.event, conversation);
    }
    case "words":
      pass.uses = null;
      return pass.sessions.routeMessage(q, line, message, { ...facts, id: decision.session }, pass);
    case "over": {
      const { code, reason, cap } = decision.over;
      pass.counted.loop = row;
      await settleEvent(q, row.id, { state: "held", code, reason });
      q.hop({ name: "capped", channel: row.channel, trace: "", code });
      if (line.rules.cap_text) await notifyHeld(q, line, event, cap, await place(), pass);
      return escalateHeld(q, line, row, reason);
    }
    case "wait":
      return waitForRoom(q, pass, row, decision.waits);
  }
}

/** Returns the conversation of a message that is not asked; opens one when there is none. */
async function placeOf(q: Query, pass: Pass, message: Incoming, facts: Facts): Promise<string> {
  const { line } = pass;
  const known = facts.session ?? (await boundConversation(q, line, message, facts));
  const writes = noWrites();
  const conversation = known ?? addConversation(writes, line, message, idsOf(pass));
  remember(writes, line, message, conversation);
  await write(q, writes);
  return conversation;
}
