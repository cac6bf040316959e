// Stage ask.
// Input: the head of a conversation's inbound lane: a turn `waiting`, or one whose attempt has no known
// outcome.
// Effect: opens the platform's conversation when there is none; sends the question; looks up an unanswered
// question.
// Output: turn `answered` with its reply, `silent`, `waiting` until its retry, `unknown` until the next
// lookup, or `failed`.
// Failure: depends on the outcome. A question that may have been sent is looked up and never repeated.
// Crash: before the crossing the turn is `waiting` and is asked again immediately. After it the turn is
// `asking` with an expired lease, which the next holder treats as `unknown`.

import type { Clock, Log } from "bridgehead/contract";
import { suppressedCode, tooOldCode, waitedTooLong } from "../../domain/guards.ts";
import type { Address } from "../../domain/turn.ts";
import { type LeaseDeadline, leaseDeadline } from "../../engine/running.ts";
import { type Claimed, type Stage, withFailpoint } from "../../engine/stage.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Database, Query } from "../../store/driver.ts";
import { abandonLane, type Lease, releaseLane } from "../../store/lanes.ts";
import type { RateReserve } from "../../store/rates.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import { reportUnanswered, settleEventsOf } from "../../store/tables/events.ts";
import { suppression } from "../../store/tables/suppressions.ts";
import { type ClaimedTurn, changeTurn, leaseTurns } from "../../store/tables/turns.ts";
import {
  type ChannelRuntime,
  type ChannelRuntimes,
  phoneOf,
  skillOf,
  startable,
  whyNotAsk,
} from "../channel-runtime.ts";
import { heldTrigger } from "../escalation.ts";
import * as calls from "./calls.ts";
import { type Asking, handBack } from "./decide.ts";
import { write } from "./rows.ts";

export interface AskDeps {
  readonly lines: () => ChannelRuntimes;
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
  readonly rate: RateReserve;
  /** Timeout of one API call, in milliseconds. */
  readonly timeout: number;
  /** Milliseconds after an unanswered call before a missing question counts as not asked. Applies to
   *  channels without their own value. */
  readonly settleAfter: number;
  readonly timing: Timing;
}

export function askStage(deps: AskDeps): Stage {
  let nextRateAt = 0;
  const { rateWait, rateRetry, leaseMargin } = deps.timing.ask;
  // One lease covers a wait for the rate limit, a lookup, and two effects: the opening and the question. It
  // is never renewed.
  const leaseMs = rateWait + calls.readTimeout(deps) + 2 * deps.timeout + leaseMargin;
  /** The number of calls of claimed work that has not started: they are not yet taken from the limit. */
  let claimedCalls = 0;
  const addClaimed = (by: number) => void (claimedCalls += by);
  /** Nothing is claimed before the rate limit has room again. */
  const delay = (ms: number) => void (nextRateAt = deps.clock.monotonic() + Math.min(ms, rateRetry));
  const mayClaim = (channel: string) => {
    const line = deps.lines().get(channel);
    return line !== undefined && whyNotAsk(line) === null;
  };
  return {
    name: "ask",
    takes: "turns",
    mayClaim,
    // A channel without room stays a candidate, so that the channels take turns in a scarce rate limit.
    room: () => (deps.clock.monotonic() < nextRateAt ? 0 : deps.rate.room(rateWait) - claimedCalls),
    async claim(q, channel, room) {
      const line = deps.lines().get(channel);
      if (!line) return [];
      const claimed: Claimed[] = [];
      const before = claimedCalls;
      let useDrawn: () => void = () => undefined;
      for (const { lease, head } of await leaseTurns(q, {
        channel,
        holder: deps.node,
        leaseMs,
        limit: room,
        announced: true,
      })) {
        const deadline = leaseDeadline(deps.clock, leaseMs);
        if (head === null || (await isDropped(q, line, head)) || (await isHeld(q, line, head, deps))) {
          await releaseLane(q, lease, "in");
          continue;
        }
        const asking = claimedBy(line, lease, deadline, head, deps);
        const requests = callsOf(asking);
        addClaimed(requests);
        q.onRollback(() => addClaimed(-requests));
        const begin = () => {
          addClaimed(-requests);
          useDrawn();
        };
        claimed.push(piece(asking, requests, deps, { begin, delay }));
      }
      if (claimedCalls > before) useDrawn = await deps.rate.prepare(q, claimedCalls - before);
      return claimed;
    },
  };
}

/** Begins the work on a claimed turn. Call when its lane was leased. */
function claimedBy(
  line: ChannelRuntime,
  lease: Lease,
  deadline: LeaseDeadline,
  { turn, conversation }: ClaimedTurn,
  { clock, log, node, rate, timing }: AskDeps,
): Asking {
  const attempt = { recorded: false, obsolete: false, unbound: null, askedAt: null };
  const isCreated = conversation.platform_id === null && opensByCreate(line, conversation);
  return {
    line,
    lease,
    leaseDeadline: deadline,
    turn,
    conversation,
    isCreated,
    clock,
    log,
    node,
    rate,
    timing,
    attempt,
  };
}

/** Drops a turn that was certainly not asked when the recipient is suppressed, for example by a STOP
 *  that arrived while the turn waited. Messages of a call and messages written by a human are exempt.
 *  Returns true when the turn was dropped. */
async function isDropped(
  q: Query,
  line: ChannelRuntime,
  { turn, suppressed }: ClaimedTurn,
): Promise<boolean> {
  if (turn.state !== "waiting" || turn.session !== null || turn.kind !== "question") return false;
  const { to } = JSON.parse(turn.address) as Partial<Address>;
  const recipient = (to?.[0]?.address ?? turn.person).toLowerCase();
  const found = recipient === turn.person ? suppressed : await suppression(q, line.channel, recipient);
  if (found === null) return false;
  const reason = `suppressed: ${found}`;
  await changeTurn(q, turn.id, { state: "dropped", open: 0, reason });
  const outcome = { state: "ignored", code: suppressedCode, reason } as const;
  await settleEventsOf(q, turn.id, outcome);
  reportUnanswered(q, turn, outcome);
  return true;
}

/** Holds the messages of a turn that waited longer than `max_age` without an attempt, as after a long pause of the
 *  channel. A turn that an operator released starts anew (it has a reason). Returns true when the turn was held. */
async function isHeld(
  q: Query,
  line: ChannelRuntime,
  { turn, waited }: ClaimedTurn,
  deps: AskDeps,
): Promise<boolean> {
  const { max_age: maxAge } = line.rules;
  // A message that joined an old turn makes it as young as itself.
  const age = Math.min(waited, turn.age);
  const isNew = turn.state === "waiting" && turn.attempts === 0 && turn.reason === null;
  if (!isNew || turn.event === null || turn.session !== null || turn.kind !== "question" || age <= maxAge)
    return false;
  const reason = waitedTooLong(age, maxAge);
  await changeTurn(q, turn.id, { state: "failed", open: 0, reason });
  const outcome = { state: "held", code: tooOldCode, reason } as const;
  await settleEventsOf(q, turn.id, outcome);
  reportUnanswered(q, turn, outcome);
  await line.escalation()?.open(q, heldTrigger(line, tooOldCode, reason, deps));
  return true;
}

/** Returns true when the conversation is opened as user plus conversation. Calls also use this form when
 *  the agent has no active VOICE skill, because the start call for voice needs that skill. */
function opensByCreate(line: ChannelRuntime, { person }: ConversationRow): boolean {
  const { platform } = line.traits;
  if (line.rules.opening === "create" || !startable(platform)) return true;
  if (platform === "voice" && skillOf(line)?.status !== "active") return true;
  return platform !== "email" && phoneOf(person) === null;
}

/** The highest number of API calls that the work can make. Each call counts against the shared rate
 *  limit. */
function callsOf({ turn, conversation, isCreated }: Asking): number {
  const isNew = turn.state === "waiting";
  if (conversation.platform_id !== null) return isNew && turn.kind !== "relayed" ? 1 : 2;
  const question = isNew && turn.opening === null ? 1 : 0;
  return question + (isNew && isCreated ? 3 : 1);
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
    pace: turn.session === null ? undefined : "shared",
    left: () => asking.leaseDeadline.left(),
    abandon: (q) => abandonLane(q, lease),
    async work(signal) {
      reports.begin();
      const rate = await deps.rate.take(requests, deps.timing.ask.rateWait);
      if (!rate.taken) {
        reports.delay(rate.waitMs);
        return (q) => write(q, asking, handBack); // the lane stays due
      }
      if (rate.waitMs > 0) await deps.clock.sleep(rate.waitMs, signal);
      const decided = await decide(asking, signal, deps);
      const isOpening = conversation.platform_id === null && decided.asking === asking;
      return withFailpoint(
        (q) => write(q, decided.asking, decided.decision),
        isOpening ? "open.commit" : "answer.commit",
        fields,
      );
    },
  };
}

/** Makes the API call that is due. A turn without the platform's conversation was never sent as a
 *  question. */
async function decide(asking: Asking, signal: AbortSignal, deps: AskDeps): Promise<calls.Decided> {
  const { turn, conversation } = asking;
  const isRepeated = turn.state !== "waiting";
  const platformId = conversation.platform_id;
  if (platformId === null && !isRepeated) return calls.open(asking, signal, deps);
  return { asking, decision: await decideOne() };

  async function decideOne() {
    if (platformId === null) return calls.findOpened(asking, signal, deps);
    if (turn.opening !== null) return { kind: "opened", opening: turn.opening } as const;
    if (turn.kind === "mode") return calls.setMode(asking, platformId, signal, deps);
    const isPosted = turn.kind === "relayed";
    if (isRepeated) return (isPosted ? calls.findPosted : calls.findAnswer)(asking, platformId, signal, deps);
    return (isPosted ? calls.post : calls.ask)(asking, platformId, signal, deps);
  }
}
