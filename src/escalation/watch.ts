// Stage watch.
// Takes: conversations whose state on the platform is to be looked at, while nothing is asked in them.
// Does: reads who answers there and what was said; both may have changed without us.
// Leaves: an escalation when a human is needed, or its end; messages from elsewhere as replies, each once.
// If it fails: later again.  If the process dies: the lease runs out, and the look is still due.

import type { Clock, Log } from "bridgehead/contract";
import type { CallResult, PlatformMessage } from "../agent/calls.ts";
import type { Policy } from "../domain/policy.ts";
import { lookDelay } from "../domain/retry.ts";
import { point } from "../ops/points.ts";
import type { Line, Lines } from "../pipeline/line.ts";
import { rateName } from "../pipeline/rate.ts";
import type { Claimed, Stage, Transition } from "../pipeline/stage.ts";
import { tenure } from "../pipeline/tenure.ts";
import { type ConversationRow, readConversation } from "../store/conversations.ts";
import type { Query } from "../store/driver.ts";
import { abandonLane, guardLease, type Lease, releaseLane, tryLane } from "../store/lanes.ts";
import { type Rate, takeRate } from "../store/rates.ts";
import {
  activityIn,
  beginWatch,
  channelsToWatch,
  dueWatch,
  dueWatches,
  failWatch,
  leaseIdle,
  noteWatch,
  postponeWatch,
  type WatchRow,
} from "../store/watches.ts";
import { deliverForeign } from "./foreign.ts";
import { noteModeChange } from "./mode.ts";

export interface WatchDeps {
  readonly policy: () => Policy | null;
  readonly lines: () => Lines;
  readonly rate: Rate;
  readonly clock: Clock;
  readonly log: Log;
  readonly node: string;
}

/** Two quick reads. */
const timeout = 20_000;
const leaseMs = 2 * timeout + 15_000;
const calls = 2;
/** When the lane is at work, or the rate is used up by questions, which come first. */
const laterMs = 1000;
/** The longest pause between two looks at a conversation in which something may still happen. */
const longestPause = 3_600_000;
const watchedFor = 24 * 3_600_000;

interface Look {
  readonly line: Line;
  readonly lease: Lease;
  readonly watch: WatchRow;
  readonly conversation: ConversationRow;
  readonly platformId: string;
  /** As which look it began. */
  readonly until: number;
}

export function watchStage(deps: WatchDeps): Stage {
  return {
    name: "watch",
    takes: "watches",
    atOnce: 4,
    async channels(q) {
      if (deps.policy() === null) return [];
      const channels = await channelsToWatch(q);
      return channels.filter((channel) => deps.lines().get(channel)?.problem() === null);
    },
    async claim(q, channel, room) {
      const claimed: Claimed[] = [];
      const line = deps.lines().get(channel);
      if (!line) return claimed;
      for (const { conversation } of await dueWatches(q, channel, room)) {
        const look = await claimLook(q, line, await readConversation(q, conversation), deps);
        if (look) claimed.push(piece(look, deps));
      }
      return claimed;
    },
  };
}

async function claimLook(
  q: Query,
  line: Line,
  conversation: ConversationRow,
  deps: WatchDeps,
): Promise<Look | null> {
  const { id, platform_id: platformId } = conversation;
  // Another node may be at it, or have been: then what made it due is over. Nothing is waited for here, because whoever is
  // at it may wait for what this transaction has.
  if (!(await tryLane(q, id, "in"))) return null;
  const watch = await dueWatch(q, id);
  if (watch === null) return null;
  // Nobody but us knows of it yet; an answer makes the next look due.
  if (platformId === null) await failWatch(q, id, longestPause);
  if (platformId === null) return null;
  const lease = await leaseIdle(q, id, deps.node, leaseMs);
  const rate = lease && (await takeRate(q, rateName, deps.rate, calls, 0));
  if (lease && rate?.taken) {
    const until = await beginWatch(q, id, leaseMs);
    return { line, lease, watch, conversation, platformId, until };
  }
  if (lease) await releaseLane(q, lease, "in");
  await postponeWatch(q, id, laterMs);
  return null;
}

function piece(look: Look, deps: WatchDeps): Claimed {
  const fields = { channel: look.line.channel, conversation: look.conversation.id };
  const held = tenure(deps.clock, leaseMs);
  return {
    channel: look.line.channel,
    left: () => held.left(),
    abandon: (q) => abandonLane(q, look.lease),
    recorded: () => undefined,
    committing: (phase) => point("watch.commit", phase, fields),
    work: (signal) => read(look, held.signal(signal), deps),
  };
}

async function read(look: Look, signal: AbortSignal, deps: WatchDeps): Promise<Transition> {
  const { client } = look.line;
  const deadline = AbortSignal.any([signal, AbortSignal.timeout(timeout)]);
  const mode = await client.mode(look.platformId, deadline);
  if (mode.kind !== "ok") return failed(look, mode, deps);
  const said = await client.read(look.platformId, deadline);
  if (said.kind !== "ok") return failed(look, said, deps);
  return (q) => found(q, look, mode.value, said.value, deps);
}

async function found(
  q: Query,
  look: Look,
  mode: "ai" | "manual",
  said: readonly PlatformMessage[],
  deps: WatchDeps,
): Promise<void> {
  await guardLease(q, look.lease);
  const mark = said.at(-1)?.id ?? null;
  await deliverForeign(q, look, said, deps);
  await noteModeChange(q, look, mode, mark, deps);
  const nextMs = await pauseFor(q, look.conversation.id, deps.policy());
  await noteWatch(q, look.conversation.id, { mode, mark, nextMs, until: look.until });
  await releaseLane(q, look.lease, "in");
}

/** Often while a human may be answering, seldom when nothing has happened for long, and in the end not at all. */
async function pauseFor(q: Query, conversation: string, policy: Policy | null): Promise<number | null> {
  if (policy === null) return null;
  const { quiet, escalated } = await activityIn(q, conversation);
  if (escalated > 0) return policy.pollOpen;
  if (quiet === null || quiet > watchedFor) return null;
  return Math.min(Math.max(policy.poll, quiet / 4), longestPause);
}

/** The conversation is gone, or cannot be read now. */
function failed(
  look: Look,
  result: Exclude<CallResult<unknown>, { kind: "ok" }>,
  deps: WatchDeps,
): Transition {
  const { line, watch } = look;
  const fields = { channel: line.channel, conversation: look.conversation.id, result: result.kind };
  deps.log.warn({ ...fields, reason: result.reason }, "looking at a conversation of the platform failed");
  if (result.kind === "unauthorized") line.report(result.reason);
  return async (q) => {
    await guardLease(q, look.lease);
    await failWatch(q, watch.conversation, Math.max(lookDelay(watch.looks), laterMs));
    await releaseLane(q, look.lease, "in");
  };
}
