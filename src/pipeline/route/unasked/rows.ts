// Statements of stage route for messages that are not asked: loads what the decisions need, and writes their
// results.

import type { Log } from "bridgehead/contract";
import { capped } from "../../../domain/guards.ts";
import type { Timing } from "../../../ops/timing.ts";
import { logOnDisk, type Query } from "../../../store/driver.ts";
import { countNotices, hasNotice, insertNotices } from "../../../store/tables/drafts.ts";
import { countHeld, hasKeywordSince, isCapped, loopingSenders, postponeChannel } from "../../../store/tables/events.ts";
import { pauseChannel } from "../../../store/tables/pauses.ts";
import { allOwn, lift, suppress } from "../../../store/tables/suppressions.ts";
import { capUse, roomIn } from "../../../store/tables/turns.ts";
import { type ChannelRuntime, consentAddress } from "../../channel-runtime.ts";
import { personOf } from "../decide.ts";
import type { CapUse, ConsentMessage, Context, Facts, Incoming, RouteDecision, Run, Writes } from "../facts.ts";
import { capNotice, contradiction, floodLimit, type LimitCounts, type LimitPause } from "./decide.ts";

/** Adds to the facts what the decisions about messages need that are not asked. `guarded`: the results of `guard`. */
export async function loadUnasked(
  q: Query,
  { line, timing }: Context,
  run: Run,
  facts: Map<Incoming, Facts>,
  guarded: ReadonlyMap<Incoming, RouteDecision | null>,
): Promise<void> {
  const { channel } = line;
  const decisions = [...guarded.values()];
  if (decisions.some((one) => one?.kind === "hold"))
    run.held = await countHeld(q, channel, timing.route.heldFlood, floodLimit);
  for (const [message, decision] of guarded) {
    const own = facts.get(message) as Facts;
    if (decision?.kind === "consent")
      facts.set(message, { ...own, keyword: await loadKeyword(q, line, decision.message, own, timing.route) });
    const over = decision === null ? capped(own.counts) : null;
    const text = over && capNotice(line, message.event, over);
    if (!over || text === null) continue;
    const to = { channel, conversation: own.session ?? own.conversation ?? "", person: personOf(message) };
    const notified = await hasNotice(q, to, text, Math.max(over.cap.per, timing.route.heldNotice));
    facts.set(message, { ...own, notified });
  }
}

async function loadKeyword(
  q: Query,
  line: ChannelRuntime,
  message: ConsentMessage,
  { session, conversation }: Facts,
  timing: Timing["route"],
): Promise<Facts["keyword"]> {
  const { channel, rules } = line;
  const other = contradiction(message, timing);
  const { via = null } = message.event;
  // Where consent applies to single addresses of ours, a keyword to another one contradicts nothing.
  const to = consentAddress(line, via) === allOwn ? undefined : via;
  const outdated =
    other !== null && (await hasKeywordSince(q, channel, personOf(message), other.code, other.since, to));
  const known = session ?? conversation;
  const notices: number[] = [];
  if (known !== null) for (const cap of rules.caps.sender) notices.push(await countNotices(q, known, cap.per));
  return { outdated, notices };
}

/** Writes the lists of messages that are not asked. The outcomes of their events are recorded already. */
export async function writeUnasked(q: Query, line: ChannelRuntime, log: Log, writes: Writes): Promise<void> {
  const { channel } = line;
  for (const { address, reason, own } of writes.suppressed) await suppress(q, channel, address, reason, { own });
  for (const { address, own } of writes.lifted) await lift(q, channel, address, own);
  if (writes.notices.length > 0) await insertNotices(q, writes.notices);
  for (const hop of writes.hops) q.hop(hop);
  for (const report of writes.lines) report(logOnDisk(q, log));
  for (const wait of writes.waits) await postpone(q, channel, log, wait);
  for (const trigger of writes.escalations) await line.escalation()?.open(q, trigger);
}

/** Queues the messages of a channel at its cap until it has room. */
async function postpone(
  q: Query,
  channel: string,
  log: Log,
  { preferred, waits }: Writes["waits"][number],
): Promise<void> {
  let waitMs = 0;
  for (const wait of waits) {
    const ms = "ms" in wait ? wait.ms : await roomIn(q, channel, wait.below, wait.cap.per);
    waitMs = Math.max(waitMs, ms);
  }
  const fields = { channel, wait_ms: Math.ceil(waitMs), preferred };
  if (!(await isCapped(q, channel))) logOnDisk(q, log).warn(fields, "channel at its cap: messages are queued");
  await postponeChannel(q, channel, waitMs, preferred);
}

/** Returns the use of the channel's caps. */
export async function loadUses(q: Query, { channel, rules }: ChannelRuntime): Promise<CapUse[]> {
  const uses: CapUse[] = [];
  for (const cap of rules.caps.channel) uses.push({ cap, ...(await capUse(q, channel, cap.per)) });
  return uses;
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
