// Statements of stage route for messages that are not asked: loads what the decisions need, and writes their
// results.

import type { Log } from "bridgehead/contract";
import { logOnDisk, type Query } from "../../../store/driver.ts";
import { countNotices, insertNotices } from "../../../store/tables/drafts.ts";
import { countHeld, hasKeywordSince, loopingSenders, postponeChannel } from "../../../store/tables/events.ts";
import { pauseChannel } from "../../../store/tables/pauses.ts";
import { allOwn, lift, removeSuppression, suppress } from "../../../store/tables/suppressions.ts";
import { capUse, roomIn } from "../../../store/tables/turns.ts";
import type { ChannelRuntime } from "../../channel-runtime.ts";
import {
  type Context,
  type Facts,
  type Incoming,
  type Postponement,
  personOf,
  type Run,
  type UnaskedLookUps,
  type Writes,
} from "../facts.ts";
import { floodLimit, type LimitCounts, type LimitPause } from "./decide.ts";

/** Adds to the run and to the facts of the messages what the decisions about them look up. */
export async function loadUnasked(
  q: Query,
  { line: { channel, rules }, timing }: Context,
  run: Run,
  facts: Map<Incoming, Facts>,
  { held, keywords }: UnaskedLookUps,
): Promise<void> {
  if (held) run.held = await countHeld(q, channel, timing.route.heldFlood, floodLimit);
  for (const { message, opposite, conversation } of keywords) {
    const outdated = opposite !== null && (await hasKeywordSince(q, channel, personOf(message), opposite));
    const notices: number[] = [];
    if (conversation !== null)
      for (const { per } of rules.caps.sender) notices.push(await countNotices(q, conversation, per));
    facts.set(message, { ...(facts.get(message) as Facts), keyword: { outdated, notices } });
  }
}

/** Writes the lists of messages that are not asked. The outcomes of their events are recorded already. */
export async function writeUnasked(q: Query, line: ChannelRuntime, log: Log, writes: Writes): Promise<void> {
  const { channel } = line;
  // Before a STOP of the same person, which takes the place of the bounces.
  for (const address of writes.revived) await removeSuppression(q, channel, address, allOwn);
  for (const { address, reason, own } of writes.suppressed) await suppress(q, channel, address, reason, { own });
  for (const { address, own } of writes.lifted) await lift(q, channel, address, own);
  if (writes.notices.length > 0) await insertNotices(q, writes.notices);
  for (const hop of writes.hops) q.hop(hop);
  for (const report of writes.lines) report(logOnDisk(q, log));
  for (const one of writes.postponed) await postpone(q, channel, log, one);
  for (const trigger of writes.escalations) await line.escalation()?.open(q, trigger);
}

/** Queues the messages of a channel at its cap until it has room. */
async function postpone(q: Query, channel: string, log: Log, postponed: Postponement): Promise<void> {
  const { preferred, rooms, isNew } = postponed;
  let waitMs = postponed.ms;
  for (const { below, per } of rooms) waitMs = Math.max(waitMs, await roomIn(q, channel, below, per));
  const fields = { channel, wait_ms: Math.ceil(waitMs), preferred };
  if (isNew) logOnDisk(q, log).warn(fields, "channel at its cap: messages are queued");
  await postponeChannel(q, channel, waitMs, preferred);
}

/** Loads the counts that `pause_on` limits, as far as this run has changed them. */
export async function loadLimits(q: Query, { channel, rules }: ChannelRuntime, run: Run): Promise<LimitCounts> {
  const loops: LimitCounts["loops"][number][] = [];
  const replies: LimitCounts["replies"][number][] = [];
  if (run.loop !== null)
    for (const cap of rules.pause_on?.loops ?? [])
      loops.push({ cap, count: await loopingSenders(q, channel, cap.per) });
  if (run.turns > 0)
    for (const cap of rules.pause_on?.replies ?? [])
      replies.push({ cap, count: (await capUse(q, channel, cap.per, true)).total });
  return { loops, replies };
}

/** Pauses the channel and notifies responders. Returns false when it is paused already. */
export async function writeLimitPause(
  q: Query,
  line: ChannelRuntime,
  { code, reason, event, trigger }: LimitPause,
): Promise<boolean> {
  if (!(await pauseChannel(q, { channel: line.channel, code, reason, event, forMs: null }))) return false;
  await line.escalation()?.open(q, trigger);
  return true;
}
