// The transitions of a turn at the end of stage ask. Each transition first releases the lane under the
// lease's token. A holder whose lease has expired therefore writes nothing.

import type { Clock } from "bridgehead/contract";
import type { Answer } from "../../agent/calls.ts";
import { handOnWords } from "../../calls/superseded.ts";
import { readOpening } from "../../domain/opening.ts";
import { newId } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import { guardLease, releaseLane } from "../../store/lanes.ts";
import { penalise } from "../../store/rates.ts";
import { bindPlatform, isBound, unbindPlatform } from "../../store/tables/conversations.ts";
import { insertReply } from "../../store/tables/drafts.ts";
import { settleEventsOf } from "../../store/tables/events.ts";
import { namePlatformId } from "../../store/tables/takeover.ts";
import {
  changeTurn,
  countUnsent,
  endAttempt,
  isDropped,
  noteQuestion,
  readTurn,
  type TurnChange,
} from "../../store/tables/turns.ts";
import { forgetMode, noteMode, watchIn } from "../../store/tables/watches.ts";
import { skillOf } from "../channel-runtime.ts";
import { rateName } from "../rate.ts";
import type { Asking } from "./asking.ts";

type Outcome = "sent" | "refused" | "deferred" | "unknown";

/** Ends the attempt, changes the turn and releases the lane. Returns false when the question became
 *  obsolete during the attempt (in a call: a newer message arrived, or the call ended). The turn then
 *  stays `dropped`, with any outcome of the attempt. */
async function leave(q: Query, asking: Asking, outcome: Outcome, change: TurnChange): Promise<boolean> {
  await guardLease(q, asking.lease);
  // The attempt began as `waiting` and was not recorded. Nothing was sent, but the attempt counts for
  // backoff and lifetime.
  const unsent = asking.turn.state === "waiting" && !asking.attempt.recorded;
  const detail = change.reason ?? null;
  const { node, lease, turn } = asking;
  if (unsent) await countUnsent(q, turn, { node, token: lease.token, outcome, detail });
  else await endAttempt(q, turn.id, outcome, detail);
  const wanted = asking.turn.session === null || !(await isDropped(q, asking.turn.id));
  if (wanted) await changeTurn(q, asking.turn.id, change);
  // Records the question's id, so that a later lookup does not mistake the old question for the new one.
  else if (change.questionId) await noteQuestion(q, asking.turn.id, change.questionId);
  // The question was certainly not asked: its text is added to the newer question. An unrecorded turn was
  // superseded as `waiting`, which already moved its text.
  else if (change.state === "waiting" && !unsent) await handOnWords(q, asking.turn);
  await releaseLane(q, asking.lease, "in");
  return wanted;
}

/** Releases the lane without a change. The turn differs from the one that was claimed, and nothing was
 *  sent. */
export async function handBack(q: Query, asking: Asking): Promise<void> {
  await guardLease(q, asking.lease);
  await releaseLane(q, asking.lease, "in");
}

/** Binds the platform's conversation. The turn is due again immediately, now as a question. */
export async function bound(q: Query, asking: Asking, platformId: string): Promise<void> {
  await guardLease(q, asking.lease);
  await bindPlatform(q, asking.conversation.id, platformId);
  // Reads the turn again, because its text may have moved to another turn.
  const { age, opening } = await readTurn(q, asking.turn.id);
  if (opening !== null) return begun(q, asking, opening);
  // Keeps the turn's mark. The turn fails when the platform loses the conversation a second time.
  const reason = asking.turn.reason === lostMark ? lostMark : null;
  // The turn keeps its former place in the queue: questions of earlier turns run before openings of later
  // ones.
  await leave(q, asking, "sent", { state: "waiting", open: 1, reason, dueInMs: -age });
}

/** The platform's conversation of an outbound conversation is open. Queues the introduction as a reply,
 *  unless the channel speaks it. */
export async function begun(q: Query, asking: Asking, written: string): Promise<void> {
  const { line, turn, clock } = asking;
  const { speak, introduction } = readOpening(written);
  const text = introduction ?? skillOf(line)?.introduction ?? "";
  if (speak && text.trim() === "") return failed(q, asking, "sent", "there is no introduction to begin with");
  const wanted = await leave(q, asking, "sent", { state: "answered", open: 0 });
  if (!wanted || !speak) return;
  const { conversation, channel } = turn;
  const id = newId(clock.now());
  const reply = {
    id,
    conversation,
    channel,
    turn: turn.id,
    kind: "opening",
    text,
    platformId: null,
  } as const;
  await insertReply(q, reply);
}

/** Like `bound`, for a conversation that a lookup found. Another turn may already be bound to it. */
export async function adopted(q: Query, asking: Asking, platformId: string): Promise<void> {
  await guardLease(q, asking.lease);
  if (await isBound(q, platformId)) return unknown(q, asking, "the conversation found is another's", 1000);
  return bound(q, asking, platformId);
}

const noAnswer = "the platform took the message and gives no answer now (manual mode?)";

/** Lists messages that get no automatic answer. An operator can release them from there (`inbox`). */
async function list(q: Query, asking: Asking, state: string, code: string, reason: string): Promise<void> {
  await settleEventsOf(q, asking.turn.id, { state, code, reason });
}

/** The platform answered, or accepted the question without an answer (`text` null: a human answers in
 *  manual mode). `rendered` comes from the adapter and was produced outside this transaction
 *  (`prepared`). */
export async function answered(
  q: Query,
  asking: Asking,
  answer: Answer,
  clock: Clock,
  rendered: string | null = null,
): Promise<void> {
  const { turn, conversation } = asking;
  const silent = answer.text === null || answer.text.trim() === "";
  const wanted = await leave(q, asking, "sent", {
    state: silent ? "silent" : "answered",
    open: 0,
    questionId: answer.questionId,
    reason: silent ? noAnswer : null,
  });
  if (!wanted) return;
  const handOver = (await asking.line.escalation()?.answered(q, asking.line, asking, answer)) ?? false;
  if (silent || answer.text === null) return list(q, asking, "ignored", "silent", noAnswer);
  await insertReply(q, {
    id: newId(clock.now()),
    conversation: conversation.id,
    channel: turn.channel,
    turn: turn.id,
    text: answer.text,
    platformId: answer.replyId,
    handOver,
    rendered,
  });
}

const soonMs = 60_000;

/** The platform stored a human's message under that id. The id is recorded, so that polling does not
 *  take the message for an external one. */
export async function relayed(q: Query, asking: Asking, id: string): Promise<void> {
  await leave(q, asking, "sent", { state: "answered", open: 0, questionId: id });
  await namePlatformId(q, asking.turn.id, id);
  await noteMode(q, asking.conversation, "manual");
  // From now on humans may write in the platform's conversation too, so it is polled.
  await watchIn(q, asking.conversation, soonMs);
}

/** The platform has confirmed the mode (`ai` or `manual`). */
export async function toldMode(q: Query, asking: Asking, mode: "ai" | "manual"): Promise<void> {
  await leave(q, asking, "sent", { state: "answered", open: 0 });
  await noteMode(q, asking.conversation, mode);
}

/** The question was certainly not asked: retries it after `delayMs`. `penaltyMs` delays the calls of all
 *  nodes. */
export async function waiting(
  q: Query,
  asking: Asking,
  outcome: Outcome,
  reason: string,
  delayMs: number,
  penaltyMs = 0,
): Promise<void> {
  await leave(q, asking, outcome, { state: "waiting", open: 1, dueInMs: delayMs, reason });
  if (penaltyMs > 0) await penalise(q, rateName, penaltyMs);
}

/** The question may have been asked: schedules a lookup in `delayMs`. */
export async function unknown(
  q: Query,
  asking: Asking,
  reason: string,
  delayMs: number,
  questionId: string | null = null,
  penaltyMs = 0,
): Promise<void> {
  const looks = asking.turn.state === "waiting" ? 0 : asking.turn.looks + 1;
  await leave(q, asking, "unknown", {
    state: "unknown",
    open: 1,
    dueInMs: delayMs,
    reason,
    looks,
    questionId,
  });
  if (penaltyMs > 0) await penalise(q, rateName, penaltyMs);
}

/** Ends automatic retries. `questionId` is set when the platform certainly has the question. */
export async function failed(
  q: Query,
  asking: Asking,
  outcome: Outcome,
  reason: string,
  questionId: string | null = null,
): Promise<void> {
  // Never blocks the lane for a call or an opening. A call continues with its next question, and an
  // operator cannot release a turn without a message.
  const { session, opening } = asking.turn;
  const block = asking.line.rules.on_dead === "block" && session === null && opening === null;
  const wanted = await leave(q, asking, outcome, {
    state: "failed",
    open: block ? 1 : 0,
    reason,
    questionId,
  });
  if (!wanted) return;
  await list(q, asking, "failed", "not-asked", reason);
  const { line, turn } = asking;
  const { channel, agent } = line;
  const about = { channel, agent, conversation: turn.conversation, topic: null };
  const key = `turn:${turn.id}:${turn.attempts}`;
  const said = turn.kind === "question" && turn.question !== "" ? { said: turn.question } : {};
  await line.escalation()?.raise(q, { ...about, key, source: "ours", cause: "turn-failed", reason, ...said });
}

const lostMark = "the platform had lost the conversation";

/** HTTP 404: the platform no longer has the conversation. Opens another one and asks there, once. */
export async function gone(q: Query, asking: Asking, reason: string): Promise<void> {
  if (asking.turn.reason === lostMark) return failed(q, asking, "refused", reason);
  await guardLease(q, asking.lease);
  await unbindPlatform(q, asking.conversation.id);
  await forgetMode(q, asking.conversation.id);
  await leave(q, asking, "refused", { state: "waiting", open: 1, reason: lostMark });
}
