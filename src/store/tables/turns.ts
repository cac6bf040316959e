// Stage ask: turns in their lanes, and the attempts to ask the platform.

import { traceOf } from "../../ops/hops.ts";
import { isRecent, ManyRows, type Query, type Value } from "../driver.ts";
import { appendToLane, lockLane, nextSeq, refreshLane } from "../lanes.ts";
import { moves, movesToAny, type StateOf, stateWhere, TransitionRefused } from "../transitions.ts";
import { isPaused, pauseEnd } from "./pauses.ts";

export interface TurnRow {
  readonly id: string;
  readonly conversation: string;
  readonly channel: string;
  readonly person: string;
  readonly seq: number;
  /** `relayed`: a human's message to store on the platform; `mode`: sets on the platform whether the
   *  agent or a human answers (ai, manual). */
  readonly kind: "question" | "relayed" | "mode";
  readonly state: string;
  readonly question: string;
  readonly context: string | null;
  readonly address: string;
  readonly attempts: number;
  readonly lookups: number;
  /** The event that caused it. */
  readonly event: number | null;
  /** Its messages, for the log (`Hop.trace`). */
  readonly trace: string;
  /** The live session (call) in which it was spoken, or null. */
  readonly session: string | null;
  /** Set for a turn without a question: an outbound conversation (domain/turn.ts). */
  readonly opening: string | null;
  /** Milliseconds since the end of the newest attempt (answered, aborted, or found dead); null while its
   *  end is unknown. */
  readonly over_ago: number | null;
  /** Milliseconds since the first attempt of this round; null before that attempt. A release starts a new round. */
  readonly trying_for: number | null;
  /** Milliseconds since the customer's message was accepted. */
  readonly age: number;
  readonly question_id: string | null;
  readonly reason: string | null;
  readonly received_at: number;
}

const columns = `id, conversation, channel, person, seq, kind, event, trace, session, opening, state, question, context, address, attempts, lookups,
   (SELECT now_ms() - ended_at FROM attempts WHERE subject = turns.id AND number = turns.attempts) AS over_ago,
   now_ms() - tried_at AS trying_for, now_ms() - received_at AS age, question_id, reason, received_at`;

export interface NewTurn
  extends Pick<TurnRow, "id" | "conversation" | "channel" | "person" | "event" | "question" | "context" | "address">,
    Partial<Pick<TurnRow, "session" | "opening">> {
  /** Default: the event. */
  readonly trace?: string;
  readonly receivedAt: number;
  /** By the database's clock; default and minimum: now. */
  readonly dueAt?: number;
  /** The address of the answer, in lower case, when it is not the person's: it counts against the sender's caps, too. */
  readonly replyTo?: string | null;
  /** The address of the answer without its tag, when it has one: the turns of all tags are counted together. */
  readonly untagged?: string | null;
  /** Default: `question`. */
  readonly kind?: TurnRow["kind"];
  /** Copied from its event. Default: preferred, without a queue key. */
  readonly preferred?: 0 | 1;
  readonly queue?: string | null;
}

const turnRows = new ManyRows<NewTurn>(
  `INSERT INTO turns (id, conversation, channel, person, reply_to, untagged, seq, event, state, open, question, context, address, due_at,
     received_at, made_at, updated_at, session, opening, kind, preferred, queue, trace) VALUES`,
  `(:id, :conversation, :channel, :person, :replyTo, :untagged, :seq, :event, 'waiting', 1, :question, :context, :address,
     CASE WHEN :dueAt > now_ms() THEN :dueAt ELSE now_ms() END,
     :receivedAt, now_ms(), now_ms(), :session, :opening, :kind, :preferred, :queue, :trace)`,
);

/** Inserts turns with given sequence numbers. Their lanes must have these numbers and a due time: see
 *  `NewConversation.firstDue`. The lanes announce that they are due. */
export async function insertTurns(q: Query, turns: readonly (NewTurn & { readonly seq: number })[]): Promise<void> {
  const rows = turns.map((turn) => ({
    kind: "question" as const,
    preferred: 1 as const,
    trace: turn.event === null ? "" : traceOf(turn.event),
    ...turn,
  }));
  await turnRows.write(q, rows);
}

/** Enqueues a turn at the end of its conversation's inbound lane, after any other change of the lane. */
export async function enqueueTurn(q: Query, turn: NewTurn): Promise<void> {
  const seq = await nextSeq(q, turn.conversation, "in");
  await insertTurns(q, [{ ...turn, seq }]);
  await refreshLane(q, turn.conversation, "in");
}

/** Enqueues a turn like `enqueueTurn`, in two statements. Call it only where this transaction has changed
 *  no other turn of the lane. */
export async function appendTurn(q: Query, turn: NewTurn): Promise<void> {
  await appendToLane(q, turn.conversation, "in", turn.dueAt ?? 0, (seq) => insertTurns(q, [{ ...turn, seq }]));
}

const asked = {
  set: "attempts = attempts + 1, tried_at = COALESCE(tried_at, now_ms()), updated_at = now_ms()",
  // The sum keeps PostgreSQL from searching the index of states.
  where: "turns.id = $1 AND open + 0 = 1 AND attempts = $4 AND question = $2 AND COALESCE(opening, '') = $3",
};
/** The start of the statement that records an attempt. */
export const newAttempt = "INSERT INTO attempts (subject, number, kind, node, token, started_at)";

/** Inserts the attempt whose subject was changed. On PostgreSQL one statement does both. */
export async function addAttempt(
  q: Query,
  kind: "ask" | "send",
  { id, attempts }: { readonly id: string; readonly attempts: number },
  node: string,
  token: number,
): Promise<void> {
  if (q.leases === null) return;
  await q.write(`${newAttempt} VALUES ($1, $2, $3, $4, $5, now_ms())`, id, attempts + 1, kind, node, token);
}

const askingMove = `
  WITH moved AS ( -- only: postgres
  ${moves("turns", "asking", {
    ...asked,
    where: `${asked.where} AND (kind <> 'question' OR session IS NOT NULL OR NOT ${isPaused("turns.channel")})`,
    from: ["waiting"],
  })}
  RETURNING id, attempts) -- only: postgres
  ${newAttempt} SELECT id, attempts, 'ask', $5, $6, now_ms() FROM moved -- only: postgres
`;

/** Records the attempt before it is made. Call with the lane's row locked (`guardLease`). Returns false when the claimed text
 *  must not be asked: the turn was dropped or a later message was added to it since the claim, or its channel was paused. */
export async function recordAsking(q: Query, turn: TurnRow, node: string, token: number): Promise<boolean> {
  const { id, question, opening, attempts } = turn;
  const changed = await q.run(askingMove, id, question, opening ?? "", attempts, node, token);
  if (changed === 1) await addAttempt(q, "ask", turn, node, token);
  return changed === 1;
}

/** Binds the platform's conversation that the recorded attempt of `turn` has opened with that agent, before the same attempt
 *  asks the question. Call with the lane's row locked (`guardLease`). Returns false, with nothing written, when
 *  the turn has changed since the attempt was recorded. */
export async function bindAsking(q: Query, turn: TurnRow, platformId: string, agent: string): Promise<boolean> {
  const changed = await q.run(
    `UPDATE conversations SET platform_id = $5, agent = $7 WHERE id = $6 AND EXISTS (
       SELECT 1 FROM turns WHERE ${asked.where} AND state = 'asking')`,
    turn.id,
    turn.question,
    turn.opening ?? "",
    turn.attempts + 1,
    platformId,
    turn.conversation,
    agent,
  );
  return changed === 1;
}

/** Counts an attempt that failed before the request was sent, such as a refused connection; backoff and lifetime depend
 *  on the count. It is recorded already when the response to that commit was lost. The turn is `asking` afterwards, and
 *  the next statements end the attempt and set the state. */
export async function countUnsent(q: Query, id: string, node: string, token: number): Promise<void> {
  await q.write(
    `${newAttempt} SELECT id, attempts + 1, 'ask', $2, $3, now_ms() FROM turns
     WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE subject = $1 AND outcome IS NULL)`,
    id,
    node,
    token,
  );
  await q.write(
    `UPDATE turns SET attempts = (SELECT MAX(number) FROM attempts WHERE subject = $1), tried_at = COALESCE(tried_at, now_ms()),
       ${stateWhere("turns", "asking")} WHERE id = $1`,
    id,
  );
}

/** Deletes the newest attempt, which was certainly not made: it does not count. `turn`: as it was before the attempt. */
export async function withdrawAttempt(q: Query, { id, attempts, trying_for }: TurnRow): Promise<void> {
  await q.write("DELETE FROM attempts WHERE subject = $1 AND number = $2", id, attempts + 1);
  await q.write(
    `UPDATE turns SET attempts = $2, tried_at = ${trying_for === null ? "NULL" : "tried_at"} WHERE id = $1`,
    id,
    attempts,
  );
}

/** Records the outcome of the newest attempt; a recorded final outcome and its end time stay unchanged. */
export async function endAttempt(q: Query, subject: string, outcome: string, detail: string | null): Promise<void> {
  await q.write(
    `UPDATE attempts SET outcome = $2, detail = $3, ended_at = COALESCE(ended_at, now_ms())
     WHERE subject = $1 AND number = (SELECT MAX(number) FROM attempts WHERE subject = $1) AND (outcome IS NULL OR outcome = 'unknown')`,
    subject,
    outcome,
    detail,
  );
}

export interface TurnChange {
  readonly state: StateOf<"turns">;
  /** 1 while the turn occupies the head of its lane. */
  readonly open: 0 | 1;
  readonly dueInMs?: number;
  readonly reason?: string | null;
  readonly questionId?: string | null;
  readonly lookups?: number;
}

/** Throws TransitionRefused. */
export async function changeTurn(q: Query, id: string, change: TurnChange): Promise<void> {
  const refused = () => new TransitionRefused("turns", id, change.state);
  await q.writeOne(refused, turnMoves[change.state], ...changeValues(id, change));
}
const changeValues = (id: string, { open, dueInMs = 0, ...change }: TurnChange): Value[] => [
  id,
  open,
  dueInMs,
  change.reason ?? null,
  change.questionId ?? null,
  change.lookups ?? 0,
];
const turnMoves = movesToAny("turns", {
  set: `open = $2, due_at = now_ms() + $3, reason = $4, question_id = COALESCE($5, question_id), lookups = $6,
       updated_at = now_ms()`,
  where: "id = $1",
});

/** Like `changeTurn`. Returns false, with nothing written, when the turn was dropped. */
export async function changeUndropped(q: Query, id: string, change: TurnChange): Promise<boolean> {
  if ((await q.run(turnMoves[change.state], ...changeValues(id, change))) === 1) return true;
  if (await q.one("SELECT 1 FROM turns WHERE id = $1 AND state = 'dropped'", id)) return false;
  throw new TransitionRefused("turns", id, change.state);
}

/** Records the platform's question id of a completed turn. */
export async function noteQuestion(q: Query, id: string, questionId: string): Promise<void> {
  await q.write("UPDATE turns SET question_id = $2 WHERE id = $1", id, questionId);
}

/** Returns the ids of platform messages that belong to turns other than `except`; they are never matched
 *  as its answer. */
export async function platformIds(q: Query, platformConversation: string, except: string): Promise<Set<string>> {
  const rows = await q.all<{ id: string | null }>(
    `SELECT question_id AS id FROM turns WHERE id <> $2 AND conversation IN (SELECT id FROM conversations WHERE platform_id = $1)
     UNION ALL
     SELECT platform_id AS id FROM replies WHERE conversation IN (SELECT id FROM conversations WHERE platform_id = $1)`,
    platformConversation,
    except,
  );
  return new Set(rows.map((row) => row.id).filter((id): id is string => id !== null));
}

/** Returns the use of a channel's cap: turns in the window, turns of senders without priority, and the
 *  age of the newest of those (milliseconds; null if none exists). `sincePause`: without the turns before the end of
 *  the channel's last pause. */
export async function capUse(
  q: Query,
  channel: string,
  windowMs: number,
  sincePause = false,
): Promise<{ readonly total: number; readonly others: number; readonly sinceOther: number | null }> {
  const row = await q.one<{ total: number; others: number | null; since: number | null }>(
    `SELECT COUNT(*) AS total, CAST(SUM(CASE WHEN preferred = 0 THEN 1 ELSE 0 END) AS BIGINT) AS others,
       now_ms() - MAX(CASE WHEN preferred = 0 THEN made_at END) AS since
     FROM turns WHERE channel = $1 AND ${isRecent("made_at", "$2")} AND kind = 'question'
       ${sincePause ? `AND made_at >= ${pauseEnd("$1")}` : ""}`,
    channel,
    windowMs,
  );
  return { total: row?.total ?? 0, others: row?.others ?? 0, sinceOther: row?.since ?? null };
}

export async function readTurn(q: Query, id: string): Promise<TurnRow> {
  const row = await q.one<TurnRow>(`SELECT ${columns} FROM turns WHERE id = $1`, id);
  if (!row) throw new Error(`reading turn ${id}: there is none`);
  return row;
}

/** Returns the milliseconds until the channel has capacity for one more turn under a cap, by the database's clock. */
export async function roomIn(q: Query, channel: string, max: number, windowMs: number): Promise<number> {
  const row = await q.one<{ wait: number }>(
    "SELECT made_at + $3 - now_ms() AS wait FROM turns WHERE channel = $1 AND kind = 'question' ORDER BY made_at DESC LIMIT 1 OFFSET $2",
    channel,
    Math.max(0, max - 1),
    windowMs,
  );
  return Math.max(1, Math.min(row?.wait ?? windowMs, windowMs));
}

/** For a question that the platform has, or may have. */
const lookUpAgain = moves("turns", "unknown", {
  set: `open = 1, lookups = 0, reason = 'released by an operator', tried_at = NULL, due_at = now_ms(),
       updated_at = now_ms()`,
  where: `id = $1 AND (state = 'silent' OR question_id IS NOT NULL OR EXISTS (
     SELECT 1 FROM attempts WHERE subject = turns.id AND number = turns.attempts AND COALESCE(outcome, 'unknown') = 'unknown'))`,
  from: ["failed", "silent"],
});
const askAgain = moves("turns", "waiting", {
  set: `open = 1, lookups = 0, reason = 'released by an operator', tried_at = NULL, due_at = now_ms(),
       updated_at = now_ms()`,
  where: "id = $1",
  from: ["failed"],
});

/** Changes the turn, if it meets the condition, with its lane locked. Returns what `change` does: whether anything changed. */
async function changeInLane(
  q: Query,
  id: string,
  condition: string,
  change: (turn: { readonly conversation: string; readonly seq: number }) => Promise<boolean>,
): Promise<boolean> {
  const turn = await q.one<{ conversation: string; seq: number }>(
    `SELECT conversation, seq FROM turns WHERE id = $1 AND ${condition}`,
    id,
  );
  if (!turn) return false;
  await lockLane(q, turn.conversation, "in");
  const isChanged = await change(turn);
  if (isChanged) await refreshLane(q, turn.conversation, "in");
  return isChanged;
}

/** Starts a new round for a turn that failed or got no answer. A question that reached the platform, or may have, is looked up
 *  first. Returns false when there is no such turn. */
export const reviveTurn = (q: Query, id: string): Promise<boolean> =>
  changeInLane(q, id, "state IN ('failed', 'silent')", async () => {
    if ((await q.run(lookUpAgain, id)) === 0) await q.write(askAgain, id);
    return true;
  });

/** Ends the pause before the next attempt of a question, and those of the earlier ones of its conversation, without which it
 *  is not asked. Returns false when none of them waits for a time. */
export const askTurnNow = (q: Query, id: string): Promise<boolean> =>
  changeInLane(q, id, "open = 1", async ({ conversation, seq }) => {
    const changed = await q.run(
      `UPDATE turns SET due_at = now_ms(), updated_at = now_ms()
       WHERE conversation = $1 AND open = 1 AND seq <= $2 AND state IN ('waiting', 'unknown') AND due_at > now_ms()`,
      conversation,
      seq,
    );
    return changed > 0;
  });

/** Lets the later turns of the lane pass a failed turn that blocks it. Returns false for other turns. */
export const unblockTurn = (q: Query, id: string): Promise<boolean> =>
  changeInLane(q, id, "state = 'failed' AND open = 1", async () => {
    await q.write("UPDATE turns SET open = 0 WHERE id = $1 AND state = 'failed'", id);
    return true;
  });
