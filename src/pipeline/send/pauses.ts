// Pauses: which senders of a channel may send now, and how an attempt's outcome affects other drafts. Part
// of stage send: runs in its transactions. A pause applies to one sender address or the whole channel. When
// it ends one draft is sent as a probe. Only its success releases the others, so a recovering provider does
// not get the whole queue at once.

import type { Clock, SendOutcome } from "bridgehead/contract";
import { paceOf, pauseDelay } from "../../domain/retry.ts";
import { jitter } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import type { Closed } from "../../store/lanes.ts";
import { sendRate, takeRate } from "../../store/rates.ts";
import type { DraftRow } from "../../store/tables/drafts.ts";
import {
  endPause,
  type Pause,
  pausesOf,
  takeProbe,
  wholeChannel,
  writePause,
} from "../../store/tables/pauses.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";

/** Minimum pause in milliseconds, also when the provider asks for an immediate retry. */
const shortestPause = 1000;
/** Pauses that end before the next sweep get a timer. Milliseconds. */
const timerMs = 4000;

export interface Gate {
  /** Paused senders, excluded when lanes are leased. */
  readonly closed: Closed;
  /** Returns whether a draft of that sender may be attempted. Takes it from the send rate limit and
   *  makes it the probe of a pause. */
  admits(draft: DraftRow, sender: string): Promise<boolean>;
}

/** Creates the gate for one claim on a channel. `rested` maps a sender to the time (monotonic
 *  milliseconds) until which its send rate limit has no room. It is kept between claims, and only this
 *  process uses it. `probeMs` is the longest duration of a probe. */
export async function openGate(
  q: Query,
  line: ChannelRuntime,
  clock: Clock,
  rested: Map<string, number>,
  probeMs: number,
): Promise<Gate> {
  const { channel } = line;
  const pauses = new Map((await pausesOf(q, channel)).map((pause) => [pause.sender, pause]));
  const closed = new Set<string>();
  for (const { sender, remaining } of pauses.values()) {
    if (remaining > 0) closed.add(sender);
    if (remaining > 0 && remaining < timerMs) q.waits.add(remaining);
  }
  const keyOf = (sender: string) => `${channel} ${sender}`;
  for (const [key, until] of rested) {
    if (until <= clock.monotonic()) rested.delete(key);
    else if (key.startsWith(`${channel} `)) closed.add(key.slice(channel.length + 1));
  }
  const hasRoom = async (sender: string): Promise<boolean> => {
    const { rate } = line.rules;
    if (!rate) return true;
    const { taken, waitMs } = await takeRate(
      q,
      `send:${keyOf(sender)}`,
      sendRate(rate.messages, rate.per),
      1,
      0,
    );
    if (taken) return true;
    rested.set(keyOf(sender), clock.monotonic() + waitMs);
    if (waitMs < timerMs) q.waits.add(Math.max(1, waitMs));
    return false;
  };
  const probes = async (key: string, draft: DraftRow): Promise<boolean> => {
    if (!pauses.has(key)) return true;
    closed.add(key);
    return takeProbe(q, channel, key, draft.id, probeMs);
  };
  return {
    closed: { all: closed.has(wholeChannel), senders: [...closed].filter((key) => key !== wholeChannel) },
    async admits(draft, sender) {
      if (draft.session !== null) return true;
      if (closed.has(wholeChannel) || closed.has(sender)) return false;
      // A draft of unknown outcome is reconciled, which is no attempt.
      if (draft.state !== "queued") return true;
      if (!(await hasRoom(sender))) {
        closed.add(sender);
        return false;
      }
      return (await probes(wholeChannel, draft)) && (await probes(sender, draft));
    },
  };
}

/** Applies an attempt's outcome to the pauses of its sender and its channel. */
export async function heedOutcome(
  q: Query,
  line: ChannelRuntime,
  draft: DraftRow,
  sender: string,
  outcome: SendOutcome,
): Promise<void> {
  if (draft.session !== null) return;
  const keys = [wholeChannel, sender];
  const known = (await pausesOf(q, line.channel)).filter((pause) => keys.includes(pause.sender));
  const failing = failingKey(outcome, sender);
  if (outcome.kind === "deferred" && failing !== null)
    await pause(
      q,
      line,
      failing,
      known.find((one) => one.sender === failing),
      draft,
      outcome,
    );
  const answered = outcome.kind === "sent" || outcome.kind === "refused";
  for (const one of known.filter((other) => other.sender !== failing)) {
    // The outcome gives no information about the provider or this sender: the next probe runs after the
    // same backoff.
    if (one.probe === draft.id && (outcome.kind === "unknown" || failing === wholeChannel))
      await prolong(q, line, one);
    else if (one.probe === draft.id || (answered && (one.remaining <= 0 || one.told === 0)))
      await endPause(q, line.channel, one.sender);
  }
}

/** Returns the key of the pause that the outcome begins or extends; null for none. */
function failingKey(outcome: SendOutcome, sender: string): string | null {
  if (outcome.kind !== "deferred") return null;
  if (outcome.scope === "channel") return wholeChannel;
  return outcome.scope === "sender" ? sender : null;
}

async function pause(
  q: Query,
  line: ChannelRuntime,
  key: string,
  known: Pause | undefined,
  draft: DraftRow,
  outcome: SendOutcome & { readonly kind: "deferred" },
): Promise<void> {
  const { cause = "unreachable", reason, retryAfterMs } = outcome;
  const running = known !== undefined && known.remaining > 0 && known.probe !== draft.id;
  // Concurrent attempts fail together and count as one failure.
  const failures = running ? known.failures : (known?.failures ?? 0) + 1;
  const asked = retryAfterMs === undefined ? null : Math.max(retryAfterMs, shortestPause);
  if (running && (asked === null || asked <= known.remaining)) return;
  const forMs = asked ?? jitter(pauseDelay(paceOf(line.traits.platform), cause, failures));
  await writePause(q, line.channel, { sender: key, cause, failures, forMs, told: asked !== null, reason });
  if (forMs < timerMs) q.waits.add(forMs);
}

async function prolong(q: Query, line: ChannelRuntime, one: Pause): Promise<void> {
  const forMs = jitter(pauseDelay(paceOf(line.traits.platform), one.cause, one.failures));
  await writePause(q, line.channel, { ...one, forMs, told: false });
}
