// The statements of stage ask: the claimed turns, the record of an attempt, and the writes of a decision.
// Each transition first checks the lease's token. A holder whose lease has expired therefore writes nothing.

import type { Answer } from "../../agent/calls.ts";
import { type Address, readOpening } from "../../domain/turn.ts";
import { newId } from "../../ops/clock.ts";
import { failpointBefore, type Query } from "../../store/driver.ts";
import { type Claim, type Held, LaneHeads } from "../../store/due.ts";
import { guardLease, releaseLane } from "../../store/lanes.ts";
import {
  bindPlatform,
  type ConversationRow,
  isBound,
  recordMode,
  resetPoll,
  schedulePoll,
  unbindPlatform,
} from "../../store/tables/conversations.ts";
import { insertReply } from "../../store/tables/drafts.ts";
import { recordOutcomesOf, reportUnanswered } from "../../store/tables/events.ts";
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
  type TurnChange,
  type TurnRow,
} from "../../store/tables/turns.ts";
import { type ChannelRuntime, skillOf } from "../channel-runtime.ts";
import { composeAnswer } from "../compose/stage.ts";
import { heldTrigger } from "../escalation.ts";
import { type AskDecision, type Asking, type AskOutcome, type BeforeAsking, isUnasked } from "./decide.ts";

/** A turn at the head of its lane, with what a claim needs to decide. */
export interface ClaimedTurn {
  readonly turn: TurnRow;
  readonly conversation: ConversationRow;
  /** Why nothing may be sent to the recipient of the answer; null when it may, and for a turn that is exempt. */
  readonly suppressed: string | null;
  /** Milliseconds since the turn was made. */
  readonly waited: number;
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
export const suppressedPerson = `${suppressionReason("turns.channel", "turns.person", viaOf("turns.conversation"))} AS suppressed`;

const turnHeads = new LaneHeads<TurnHead>(
  "in",
  `turns.*, now_ms() - turns.tried_at AS trying_for, now_ms() - turns.received_at AS age,
       now_ms() - turns.made_at AS waited, (SELECT now_ms() - ended_at FROM attempts WHERE attempts.subject = turns.id AND number = turns.attempts) AS over_ago,
       conversations.agent, conversations.person AS customer, conversations.person_name, conversations.via,
       conversations.subject AS thread_subject, conversations.token AS thread_token, conversations.platform_id,
       ${suppressedPerson}`,
  "LEFT JOIN conversations ON conversations.id = lanes.conversation",
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
export async function suppressionOf(q: Query, turn: TurnRow & Pick<TurnHead, "suppressed">): Promise<string | null> {
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

/** Ends a claimed turn that is not asked. Messages that are held open an escalation. */
export async function refuse(
  q: Query,
  line: ChannelRuntime,
  turn: TurnRow,
  { kind, code, reason }: Exclude<BeforeAsking, { kind: "ask" }>,
  deps: Pick<Asking, "clock" | "timing">,
): Promise<void> {
  await changeTurn(q, turn.id, { state: kind === "drop" ? "dropped" : "failed", open: 0, reason });
  const outcome = { state: kind === "drop" ? "ignored" : "held", code, reason } as const;
  await recordOutcomesOf(q, turn.id, outcome);
  reportUnanswered(q, turn, outcome);
  if (kind === "hold") await line.escalation()?.open(q, heldTrigger(line, code, reason, deps));
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
      : await bindAsking(q, turn, attempt.unbound);
  if (!written) return false;
  if (conversation.platform_id !== null && turn.kind === "question")
    q.hop({ name: "asked", ...hopOf(turn), attempt: turn.attempts + 1, tookMs: turn.age });
  for (const publish of done) publish();
  return true;
}

/** Returns the fields of a turn in a hop. */
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

/** Writes what becomes of the turn, and releases the lane. */
export async function write(q: Query, asking: Asking, decision: AskDecision): Promise<void> {
  await guardLease(q, asking.lease);
  if (asking.attempt.unbound !== null && !asking.attempt.recorded && decision.kind !== "bound") {
    await bindPlatform(q, asking.conversation.id, asking.attempt.unbound);
    await endAttempt(q, asking.turn.id, "sent", null);
  }
  switch (decision.kind) {
    case "hand-back": {
      if (!asking.attempt.recorded) return releaseLane(q, asking.lease, "in");
      // The claim has recorded an attempt that was not made.
      await leave(q, asking, "deferred", { state: "waiting", open: 1, reason: noRoom });
      return;
    }
    case "bound":
      return bound(q, asking, decision.platformId, decision.adopted);
    case "opened":
      return opened(q, asking, decision.opening);
    case "answered":
      return answered(q, asking, decision);
    case "relayed":
      return relayed(q, asking, decision.id);
    case "mode":
      await leave(q, asking, "sent", { state: "answered", open: 0 });
      return recordMode(q, asking.conversation, decision.mode);
    case "retry": {
      const { outcome, reason, delay, penalty } = decision;
      await leave(q, asking, outcome, { state: "waiting", open: 1, dueInMs: delay, reason });
      return penalty > 0 ? asking.rate.penalise(q, penalty) : undefined;
    }
    case "unknown":
      return unknown(q, asking, decision);
    case "failed":
      return failed(q, asking, decision.outcome, decision.reason, decision.questionId);
    case "gone":
      return gone(q, asking, decision.reason);
  }
}

const noRoom = "the rate limit of the platform has no room";

/** Ends the attempt, changes the turn and releases the lane. Returns false when the question became
 *  obsolete during the attempt (in a call: a newer message arrived, or the call ended). The turn then
 *  stays `dropped`, with any outcome of the attempt. */
async function leave(q: Query, asking: Asking, outcome: AskOutcome, change: TurnChange): Promise<boolean> {
  const { node, lease, turn } = asking;
  // The attempt began as `waiting` and was not recorded. Nothing was sent, but the attempt counts for
  // backoff and lifetime.
  const unsent = turn.state === "waiting" && !asking.attempt.recorded;
  const detail = change.reason ?? null;
  if (unsent) await countUnsent(q, turn, { node, token: lease.token, outcome, detail });
  else await endAttempt(q, turn.id, outcome, detail);
  const isRetried = outcome !== "sent" && (change.state === "waiting" || change.state === "unknown");
  q.hop({ name: "askAttempt", channel: turn.channel, trace: turn.trace, outcome, isRetried });
  let wanted = true;
  if (turn.session === null) await changeTurn(q, turn.id, change);
  else wanted = await changeUndropped(q, turn.id, change);
  // Records the question's id, so that a later lookup does not mistake the old question for the new one.
  if (!wanted && change.questionId) await noteQuestion(q, turn.id, change.questionId);
  // The question was certainly not asked: its text is added to the newer question. An unrecorded turn was
  // superseded as `waiting`, which already moved its text.
  else if (!wanted && change.state === "waiting" && !unsent) await returnQuestion(q, turn);
  await releaseLane(q, lease, "in");
  return wanted;
}

async function bound(q: Query, asking: Asking, platformId: string, adopted: boolean): Promise<void> {
  if (adopted && (await isBound(q, platformId)))
    return unknown(q, asking, {
      kind: "unknown",
      reason: "the conversation found is another's",
      delay: asking.timing.ask.adoptedRetry,
      questionId: null,
      penalty: 0,
    });
  await bindPlatform(q, asking.conversation.id, platformId);
  // Reads the turn again, because its text may have moved to another turn.
  const { age, opening } = await readTurn(q, asking.turn.id);
  if (opening !== null) return opened(q, asking, opening);
  // Keeps the turn's mark. The turn fails when the platform loses the conversation a second time.
  const reason = asking.turn.reason === lostMark ? lostMark : null;
  // The turn keeps its former place in the queue: questions of earlier turns run before openings of later ones.
  await leave(q, asking, "sent", { state: "waiting", open: 1, reason, dueInMs: -age });
}

/** The platform's conversation of an outbound conversation is open. Queues the introduction as a reply,
 *  unless the channel speaks it. */
async function opened(q: Query, asking: Asking, written: string): Promise<void> {
  const { line, turn, clock } = asking;
  const { speak, introduction } = readOpening(written);
  const text = introduction ?? skillOf(line)?.introduction ?? "";
  if (speak && text.trim() === "") return failed(q, asking, "sent", "there is no introduction to begin with");
  const wanted = await leave(q, asking, "sent", { state: "answered", open: 0 });
  if (!wanted || !speak) return;
  const { conversation, channel } = turn;
  const id = newId(clock.now());
  await insertReply(q, {
    id,
    conversation,
    channel,
    turn: turn.id,
    kind: "opening",
    text,
    platformId: null,
  });
}

const noAnswer = "the platform took the message and gives no answer now (manual mode?)";

async function answered(
  q: Query,
  asking: Asking,
  { answer, rendered }: Extract<AskDecision, { kind: "answered" }>,
): Promise<void> {
  const { line, turn, conversation, clock, log } = asking;
  const silent = answer.text === null || answer.text.trim() === "";
  const wanted = await leave(q, asking, "sent", {
    state: silent ? "silent" : "answered",
    open: 0,
    questionId: answer.questionId,
    reason: silent ? noAnswer : null,
  });
  if (!wanted) return;
  const transfer = await escalated(q, asking, answer);
  if (silent || answer.text === null) return list(q, asking, "ignored", "silent", noAnswer);
  const { askedAt } = asking.attempt;
  const tookMs = askedAt === null ? null : clock.monotonic() - askedAt;
  q.hop({ name: "answered", ...hopOf(turn), tookMs });
  const { text, replyId: platformId } = answer;
  await composeAnswer(q, line, {
    id: newId(clock.now()),
    turn,
    conversation,
    text,
    platformId,
    transfer,
    rendered,
    clock,
    log,
  });
}

/** Detects an answer that needs a human, and schedules a poll of the platform's conversation: also after a turn without
 *  an answer, because a human may answer on the platform. Returns true when the call must be transferred after the
 *  answer. */
async function escalated(q: Query, asking: Asking, answer: Answer): Promise<boolean> {
  const { line, turn, conversation, timing } = asking;
  const hooks = line.escalation();
  if (hooks === null || turn.kind !== "question") return false;
  const escalates = (line.settings()?.escalations ?? []).length > 0;
  const isEmpty = (answer.text ?? "").trim() === "";
  const transfer = (escalates || isEmpty) && (await hooks.answered(q, line, asking, answer));
  // After the escalation's rows: locks are taken in the usual order.
  await schedulePoll(q, conversation, escalates ? timing.escalation.pollAfterAnswer : hooks.pollAfter());
  return transfer;
}

/** Records the id of a human's message, so that polling does not take it for an external one. */
async function relayed(q: Query, asking: Asking, id: string): Promise<void> {
  await leave(q, asking, "sent", { state: "answered", open: 0, questionId: id });
  await namePlatformId(q, asking.turn.id, id);
  await recordMode(q, asking.conversation, "manual");
  // From now on humans may write in the platform's conversation too, so it is polled.
  await schedulePoll(q, asking.conversation, asking.timing.ask.relayedPoll);
}

async function unknown(
  q: Query,
  asking: Asking,
  { reason, delay, questionId, penalty }: Extract<AskDecision, { kind: "unknown" }>,
): Promise<void> {
  const lookups = asking.turn.state === "waiting" ? 0 : asking.turn.lookups + 1;
  const change = { state: "unknown", open: 1, dueInMs: delay, reason, lookups, questionId } as const;
  await leave(q, asking, "unknown", change);
  if (penalty > 0) await asking.rate.penalise(q, penalty);
}

/** Lists messages that get no automatic answer. An operator can release them from there (`inbox`). */
async function list(
  q: Query,
  asking: Asking,
  state: "ignored" | "failed",
  code: string,
  reason: string,
): Promise<void> {
  await recordOutcomesOf(q, asking.turn.id, { state, code, reason });
  reportUnanswered(q, asking.turn, { state, code });
}

async function failed(
  q: Query,
  asking: Asking,
  outcome: AskOutcome,
  reason: string,
  questionId: string | null = null,
): Promise<void> {
  // Never blocks the lane for a call or an opening. A call continues with its next question, and an
  // operator cannot release a turn without a message.
  const { session, opening } = asking.turn;
  const block = asking.line.rules.on_permanent_failure === "block" && session === null && opening === null;
  const change = { state: "failed", open: block ? 1 : 0, reason, questionId } as const;
  if (!(await leave(q, asking, outcome, change))) return;
  await list(q, asking, "failed", "not-asked", reason);
  const { line, turn } = asking;
  const { channel, agent } = line;
  const about = { channel, agent, conversation: turn.conversation, topic: null };
  const key = `turn:${turn.id}:${turn.attempts}`;
  const said = turn.kind === "question" && turn.question !== "" ? { said: turn.question } : {};
  await line.escalation()?.open(q, { ...about, key, source: "ours", cause: "turn-failed", reason, ...said });
}

const lostMark = "the platform had lost the conversation";

/** Opens another conversation at the platform and asks there, once. */
async function gone(q: Query, asking: Asking, reason: string): Promise<void> {
  if (asking.turn.reason === lostMark) return failed(q, asking, "refused", reason);
  await unbindPlatform(q, asking.conversation.id);
  await resetPoll(q, asking.conversation.id);
  await leave(q, asking, "refused", { state: "waiting", open: 1, reason: lostMark });
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
