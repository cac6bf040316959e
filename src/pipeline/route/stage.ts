// Stage route. Input: events in state `stored`, per channel in the order of arrival; in fair order of the senders when
// the channel is at its cap. Effect: finds or opens the conversation; applies the guards (machine mail, age, allow and
// deny, loops, caps); passes delivery receipts to the drafts. Output: a turn `waiting` in the conversation's inbound
// lane, or the event `ignored` or `held` with its reason. Failure: retried with backoff; `failed` after five attempts.
// Crash: the event is still `stored`.

import { wrongField, wrongFieldText } from "bridgehead/contract";
import { delayAfter } from "../../domain/retry.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { newId, newToken } from "../../ops/clock.ts";
import { failpoints } from "../../ops/failpoints.ts";
import { type Core, failpointOfCommit, type Query } from "../../store/driver.ts";
import {
  type DueEvent,
  type EventRow,
  elderEvents,
  fairEvents,
  isCapped,
  lockChannel,
  postponeEvent,
  storedEvents,
} from "../../store/tables/events.ts";
import { readBody } from "../accept/rows.ts";
import type { ChannelRuntime, ChannelRuntimes } from "../channel-runtime.ts";
import type { LiveSessions } from "../live-sessions.ts";
import { applyReplyAsReceipt, matchReceipt } from "../reconcile/receipts.ts";
import { addNoted, decideAll, dependsOn, hasRoom, isReply, isUnderCap, newRun, noWrites, planOf } from "./decide.ts";
import {
  type Context,
  type Facts,
  type Incoming,
  isCallQuestion,
  messageOf,
  partiesOf,
  type Run,
  untaggedOf,
} from "./facts.ts";
import { loadConversations, loadFacts, loadReferenced, loadUses, write } from "./rows.ts";
import { addWaits, pauseAt } from "./unasked/decide.ts";
import { loadLimits, loadUnasked, writeLimitPause } from "./unasked/rows.ts";

interface RouteDeps extends Omit<Core, "db"> {
  readonly lines: () => ChannelRuntimes;
  readonly sessions: LiveSessions;
  /** Cancels the running question of that conversation, because it is obsolete. */
  cancel(conversation: string): void;
}

/** One run of the stage for one channel. */
interface Pass extends RouteDeps, Context {
  readonly run: Run;
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
        const pass = passOf(deps, line);
        // In a savepoint: an error in one channel does not stop the others.
        await q
          .savepoint(() => routeChannel(q, pass))
          .then(
            () => committed.push(...pass.committed),
            (error: unknown) => deps.log.error({ channel, err: error }, "routing a channel failed"),
          );
      }
      return committed;
    },
  };
}

async function routeChannel(q: Query, pass: Pass): Promise<void> {
  const { channel } = pass.line;
  if (!(await lockChannel(q, channel))) return; // another transaction holds the lock: retried after its commit
  const rows = await storedEvents(q, channel, batch);
  const fair = await fairOrder(q, pass, rows);
  if (fair === null) await routeInOrder(q, pass, rows);
  else await routeFairly(q, pass, fair);
  if (countsAgainstLimit(pass)) await pauseAtLimit(q, pass);
  failpointOfCommit(q, "route.commit", { channel });
}

const passOf = (deps: RouteDeps, line: ChannelRuntime): Pass => ({
  ...deps,
  line,
  ids: { id: () => newId(deps.clock.now()), token: newToken },
  now: deps.clock.now(),
  agentOf: (channel) => deps.lines().get(channel)?.agent,
  run: newRun(),
  committed: [],
});

/** True when messages of this run count against a limit that pauses the channel. */
const countsAgainstLimit = ({ line: { rules }, run }: Pass): boolean =>
  (run.loop !== null && (rules.pause_on?.loops ?? []).length > 0) ||
  (run.turns > 0 && (rules.pause_on?.replies ?? []).length > 0);

/** Pauses the channel when the messages of this run exceed one of its limits. Call after routing, in its transaction. */
async function pauseAtLimit(q: Query, pass: Pass): Promise<void> {
  const { line, run } = pass;
  const pause = pauseAt(pass, run, await loadLimits(q, line, run));
  if (pause === null || !(await writeLimitPause(q, line, pause))) return;
  const { channel } = line;
  failpoints["pause.commit"].publish({ phase: "before", channel });
  pass.committed.push(() => failpoints["pause.commit"].publish({ phase: "after", channel }));
}

/** Returns the channel's events with its messages in fair order when these exceed the room under its cap; else null.
 *  Without those that certainly have no room: a backlog is not ordered at every message that arrives. */
async function fairOrder(q: Query, pass: Pass, rows: readonly DueEvent[]): Promise<readonly EventRow[] | null> {
  const { line, run } = pass;
  const caps = line.rules.caps.channel;
  const [first] = rows;
  run.capped = first ? first.capped === 1 : await isCapped(q, line.channel);
  const exempted = () => rows.filter((row) => !isUnderCap(row));
  let before: readonly EventRow[];
  if (run.capped) {
    run.uses = await loadUses(q, line);
    const writes = noWrites();
    addWaits(writes, pass, run);
    before = exempted();
    // The messages stay due when this fails. Those of senders with room are routed.
    const error = writes.unasked ? await attempt(q, pass, () => write(q, pass, writes)) : null;
    if (error !== null) pass.log.error({ channel: line.channel, err: error }, "routing a channel failed");
    if (run.room.none) return before;
  } else {
    if (caps.length === 0) return null;
    before = exempted();
    const least = Math.min(...caps.map(({ max }) => max));
    if (rows.length - before.length < Math.max(2, least / 2)) return null;
  }
  const window = Math.max(0, ...caps.map(({ per }) => per));
  return [...before, ...(await fairEvents(q, line.channel, window, fairBatch, run.room.noneForOthers))];
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
    const isAlone = isReply(message);
    const own = [partiesOf(message), untaggedOf(message) ?? []].flat();
    if (isAlone || dependsOn(message, parties)) await flush();
    if (isAlone && pass.run.room.noneForOthers) {
      await routeFairly(q, pass, [row]); // an earlier message of its conversation may wait
      continue;
    }
    group.push(message);
    for (const party of own) parties.add(party);
    if (isAlone) await flush();
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
    while (!done.has(row.id) && hasRoom(pass.run, row)) {
      const next = await eldest(q, pass, message, done);
      if (!hasRoom(pass.run, next.row)) break;
      done.add(next.row.id);
      await routeGroup(q, pass, [next]);
      if (!hasRoom(pass.run, next.row)) break; // it waits, and the later messages of its conversation with it
    }
  }
}

/** Returns the first queued message of the same conversation, which may be the message itself. When the conversations
 *  cannot be looked up, returns the first one that may belong to it, so that it fails alone. */
async function eldest(q: Query, pass: Pass, message: Incoming, done: ReadonlySet<number>): Promise<Incoming> {
  const { line } = pass;
  if (!isUnderCap(message.row) || line.traits.conversations === "person") return message;
  const conversation = (await citedBy(q, pass, [message]))?.get(message);
  if (!conversation) return message;
  const rows = await elderEvents(q, line.channel, message.row.id, conversation);
  const elders = rows.flatMap((row) => (done.has(row.id) ? [] : (parsed(row) ?? [])));
  if (elders.length === 0) return message;
  const own = await citedBy(q, pass, elders);
  return elders.find((elder) => own === null || own.get(elder) === conversation) ?? message;
}

/** The conversations of messages; null when they cannot be looked up. */
type Cited = Awaited<ReturnType<typeof loadReferenced>> | null;

async function citedBy(q: Query, pass: Pass, messages: readonly Incoming[]): Promise<Cited> {
  let found = null as Cited;
  await attempt(q, pass, async () => {
    found = await loadReferenced(q, pass.line.channel, messages);
  });
  return found;
}

/** Returns the message of the event; null for other events and for one that cannot be read. */
function parsed(row: EventRow): Incoming | null {
  try {
    const event = readBody(row.body);
    if (event.kind !== "message" || typeof event.thread !== "object") return null;
    const message = messageOf(row, event);
    partiesOf(message); // throws when one of them has no address
    return message;
  } catch {
    return null;
  }
}

/** Runs `work` in a savepoint. Returns null, or the error after which nothing of it is kept. */
async function attempt(q: Query, pass: Pass, work: () => Promise<void>): Promise<unknown> {
  const before = pass.committed.length;
  const { room, ...counts } = pass.run;
  const { none, noneForOthers } = room;
  try {
    await q.savepoint(work);
    return null;
  } catch (error) {
    pass.committed.length = before;
    // What was counted is not written. A message that must wait for room would be passed over, without its due time.
    Object.assign(pass.run, counts, { uses: null });
    Object.assign(room, { none, noneForOthers });
    return error ?? new Error("routing failed");
  }
}

async function postpone(q: Query, { line, log, timing }: Pass, row: EventRow, error: unknown): Promise<void> {
  log.error({ channel: line.channel, event: row.id, err: error }, "routing an event failed");
  const delayMs = delayAfter(row.attempts + 1, timing.route.retry);
  await postponeEvent(q, row.id, delayMs, attemptLimit, `${flawOf(row)}${String(error)}`);
}

/** What the adapter has done wrong, if it is one of the fields that `wrongField` knows. */
function flawOf({ body }: EventRow): string {
  try {
    const wrong = wrongField(readBody(body));
    return wrong === null ? "" : `the adapter gave ${wrongFieldText(wrong)}: `;
  } catch {
    return ""; // the body cannot be read
  }
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
  const { line, run } = pass;
  const [first] = messages;
  // A message that cites others is alone (`isReply`).
  const ours = first && "ours" in first.event.thread ? (first.event.thread.ours ?? []) : [];
  if (first && ours.length > 0) await applyReplyAsReceipt(q, line, first.event.id, ours, pass.log);
  const facts = await loadFacts(q, line, messages, pass.timing.route);
  if (!messages.every(isCallQuestion)) run.uses ??= await loadUses(q, line);
  const plan = planOf(pass, messages, facts);
  if (first && plan.mayBeResponders) {
    const noted = noWrites();
    addNoted(noted, facts.get(first) as Facts);
    if (await line.escalation()?.routeReply(q, line, first.row, first.event)) {
      await write(q, pass, noted);
      return 1;
    }
  }
  if (plan.known.length > 0) await loadConversations(q, line, facts, plan);
  if (plan.unasked) await loadUnasked(q, pass, run, facts, plan.unasked);
  const writes = decideAll(pass, run, facts, plan.guarded);
  await write(q, pass, writes);
  // The live sessions route these messages themselves.
  for (const { message, facts: own, session } of writes.spoken)
    await pass.sessions.routeMessage(q, line, message, { ...own, id: session }, pass);
  if (writes.spoken.length > 0) run.uses = null;
  for (const { message, conversation } of writes.forHumans)
    await pass.sessions.openForHumans(q, line, message.row, message.event, conversation);
  return plan.guarded.size;
}
