// Stage poll. Input: conversations with a due poll of the platform, while no question is running in them. Effect: reads
// the platform's mode and messages; both may have changed without us. Output: an escalation when a human is needed, or
// its end; external messages as replies, each once. Failure: retried later; messages read until then count. Crash: the
// lease expires, and the poll is still due.

import type { CallResult, PlatformMessage, PlatformMessages } from "../../agent/calls.ts";
import { type Claimed, type Stage, type Transition, withFailpoint } from "../../engine/stage.ts";
import { limited, newId } from "../../ops/clock.ts";
import type { ChannelRuntime, LaneWork } from "../../pipeline/channel-runtime.ts";
import { readCall } from "../../pipeline/rate.ts";
import { logOnDisk, type Query } from "../../store/driver.ts";
import { abandonLane, guardLease, leaseDeadline, releaseLane, tryLane } from "../../store/lanes.ts";
import { leaseIdleLane } from "../../store/leases.ts";
import { allKnown, type ConversationRow, readConversation, schedulePolls } from "../../store/tables/conversations.ts";
import { insertReply } from "../../store/tables/drafts.ts";
import type { EscalationRow } from "../../store/tables/escalations.ts";
import { clearLanes, dropWaitingAnswers } from "../../store/tables/takeover.ts";
import { acknowledge, close, type EscalationCore, type EscalationParts } from "../actions.ts";
import { loadSubjects } from "../trigger/rows.ts";
import { logUnnotified, openEscalations } from "../trigger/stage.ts";
import { type PollPlan, planPoll, retryAfter, takeoverTrigger } from "./decide.ts";
import { beginPoll, duePoll, duePolls, endPoll, failPoll, loadPollFacts, type PollRow, postponePoll } from "./rows.ts";

/** Without a policy conversations are polled at the default intervals. */
type PollDeps = EscalationCore & Pick<EscalationParts, "db" | "rate" | "node">;

const calls = 2;

interface PollWork extends LaneWork {
  readonly poll: PollRow;
  readonly conversation: ConversationRow;
  readonly platformId: string;
  /** Identifies this poll, as returned by `beginPoll`. */
  readonly until: number;
}

export function pollStage(deps: PollDeps): Stage {
  return {
    name: "poll",
    takes: "polls",
    atOnce: 4,
    async claim(q, channel, room) {
      const claimed: Claimed[] = [];
      const line = deps.lines().get(channel);
      if (line?.problem() !== null) return { claimed, room };
      for (const { conversation } of await duePolls(q, channel, room)) {
        const work = await claimPoll(q, line, conversation, deps);
        if (work) claimed.push(piece(work, deps));
      }
      return { claimed, room };
    },
  };
}

async function claimPoll(q: Query, line: ChannelRuntime, id: string, deps: PollDeps): Promise<PollWork | null> {
  // Another node may be polling the conversation, or has just done so, and then the poll is no longer due.
  // The lock is not waited for: its holder may wait for a lock of this transaction.
  if (!(await tryLane(q, id, "in"))) return null;
  const poll = await duePoll(q, id);
  if (poll === null) return null;
  const timing = deps.timing.escalation;
  // The lease covers two reads.
  const leaseMs = timing.pollLeaseMargin + 2 * timing.pollCall;
  // Read under the lock: another node may have bound the conversation, or replaced its binding.
  const conversation = await readConversation(q, id);
  const { platform_id: platformId } = conversation;
  // The platform has no conversation yet. An answer schedules the next poll.
  if (platformId === null) await failPoll(q, id, timing.pollLongest);
  if (platformId === null) return null;
  const deadline = leaseDeadline(deps.clock, leaseMs);
  const lease = deps.rate.room(0) < calls ? null : await leaseIdleLane(q, id, deps.node, leaseMs);
  if (lease === null) {
    // Questions have priority.
    await postponePoll(q, id, timing.pollBusy);
    return null;
  }
  const until = await beginPoll(q, id, leaseMs);
  return { line, lease, leaseDeadline: deadline, poll, conversation, platformId, until };
}

function piece(work: PollWork, deps: PollDeps): Claimed {
  const fields = { channel: work.line.channel, conversation: work.conversation.id };
  return {
    channel: work.line.channel,
    // Polls are many. A short wait of the outcome does no harm, and after a crash the poll is still due.
    pace: "joining",
    left: () => work.leaseDeadline.left(),
    abandon: (q) => abandonLane(q, work.lease),
    work: async (signal) => withFailpoint(await read(work, signal, deps), "poll.commit", fields),
  };
}

async function read(work: PollWork, signal: AbortSignal, deps: PollDeps): Promise<Transition> {
  const { client } = work.line;
  const rate = await deps.rate.take(calls, 0);
  if (!rate.taken) return (q) => postponed(q, work, deps);
  const deadline = limited(signal, deps.timing.escalation.pollCall);
  const mode = await client.mode(work.platformId, deadline);
  if (mode.kind !== "ok") return failed(work, mode, deps);
  const from = work.poll.mark === null ? 0 : Math.max(0, work.poll.position - overlap);
  const said = await client.read(work.platformId, from, readCall(deadline, deps));
  return (q) => found(q, work, mode.value, said, deps);
}

/** Questions have priority. */
async function postponed(q: Query, work: PollWork, { timing }: PollDeps): Promise<void> {
  await guardLease(q, work.lease);
  await postponePoll(q, work.conversation.id, timing.escalation.pollBusy);
  await releaseLane(q, work.lease, "in");
}

/** Number of messages before the mark that are read again: the platform may insert a message before others. */
const overlap = 32;

async function found(
  q: Query,
  work: PollWork,
  mode: "ai" | "manual",
  read: PlatformMessages,
  deps: PollDeps,
): Promise<void> {
  const { poll, conversation, line, until } = work;
  const result = { mode, read, until };
  const trigger = takeoverTrigger(poll, result, line);
  await guardLease(q, work.lease);
  const facts = await loadPollFacts(q, conversation.id, work.platformId);
  if (facts.isAskedElsewhere) return postponed(q, work, deps);
  const [subject] = trigger ? await loadSubjects(q, [trigger]) : [];
  const takeover = trigger && subject ? { trigger, subject } : null;
  const settings = { policy: deps.policy(), timing: deps.timing.escalation };
  const plan = planPoll(poll, result, { ...facts, takeover }, line, settings);
  await write(q, work, plan, facts.escalation, deps);
  warnOf(work, read, plan, deps);
  await schedulePolls(q, plan.others, 0);
  await endPoll(q, conversation.id, { ...plan.poll, until });
  await releaseLane(q, work.lease, "in");
}

/** The actor for answers in the platform's interface, which does not name the author. */
const platformUser = { name: "a responder on the platform", target: null };

/** Writes the effects of a poll. Each external message goes to the customer once, on the channel of the question. */
async function write(
  q: Query,
  { line, conversation }: PollWork,
  { record, deliver, undelivered, address, later, acknowledge: answered, takeover, close: ended }: PollPlan,
  escalation: EscalationRow | null,
  deps: PollDeps,
): Promise<void> {
  const { clock, log } = deps;
  // Replies go out in the order of their ids, so the replies of one poll must not share a millisecond.
  let now = clock.now();
  const replyFor = ({ id, role, text }: PlatformMessage) => ({
    id: newId(now++),
    conversation: conversation.id,
    channel: conversation.channel,
    turn: null,
    kind: role === "human" ? ("human" as const) : ("answer" as const),
    text,
    platformId: id,
  });
  for (const message of record) await insertReply(q, { ...replyFor(message), state: "composed" });
  if (later !== null) await clearLanes(q, conversation.id, later);
  for (const message of deliver) await insertReply(q, { ...replyFor(message), address });
  if (escalation !== null && answered) await acknowledge(q, escalation, platformUser, deps);
  if (escalation !== null && ended) await close(q, escalation, "the platform (mode ai)", deps);
  if (deps.policy() !== null && undelivered.length > 0) await openEscalations(q, undelivered, deps);
  if (deliver.length > 0) {
    const fields = { channel: line.channel, conversation: conversation.id, messages: deliver.length };
    log.info(fields, "external platform messages enqueued");
  }
  if (takeover === null) return;
  const { trigger, subject, effect, isResponse } = takeover;
  await dropWaitingAnswers(q, conversation.id, "a person has the conversation", isResponse);
  if (effect === "log") logUnnotified(logOnDisk(q, log), trigger);
  if (effect === "open") await openEscalations(q, [trigger], deps, [subject]);
}

function warnOf(
  { line, conversation, poll }: PollWork,
  { failure, skipped }: PlatformMessages,
  { record, undelivered }: PollPlan,
  { log }: PollDeps,
): void {
  const fields = { channel: line.channel, conversation: conversation.id };
  if (record.length > 0 && poll.position === allKnown)
    log.warn({ ...fields, messages: record.length }, "platform messages not delivered: the store was restored");
  if (undelivered.length > 0)
    log.warn(
      { ...fields, messages: undelivered.length },
      "platform messages not delivered: the call is over, or they have files",
    );
  if (skipped > 0) log.warn({ ...fields, skipped }, "platform messages skipped: too large to be read");
  if (failure === null) return;
  log.warn(
    { ...fields, result: failure.kind, reason: failure.reason },
    "reading the platform's messages failed; its mode was read",
  );
  if (conversation.agent === line.agent) line.report(failure, false);
}

/** Handles a conversation that is gone, or cannot be read now. */
function failed(work: PollWork, result: Exclude<CallResult<unknown>, { kind: "ok" }>, deps: PollDeps): Transition {
  const { line, poll, conversation } = work;
  const fields = { channel: line.channel, conversation: conversation.id, result: result.kind };
  deps.log.warn({ ...fields, reason: result.reason }, "polling the platform failed");
  const isFormer = conversation.agent !== line.agent;
  if (!isFormer) line.report(result, false);
  return async (q) => {
    await guardLease(q, work.lease);
    await failPoll(q, poll.conversation, retryAfter(poll, result.kind, isFormer, deps.timing.escalation));
    await releaseLane(q, work.lease, "in");
  };
}
