// The statements of stage ask: the claimed turns, those that wait while the agent is not asked, the record of an
// attempt, and the writes of a plan.

import type { Address } from "../../domain/turn.ts";
import { newId } from "../../ops/clock.ts";
import { failpointBefore, type Query } from "../../store/driver.ts";
import { type Claim, type Held, LaneHeads } from "../../store/due.ts";
import { guardLease, releaseLane, tryLane } from "../../store/lanes.ts";
import {
  bindPlatform,
  type ConversationRow,
  recordMode,
  resetPoll,
  schedulePoll,
  unbindPlatform,
} from "../../store/tables/conversations.ts";
import { insertReply } from "../../store/tables/drafts.ts";
import { recordOutcomesOf, reportUnanswered } from "../../store/tables/events.ts";
import { isPaused } from "../../store/tables/pauses.ts";
import { suppressionReason, viaOf } from "../../store/tables/suppressions.ts";
import { namePlatformId } from "../../store/tables/takeover.ts";
import {
  bindAsking,
  changeTurn,
  changeUndropped,
  countUnsent,
  endAttempt,
  noteQuestion,
  readTurn,
  recordAsking,
  type TurnRow,
  withdrawAttempt,
} from "../../store/tables/turns.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";
import { composeAnswer } from "../compose/stage.ts";
import { type AskPlan, isUnasked, type RefusalPlan } from "./decide.ts";
import type { Asking } from "./stage.ts";

/** A turn with the facts that decide whether it is asked. */
export interface WaitingTurn {
  readonly turn: TurnRow;
  /** Why nothing may be sent to the recipient of the answer; null when it may, and for a turn that is exempt. */
  readonly suppressed: string | null;
  /** Milliseconds since the turn was made. */
  readonly waited: number;
}

/** A turn at the head of its lane. */
export interface ClaimedTurn extends WaitingTurn {
  readonly conversation: ConversationRow;
}

/** A turn with its conversation. `suppressed` is about the turn's person. */
type TurnHead = TurnRow & {
  readonly agent: string;
  readonly customer: string;
  readonly person_name: string | null;
  readonly via: string | null;
  readonly thread_subject: string | null;
  readonly thread_token: string;
  readonly platform_id: string | null;
  readonly suppressed: string | null;
  readonly waited: number;
};

/** The reason why nothing may be sent to the person of a turn; NULL without one. */
const suppressedPerson = `${suppressionReason("turns.channel", "turns.person", viaOf("turns.conversation"))} AS suppressed`;

const turnHeads = new LaneHeads<TurnHead>(
  "in",
  `turns.*, now_ms() - turns.tried_at AS trying_for, now_ms() - turns.received_at AS age,
       now_ms() - turns.made_at AS waited, (SELECT now_ms() - ended_at FROM attempts WHERE attempts.subject = turns.id AND number = turns.attempts) AS over_ago,
       conversations.agent, conversations.person AS customer, conversations.person_name, conversations.via,
       conversations.subject AS thread_subject, conversations.token AS thread_token, conversations.platform_id,
       ${suppressedPerson}`,
);

/** Leases inbound lanes and reads their heads (`LaneHeads`). */
export async function leaseTurns(q: Query, claim: Claim): Promise<readonly Held<ClaimedTurn>[]> {
  const held: Held<ClaimedTurn>[] = [];
  for (const { head, ...lane } of await turnHeads.lease(q, claim))
    held.push({ ...lane, head: head && (await claimedTurn(q, head)) });
  return held;
}

async function claimedTurn(q: Query, turn: TurnHead): Promise<ClaimedTurn> {
  const { conversation: id, channel, agent, customer: person, person_name, via, platform_id, waited } = turn;
  const [subject, token] = [turn.thread_subject, turn.thread_token];
  const conversation = { id, channel, agent, person, person_name, via, platform_id, subject, token };
  return { turn, conversation, suppressed: await suppressionOf(q, turn), waited };
}

/** Returns why nothing may be sent to the recipient of the answer. `turn.suppressed` is about the turn's person. */
async function suppressionOf(q: Query, turn: TurnRow & Pick<TurnHead, "suppressed">): Promise<string | null> {
  if (!isUnasked(turn)) return null;
  const { to } = JSON.parse(turn.address) as Partial<Address>;
  const recipient = (to?.[0]?.address ?? turn.person).toLowerCase();
  if (recipient === turn.person) return turn.suppressed;
  const row = await q.one<{ reason: string | null }>(
    `SELECT ${suppressionReason("$1", "$2", viaOf("$3"))} AS reason`,
    turn.channel,
    recipient,
    turn.conversation,
  );
  return row?.reason ?? null;
}

/** Locks the lanes of the questions that `unasked` finds, and returns these. Lanes that another transaction has locked
 *  are left out. */
export async function oldTurns(q: Query, line: ChannelRuntime, most: number, node: string): Promise<WaitingTurn[]> {
  let found = await unasked(q, line, most, node);
  if (q.leases === null && found.length > 0) {
    const locked = new Set<string>();
    for (const { conversation } of found) if (await tryLane(q, conversation, "in")) locked.add(conversation);
    // Another transaction may have changed them before, so they are read again.
    found = (await unasked(q, line, most, node)).filter(({ conversation }) => locked.has(conversation));
  }
  const turns: WaitingTurn[] = [];
  for (const { id, waited, suppressed } of found) {
    const turn = await readTurn(q, id);
    turns.push({ turn, waited, suppressed: await suppressionOf(q, { ...turn, suppressed }) });
  }
  return turns;
}

/** Returns the questions that were certainly not asked and that wait for longer than `max_age`, oldest first. A turn
 *  with refused attempts counts from the first one of its round; one that an operator has released since is not among
 *  them. `suppressed` is about the turn's person. */
function unasked(
  q: Query,
  { channel, rules }: ChannelRuntime,
  most: number,
  node: string,
): Promise<readonly Pick<TurnHead, "id" | "conversation" | "waited" | "suppressed">[]> {
  const leased = q.leases === null ? [] : [JSON.stringify(q.leases.busy(node, channel))];
  return q.all(
    `SELECT turns.id, turns.conversation, now_ms() - turns.made_at AS waited,
       ${suppressedPerson}
     FROM turns JOIN lanes ON lanes.id = turns.conversation || '/in'
     WHERE turns.channel = $1 AND turns.open = 1 AND turns.state = 'waiting' AND turns.received_at < now_ms() - $2
       AND turns.made_at < now_ms() - $2 AND turns.kind = 'question' AND turns.session IS NULL AND turns.event IS NOT NULL
       AND CASE WHEN turns.attempts = 0 THEN turns.reason IS NULL ELSE turns.tried_at < now_ms() - $2 END
       AND NOT ${isPaused("$1")}
       AND lanes.id NOT IN (SELECT value FROM json_each($4)) -- only: sqlite
       AND lanes.lease_until <= now_ms() -- only: postgres
     ORDER BY turns.received_at LIMIT $3`,
    channel,
    rules.max_age,
    most,
    ...leased,
  );
}

/** Ends a turn that is not asked. */
export async function refuse(q: Query, line: ChannelRuntime, turn: TurnRow, plan: RefusalPlan): Promise<void> {
  await changeTurn(q, turn.id, plan.change);
  await list(q, line, turn, plan.lists, plan.triggers);
}

/** Lists the messages of a turn that gets no automatic answer. */
async function list(
  q: Query,
  line: ChannelRuntime,
  turn: TurnRow,
  outcome: RefusalPlan["lists"],
  trigger: AskPlan["triggers"],
): Promise<void> {
  await recordOutcomesOf(q, turn.id, outcome);
  reportUnanswered(q, turn, outcome);
  if (trigger !== undefined) await line.escalation()?.open(q, trigger);
}

/** Records the attempt at the crossing, or with its claim. When the same work has just opened the platform's
 *  conversation, its recorded attempt continues with the question, and the conversation is stored. Returns false, with
 *  nothing written, when the turn changed after it was claimed. Throws LeaseLost. */
export async function recordAttempt(q: Query, asking: Asking): Promise<boolean> {
  const { lease, turn, conversation, node, attempt, line } = asking;
  const fields = { channel: line.channel, turn: turn.id };
  const points = [...(attempt.unbound === null ? [] : ["open.commit" as const]), "ask.record" as const];
  const done = points.map((point) => failpointBefore(q, point, fields));
  await guardLease(q, lease);
  const written =
    attempt.unbound === null
      ? await recordAsking(q, turn, node, lease.token)
      : await bindAsking(q, turn, attempt.unbound, line.agent);
  if (!written) return false;
  if (conversation.platform_id !== null && turn.kind === "question")
    q.hop({ name: "asked", ...hopOf(turn), attempt: turn.attempts + 1, tookMs: turn.age });
  for (const publish of done) publish();
  return true;
}

const hopOf = ({ id: turn, channel, conversation, trace, event, session }: Asking["turn"]) => ({
  channel,
  trace,
  ...(event === null ? {} : { event }),
  conversation,
  turn,
  session,
});

/** Returns the fields of a turn in a log line. */
export const logged = ({ id: turn, trace, channel, conversation }: Asking["turn"]) => ({
  ...(trace && { trace }),
  channel,
  conversation,
  turn,
});

/** Writes the plan, and releases the lane. Call after `guardLease`. */
export async function write(q: Query, asking: Asking, plan: AskPlan): Promise<void> {
  const { line, turn, conversation, rate, clock, log, attempt } = asking;
  const { binds, relayed, mode, detects, poll, introduction, answer } = plan;
  if (binds === null) {
    await unbindPlatform(q, conversation.id);
    await resetPoll(q, conversation.id);
  } else if (binds !== undefined) await bindPlatform(q, conversation.id, binds, line.agent);
  if (plan.endsOpening) await endAttempt(q, turn.id, "sent", null);
  const isWanted = await leave(q, asking, plan);
  if (plan.penalty) await rate.penalise(q, plan.penalty);
  if (!isWanted) return;
  if (relayed !== undefined) await namePlatformId(q, turn.id, relayed);
  if (mode !== undefined) await recordMode(q, conversation, mode);
  const transfer = detects !== undefined && (await line.escalation()?.answered(q, line, asking, detects)) === true;
  // After the escalation's rows: locks are taken in the usual order.
  if (poll !== undefined) await schedulePoll(q, conversation, poll);
  if (plan.lists !== undefined) await list(q, line, turn, plan.lists, plan.triggers);
  if (introduction !== undefined)
    await insertReply(q, {
      id: newId(clock.now()),
      conversation: conversation.id,
      channel: turn.channel,
      turn: turn.id,
      kind: "opening",
      text: introduction,
      platformId: null,
    });
  if (answer === undefined) return;
  const tookMs = attempt.askedAt === null ? null : clock.monotonic() - attempt.askedAt;
  q.hop({ name: "answered", ...hopOf(turn), tookMs });
  await composeAnswer(q, line, { id: newId(clock.now()), turn, conversation, ...answer, transfer, clock, log });
}

/** Ends the attempt, changes the turn and releases the lane. Returns false when the question became obsolete during the
 *  attempt. The turn then stays `dropped`, with any outcome of the attempt. */
async function leave(q: Query, { node, lease, turn }: Asking, plan: AskPlan): Promise<boolean> {
  const { outcome, change, isUnsent, isWithdrawn, isRetried } = plan;
  const detail = change.reason ?? null;
  if (isWithdrawn) await withdrawAttempt(q, turn);
  else if (isUnsent) await countUnsent(q, turn.id, node, lease.token);
  if (!isWithdrawn) await endAttempt(q, turn.id, outcome, detail);
  if (!isWithdrawn) q.hop({ name: "askAttempt", channel: turn.channel, trace: turn.trace, outcome, isRetried });
  let isWanted = true;
  if (turn.session === null) await changeTurn(q, turn.id, change);
  else isWanted = await changeUndropped(q, turn.id, change);
  // Records the question's id, so that a later lookup does not mistake the old question for the new one.
  if (!isWanted && change.questionId) await noteQuestion(q, turn.id, change.questionId);
  else if (!isWanted && plan.returnsText) await returnQuestion(q, turn);
  await releaseLane(q, lease, "in");
  return isWanted;
}

/** Prepends the text of a dropped question of a call to the next waiting question, if there is one. Only
 *  for a question that certainly did not reach the platform. */
async function returnQuestion(
  q: Query,
  turn: Pick<Asking["turn"], "id" | "conversation" | "session" | "question" | "trace">,
): Promise<void> {
  const next = await q.one<{ id: string }>(
    `UPDATE turns SET question = $3 || question, trace = $4 || trace WHERE id = (
       SELECT id FROM turns WHERE conversation = $1 AND session = $2 AND open = 1 AND state = 'waiting' AND opening IS NULL
       ORDER BY seq LIMIT 1
     ) RETURNING id`,
    turn.conversation,
    turn.session,
    `${turn.question}\n`,
    turn.trace === "" ? "" : `${turn.trace} `,
  );
  if (next) await q.write("UPDATE events SET turn = $2 WHERE turn = $1", turn.id, next.id);
}
