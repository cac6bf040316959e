// The rows of stage send: the heads of the lanes, the record of an attempt, and the pauses: which senders of a channel may
// send now, and how an attempt's outcome affects other drafts. A pause applies to one sender address or the whole channel.
// When it ends one draft is sent as a probe. Only its success releases the others, so a recovering provider does not get
// the whole queue at once.

import type { Clock, SendOutcome } from "bridgehead/contract";
import { paceOf } from "../../domain/retry.ts";
import { jitter } from "../../ops/clock.ts";
import type { Timing } from "../../ops/timing.ts";
import type { Query } from "../../store/driver.ts";
import { type Claim, type ClosedLanes, type Held, LaneHeads } from "../../store/due.ts";
import { type Lease } from "../../store/lanes.ts";
import { burstOf, type Rate, sendRate, takeRate } from "../../store/rates.ts";
import { type DraftRow, draftColumns, resent } from "../../store/tables/drafts.ts";
import {
  deferPauses,
  endPause,
  isPaused,
  type Pause,
  pausesOf,
  takeProbe,
  wholeChannel,
  writePause,
} from "../../store/tables/pauses.ts";
import { suppressionReason, viaOf } from "../../store/tables/suppressions.ts";
import { addAttempt, newAttempt } from "../../store/tables/turns.ts";
import { moves } from "../../store/transitions.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";
import { isHoldable, pauseSteps } from "./decide.ts";

/** The head of a lane with the facts that decide whether it may be sent. */
export interface HeadRow extends DraftRow {
  /** The reason why the recipient is suppressed, or null. */
  readonly suppressed: string | null;
}

const suppressed = suppressionReason("drafts.channel", "drafts.recipient", viaOf("drafts.conversation"));
const columns = `${draftColumns}, ${suppressed} AS suppressed`;

const draftHeads = new LaneHeads<HeadRow>("out", columns);

/** Leases outbound lanes and reads their heads (`LaneHeads`). */
export const leaseDrafts = (q: Query, claim: Claim): Promise<readonly Held<HeadRow>[]> => draftHeads.lease(q, claim);

/** Returns the oldest open draft of the lane, or null. */
export async function headDraft(q: Query, lease: Pick<Lease, "conversation">): Promise<HeadRow | null> {
  const row = await q.one<HeadRow>(
    `SELECT ${columns} FROM drafts WHERE conversation = $1 AND open = 1 ORDER BY seq LIMIT 1`,
    lease.conversation,
  );
  return row ?? null;
}

/** Returns whether the customer has written again since the question that the draft answers. Always false for replies
 *  that answer no question, for later parts of a reply that is partly sent, and for drafts that an operator resends. */
export async function isSuperseded(q: Query, draft: Pick<DraftRow, "id" | "reply">): Promise<boolean> {
  const row = await q.one(
    `SELECT 1 FROM turns later JOIN turns own ON own.conversation = later.conversation AND later.seq > own.seq
     JOIN replies ON replies.turn = own.id WHERE replies.id = $1 AND replies.kind = 'answer' AND later.opening IS NULL AND later.kind = 'question'
       AND NOT EXISTS (SELECT 1 FROM drafts WHERE reply = $1 AND (CASE WHEN id = $2 THEN COALESCE(reason, '') = '${resent}'
         ELSE state IN ('sending', 'unknown', 'sent', 'delivered') END))`,
    draft.reply,
    draft.id,
  );
  return row !== undefined;
}

/** Returns whether the draft can be held, and a human wrote its reply to the customer; then the human is notified when it is
 *  not sent. */
export async function isHumans(q: Query, head: HeadRow): Promise<boolean> {
  if (!isHoldable(head)) return false;
  return (await q.one("SELECT 1 FROM replies WHERE id = $1 AND kind = 'human'", head.reply)) !== undefined;
}

const sendingMove = `
  WITH moved AS ( -- only: postgres
  ${moves("drafts", "sending", {
    set: "attempts = attempts + 1, reconcile_until = NULL, tried_at = COALESCE(tried_at, now_ms()), updated_at = now_ms()",
    // The sum keeps PostgreSQL from searching the index of states.
    where: `id = $1 AND open + 0 = 1 AND attempts = $2 AND (forced = 1 OR ${suppressed} IS NULL)
       AND (internal = 1 OR session IS NOT NULL OR NOT ${isPaused("drafts.channel")})`,
  })}
  RETURNING id, attempts) -- only: postgres
  ${newAttempt} SELECT id, attempts, 'send', $3, $4, now_ms() FROM moved -- only: postgres
`;

/** Records the attempt before it is made; this ends the reconcile period of an earlier attempt. Call with the lane's
 *  row locked. Returns false, and writes nothing, when the draft may not be sent any more: an operator dropped it, a
 *  delivery receipt ended it, or after the claim its recipient was suppressed or its channel paused. */
export async function recordSending(
  q: Query,
  draft: Pick<DraftRow, "id" | "attempts">,
  node: string,
  token: number,
): Promise<boolean> {
  const changed = await q.run(sendingMove, draft.id, draft.attempts, node, token);
  if (changed === 1) await addAttempt(q, "send", draft, node, token);
  return changed === 1;
}

/** Like `recordSending`. Also returns true when this attempt is recorded already: the response to that commit was lost. */
export async function recordAnyway(
  q: Query,
  draft: Pick<DraftRow, "id" | "attempts">,
  node: string,
  token: number,
): Promise<boolean> {
  if (await recordSending(q, draft, node, token)) return true;
  const own = await q.one(
    `SELECT 1 AS own FROM drafts JOIN attempts ON subject = drafts.id AND number = drafts.attempts
     WHERE drafts.id = $1 AND state = 'sending' AND drafts.attempts = $2 + 1 AND attempts.node = $3 AND token = $4 AND outcome IS NULL`,
    draft.id,
    draft.attempts,
    node,
    token,
  );
  return own !== undefined;
}

/** Returns whether the adapter's capacity limits the draft. It does not limit lookups of an earlier attempt. */
export const needsCapacity = ({ outbound }: ChannelRuntime, draft: Pick<DraftRow, "state" | "session">): boolean =>
  draft.state === "queued" && (draft.session === null || outbound?.unlimitedInSessions !== true);

export interface Gate {
  /** Returns the senders that are paused or whose send rate limit has no room, excluded when lanes are leased. All lanes
   *  but those of live calls are closed when the adapter has no capacity left. */
  closed(): ClosedLanes;
  /** Returns the number of lanes to lease at once: it admits no more drafts of one sender before it closes that sender,
   *  and no more drafts than the adapter has capacity for. 0: no lane is open. */
  atOnce(): number;
  /** Returns whether the admitted drafts use all of the adapter's capacity. */
  isFull(): boolean;
  /** Returns whether a draft of that sender may be attempted. Takes it from the adapter's capacity and from the send rate
   *  limit, and makes it the probe of a pause. */
  admits(draft: DraftRow, sender: string): Promise<boolean>;
}

/** Leases lanes, at most as many at once as the gate can admit: a lane of a sender without room would have to be returned. */
export async function* leaseAdmitted(q: Query, gate: Gate, claim: Omit<Claim, "closed">) {
  for (let left = claim.limit; left > 0; ) {
    const limit = Math.min(left, gate.atOnce());
    if (limit === 0) return;
    const leased = await leaseDrafts(q, { ...claim, limit, closed: gate.closed() });
    yield* leased;
    if (leased.length < limit) return;
    left -= limit;
  }
}

/** The pauses of all channels, as one process knows them. */
export class Pauses {
  readonly #clock: Clock;
  readonly #probeMs: number;
  readonly #timing: Timing;
  /** Monotonic milliseconds until which the send rate limit `rate` has no room for a sender. Key: channel and sender. */
  readonly #rested = new Map<string, { readonly until: number; readonly rate: ChannelRuntime["rules"]["rate"] }>();
  /** Channels without a pause when this process last read them. An outcome on them ends no pause, so it
   *  reads none. Where one process owns the store, a claim reads none either; a pause of another node is
   *  known from the next claim on. */
  readonly #unpaused = new Set<string>();

  /** `probeMs` is the longest duration of a probe. */
  constructor(clock: Clock, probeMs: number, timing: Timing) {
    this.#clock = clock;
    this.#timing = timing;
    this.#probeMs = probeMs;
  }

  /** Creates the gate for one claim on a channel. `capacity`: how many more drafts the adapter can begin. */
  async gate(q: Query, line: ChannelRuntime, capacity: number): Promise<Gate> {
    const { channel, outbound } = line;
    let left = capacity;
    const pauses = new Map<string, Pause>();
    const closed = this.#withoutRoom(line);
    await this.#read(q, channel, (found) => {
      for (const pause of found) {
        const { sender, remaining } = pause;
        pauses.set(sender, pause);
        if (remaining > 0) closed.add(sender);
        if (remaining > 0) q.waits.add(remaining);
      }
    });
    const probes = async (key: string, draft: DraftRow): Promise<boolean> => {
      if (!pauses.has(key)) return true;
      closed.add(key);
      return takeProbe(q, channel, key, draft.id, this.#probeMs, this.#timing.send.longestPause);
    };
    const { rate } = line.rules;
    const limit = rate && sendRate(rate.messages, rate.per, this.#timing.rate);
    const mayStart = async (draft: DraftRow, sender: string): Promise<boolean> => {
      if (draft.session !== null) return true;
      if (closed.has(wholeChannel) || closed.has(sender)) return false;
      // A draft of unknown outcome is reconciled, which is no attempt.
      if (draft.state !== "queued") return true;
      if (limit && !(await this.#takeRoom(q, line, sender, limit))) {
        closed.add(sender);
        return false;
      }
      return (await probes(wholeChannel, draft)) && (await probes(sender, draft));
    };
    const isFull = () => left <= 0;
    return {
      isFull,
      closed: () => ({
        all: closed.has(wholeChannel) || isFull(),
        senders: [...closed].filter((key) => key !== wholeChannel),
      }),
      atOnce: () => {
        const most = isFull() && outbound?.unlimitedInSessions ? Infinity : Math.max(0, left);
        if (pauses.size > 0) return Math.min(1, most);
        return limit === undefined ? most : Math.min(burstOf(limit), most);
      },
      admits: async (draft, sender) => {
        const takes = needsCapacity(line, draft);
        if ((takes && isFull()) || !(await mayStart(draft, sender))) return false;
        if (takes) left -= 1;
        return true;
      },
    };
  }

  /** Applies an attempt's outcome to the pauses of its sender and its channel. */
  async apply(
    q: Query,
    line: ChannelRuntime,
    draft: Pick<DraftRow, "id" | "session">,
    sender: string,
    outcome: SendOutcome,
  ): Promise<void> {
    const { channel } = line;
    if (draft.session !== null) return;
    const begins = outcome.kind === "deferred" && (outcome.scope === "channel" || outcome.scope === "sender");
    if (!begins && this.#unpaused.has(channel)) return;
    const known = await pausesOf(q, channel, this.#timing.send.longestPause);
    const backoff = { pace: paceOf(line.traits.platform), timing: this.#timing, jitter };
    for (const step of pauseSteps(known, draft.id, sender, outcome, backoff)) {
      if (step.kind === "end") await endPause(q, channel, step.sender);
      else {
        this.#unpaused.delete(channel);
        await writePause(q, channel, step);
        q.waits.add(step.forMs);
      }
    }
  }

  /** Passes the pauses to `use`. On PostgreSQL those of a channel without a pause arrive with the claimed lanes. Lanes of a
   *  sender that another node has just paused are then returned, because the gate does not admit their drafts. */
  async #read(q: Query, channel: string, use: (pauses: readonly Pause[]) => void): Promise<void> {
    const longestMs = this.#timing.send.longestPause;
    const note = (pauses: readonly Pause[]) => {
      if (pauses.length > 0) this.#unpaused.delete(channel);
      use(pauses);
    };
    if (this.#unpaused.has(channel)) {
      if (q.leases === null) await deferPauses(q, channel, longestMs, note);
      return;
    }
    const pauses = await pausesOf(q, channel, longestMs);
    note(pauses);
    if (pauses.length > 0) return;
    this.#unpaused.add(channel);
    q.onRollback(() => this.#unpaused.delete(channel));
  }

  /** Returns the senders of the channel whose send rate limit has no room now. A reload may have replaced the limit. */
  #withoutRoom({ channel, rules }: ChannelRuntime): Set<string> {
    const senders = new Set<string>();
    for (const [key, { until, rate }] of this.#rested) {
      const isOwn = key.startsWith(`${channel} `);
      if (until <= this.#clock.monotonic() || (isOwn && rate !== rules.rate)) this.#rested.delete(key);
      else if (isOwn) senders.add(key.slice(channel.length + 1));
    }
    return senders;
  }

  /** Takes one draft from the send rate limit of the sender. */
  async #takeRoom(q: Query, { channel, rules }: ChannelRuntime, sender: string, limit: Rate): Promise<boolean> {
    const { taken, waitMs } = await takeRate(q, `send:${channel} ${sender}`, limit, 1, 0);
    if (taken) return true;
    this.#rested.set(`${channel} ${sender}`, { until: this.#clock.monotonic() + waitMs, rate: rules.rate });
    q.waits.add(Math.max(1, waitMs));
    return false;
  }
}
