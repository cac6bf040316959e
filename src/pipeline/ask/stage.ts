// Stage ask. Input: the head of a conversation's inbound lane: a turn `waiting`, or one whose attempt has no known
// outcome. Effect: opens the platform's conversation unless it is open; sends the question; looks up an unanswered
// question. Output: turn `answered` with its reply, `silent`, `waiting` until its retry, `unknown` until the next
// lookup, or `failed`; also a turn that is older than `max_age`, whether or not the agent is asked. Failure: depends on
// the outcome. A question that may have been sent is looked up and never repeated. Crash: before the record of the
// attempt the turn is `waiting` and is asked again immediately. After it the turn is `asking` with an expired lease,
// which the next holder treats as `unknown`.
//
// A transition checks the lease's token, loads what the decision needs (`conclude`), decides (`planWrites`) and writes.
// One write has a guard: a question of a call that has become obsolete keeps its state, and what depends on its outcome
// is not written (`changeUndropped`).

import { type Claimed, type Stage, withFailpoint } from "../../engine/stage.ts";
import type { Core, Query } from "../../store/driver.ts";
import { abandonLane, guardLease, refreshLane, releaseLane, returnLane } from "../../store/lanes.ts";
import type { RateReserve } from "../../store/rates.ts";
import { type ConversationRow, isBound } from "../../store/tables/conversations.ts";
import { readTurn, type TurnRow } from "../../store/tables/turns.ts";
import type { ChannelRuntime, ChannelRuntimes, LaneWork } from "../channel-runtime.ts";
import * as calls from "./calls.ts";
import {
  type AskDecision,
  afterWaiting,
  beforeAsking,
  callsOf,
  handBack,
  opensByCreate,
  planRefusal,
  planWrites,
  startsWithEffect,
  whyNotAsk,
} from "./decide.ts";
import { leaseTurns, oldTurns, recordAttempt, refuse, write } from "./rows.ts";

export interface AskDeps extends Core {
  readonly lines: () => ChannelRuntimes;
  readonly rate: RateReserve;
  /** Timeout of one API call, in milliseconds. */
  readonly timeout: number;
  /** Milliseconds after an unanswered call before a missing question counts as not asked. Applies to
   *  channels without their own value. */
  readonly absentAfter: number;
}

/** One claimed turn with its lease, conversation and attempt. */
export interface Asking extends LaneWork, Pick<Core, "clock" | "log" | "node" | "timing"> {
  readonly turn: TurnRow;
  readonly conversation: ConversationRow;
  /** The platform's conversation is opened as user plus conversation. */
  readonly isCreated: boolean;
  readonly rate: RateReserve;
  readonly attempt: AttemptState;
}

/** The state of the attempt that the running work has recorded. */
export interface AttemptState {
  /** The attempt is committed: the turn is `asking`. */
  recorded: boolean;
  /** The commit of the attempt. The call may end before it does, for example when the platform closes the connection. */
  recording?: Promise<void>;
  /** The store failed at the record. */
  unrecorded?: boolean;
  /** The turn changed between claim and crossing. The lane is released, and the turn is claimed again in
   *  its new state. */
  obsolete: boolean;
  /** The platform's conversation that the previous call of this work has opened, until it is stored. It is
   *  stored with the next record or decision. */
  unbound: string | null;
  /** Monotonic milliseconds of the crossing with the question; null before it. */
  askedAt: number | null;
  /** Set when the claim has recorded the attempt: a connection is reserved for its call. */
  early: EarlyRecord | null;
}

/** The record of an attempt in the transaction of its claim. */
interface EarlyRecord {
  /** Resolves when the record is on disk; at once for a question that is asked at the commit (`isAskedAtCommit`). */
  durable(): Promise<void>;
  /** Ends the reservation of the connection. */
  release(): void;
}

/** Old turns that a transaction ends at most while the agent is not asked. */
const mostEnded = 50;

export function askStage(deps: AskDeps): Stage {
  let nextRateAt = 0;
  const { clock, node, rate, timing } = deps;
  const { rateWait, rateRetry, leaseMargin } = timing.ask;
  // One lease covers a wait for the rate limit, a lookup, and two effects: the opening and the question. It
  // is never renewed.
  const leaseMs = rateWait + calls.readTimeout(deps) + 2 * deps.timeout + leaseMargin;
  /** The number of calls of claimed work that has not started: they are not yet taken from the limit. */
  const waiting = { calls: 0 };
  /** Nothing is claimed before the rate limit has room again. */
  const delay = (ms: number) => void (nextRateAt = clock.monotonic() + Math.min(ms, rateRetry));
  return {
    name: "ask",
    takes: "turns",
    async claim(q, channel, most) {
      const line = deps.lines().get(channel);
      if (!line) return { claimed: [], room: most };
      if (whyNotAsk(line) !== null) {
        await endOldTurns(q, line, mostEnded, deps);
        return { claimed: [], room: most };
      }
      // A channel without room stays a candidate, so that the channels take turns in a scarce rate limit.
      const left = clock.monotonic() < nextRateAt ? 0 : rate.room(rateWait) - waiting.calls;
      const room = Math.min(most, left);
      if (room <= 0) return { claimed: [], room };
      const atOnce = rate.room(0);
      const claimed: Claimed[] = [];
      const before = waiting.calls;
      let useDrawn: () => void = () => undefined;
      const claim = { channel, holder: node, leaseMs, limit: room, clock, announced: true };
      for (const { lease, deadline, head } of await leaseTurns(q, claim)) {
        if (head === null) {
          await returnLane(q, lease, "in");
          continue;
        }
        const next = beforeAsking(head, line.rules.max_age);
        if (next.kind !== "ask") {
          await refuse(q, line, head.turn, planRefusal(line, next, deps));
          await returnLane(q, lease, "in");
          continue;
        }
        const isCreated = opensByCreate(line, head.conversation);
        const attempt = { recorded: false, obsolete: false, unbound: null, askedAt: null, early: null };
        const asking = { ...deps, ...head, line, lease, leaseDeadline: deadline, isCreated, attempt };
        const requests = callsOf(asking);
        // Without room the call waits, and the attempt is recorded after that.
        const hasRoom = atOnce - waiting.calls >= requests;
        if (hasRoom) await recordEarly(q, asking, deps);
        const free = count(q, waiting, requests);
        const begin = () => {
          free();
          useDrawn();
        };
        claimed.push(piece(asking, requests, deps, { begin, delay }));
      }
      if (waiting.calls > before) useDrawn = await rate.prepare(q, waiting.calls - before);
      return { claimed, room };
    },
  };
}

/** Holds the customers' questions that have waited longer than `max_age` while the channel's agent is not asked. No
 *  claim decides about them, so this needs no lease. At most `most`; the next sweep continues. Those of a paused channel
 *  wait for the end of the pause. */
export async function endOldTurns(
  q: Query,
  line: ChannelRuntime,
  most: number,
  deps: Pick<AskDeps, "clock" | "timing" | "node">,
): Promise<void> {
  const plans = (await oldTurns(q, line, most, deps.node)).map((found) => ({
    turn: found.turn,
    plan: planRefusal(line, afterWaiting(found, line.rules.max_age), deps),
  }));
  for (const { turn, plan } of plans) {
    await refuse(q, line, turn, plan);
    await refreshLane(q, turn.conversation, "in");
  }
}

/** Records the attempt of a claimed turn whose call can begin at once: an idle connection is reserved, and the rate limit
 *  has room. A commit of PostgreSQL whose response is lost starts no work, so the attempt is recorded later there. */
async function recordEarly(q: Query, asking: Asking, deps: AskDeps): Promise<void> {
  const isAtCommit = calls.isAskedAtCommit(asking, deps);
  if (q.leases === null || !(isAtCommit || startsWithEffect(asking))) return;
  const release = asking.line.client.reserve();
  if (release === null) return;
  q.onRollback(release);
  const { promise: written, resolve } = Promise.withResolvers<void>();
  const { attempt } = asking;
  attempt.recorded = await recordAttempt(q, asking);
  if (!attempt.recorded) return release();
  if (isAtCommit) resolve();
  else q.onDisk(resolve);
  // A later commit needs another sync, which this record does not wait for.
  attempt.early = { durable: () => Promise.race([written, deps.db.synced()]), release };
}

/** Adds the calls of a claim. Returns a function that subtracts them; a rollback does so too. */
function count(q: Query, waiting: { calls: number }, calls: number): () => void {
  waiting.calls += calls;
  const free = () => void (waiting.calls -= calls);
  q.onRollback(free);
  return free;
}

/** What a piece of work reports to its stage: that it starts, and that the rate limit has no room. */
interface Reports {
  begin(): void;
  delay(ms: number): void;
}

function piece(asking: Asking, requests: number, deps: AskDeps, reports: Reports): Claimed {
  const { line, turn, conversation, lease } = asking;
  const fields = { channel: line.channel, turn: turn.id };
  return {
    channel: line.channel,
    // Only in a call does a newer message make an older one obsolete.
    key: turn.session === null ? undefined : turn.conversation,
    // The record of the reply's attempt follows. After a power failure that takes the answer, a lookup finds it.
    pace: turn.session === null ? "trailing" : "shared",
    left: () => asking.leaseDeadline.left(),
    abandon: (q) => abandonLane(q, lease),
    async work(signal) {
      const call = dueCall(asking, deps);
      reports.begin();
      try {
        // A recorded attempt does not wait: a crash in that time would make its outcome unknown.
        const rate = await deps.rate.take(requests, asking.attempt.recorded ? 0 : deps.timing.ask.rateWait);
        if (!rate.taken) {
          reports.delay(rate.waitMs);
          return (q) => conclude(q, asking, handBack);
        }
        if (rate.waitMs > 0) await deps.clock.sleep(rate.waitMs, signal);
        const decided = await call(signal);
        await decided.asking.attempt.recording?.catch(() => undefined);
        const isOpening = conversation.platform_id === null && decided.asking === asking;
        return withFailpoint(
          (q) => conclude(q, decided.asking, decided.decision),
          isOpening ? "open.commit" : "answer.commit",
          fields,
        );
      } finally {
        asking.attempt.early?.release();
      }
    },
  };
}

/** Returns the API call that is due. A turn without the platform's conversation was never sent as a question. */
function dueCall(asking: Asking, deps: AskDeps): (signal: AbortSignal) => Promise<calls.Decided> {
  const { turn, conversation } = asking;
  const isRepeated = turn.state !== "waiting";
  const platformId = conversation.platform_id;
  if (platformId === null && !isRepeated) return (signal) => calls.open(asking, signal, deps);
  const about = async (decision: Promise<AskDecision>) => ({ asking, decision: await decision });
  if (platformId === null) return (signal) => about(calls.findOpened(asking, signal, deps));
  const { opening, kind } = turn;
  if (opening !== null) return () => about(Promise.resolve({ kind: "opened", opening }));
  if (kind === "mode") return (signal) => about(calls.setMode(asking, platformId, signal, deps));
  const isPosted = kind === "relayed";
  const [find, ask] = isPosted ? [calls.findPosted, calls.post] : [calls.findAnswer, calls.ask];
  return (signal) => about((isRepeated ? find : ask)(asking, platformId, signal, deps));
}

/** Writes what follows from the decision, and releases the lane. Throws LeaseLost, with nothing written. */
export async function conclude(q: Query, asking: Asking, decision: AskDecision): Promise<void> {
  const { lease, turn } = asking;
  await guardLease(q, lease);
  // Since the lookup another conversation may have been bound to it. In a call the question may have moved to a newer
  // turn, and this one has become an opening.
  const isOurs = decision.kind === "bound" && !(decision.adopted && (await isBound(q, decision.platformId)));
  const now = isOurs ? await readTurn(q, turn.id) : null;
  const plan = planWrites(asking, decision, now);
  if (plan === null) await releaseLane(q, lease, "in");
  else await write(q, asking, plan);
}
