// Statements of the polls of the platform's conversations. A poll reads the mode of a conversation and external
// messages. It runs under the lease of the conversation's inbound lane, so polling never runs together with a question.

import { type Query, touch } from "../../store/driver.ts";
import { isAskedElsewhere } from "../../store/leases.ts";
import { lockEscalations } from "../../store/tables/escalations.ts";
import { needsClearing } from "../../store/tables/takeover.ts";
import { type Customer, customerColumns } from "../reply/rows.ts";
import { aboutConversation } from "../trigger/decide.ts";
import type { KnownTurn, PollFacts } from "./decide.ts";

export interface PollRow {
  readonly conversation: string;
  readonly channel: string;
  /** Mode as last read; null before the first poll. */
  readonly mode: string | null;
  /** The platform's id of the newest processed message; null before the first poll. */
  readonly mark: string | null;
  /** Number of messages in the conversation up to the mark; 0 reads from the start. `allKnown` also
   *  reads from the start, and delivers none of the existing messages. */
  readonly position: number;
  /** Number of consecutive failed polls. */
  readonly failures: number;
}

const columns = "conversation, channel, mode, mark, position, failures";

/** Returns the due polls of a channel, longest due first. */
export async function duePolls(q: Query, channel: string, limit: number): Promise<PollRow[]> {
  return q.all<PollRow>(
    `SELECT ${columns} FROM polls WHERE channel = $1 AND due_at <= now_ms()
     ORDER BY due_at LIMIT $2`,
    channel,
    limit,
  );
}

/** Returns the poll if it is still due and not locked by another transaction; locked for this transaction. */
export async function duePoll(q: Query, conversation: string): Promise<PollRow | null> {
  const row = await q.one<PollRow>(
    `SELECT ${columns} FROM polls WHERE conversation = $1 AND due_at <= now_ms()
     FOR UPDATE SKIP LOCKED -- only: postgres`,
    conversation,
  );
  return row ?? null;
}

export async function postponePoll(q: Query, conversation: string, ms: number): Promise<void> {
  await q.write("UPDATE polls SET due_at = now_ms() + $2 WHERE conversation = $1", conversation, ms);
  q.waits.add(ms);
}

/** Starts a poll and sets its due time to the end of its lease, in case the process crashes. Returns
 *  that time (epoch ms). `endPoll` compares it to detect whether another poll was requested since. */
export async function beginPoll(q: Query, conversation: string, forMs: number): Promise<number> {
  const row = await q.one<{ due_at: number }>(
    "UPDATE polls SET due_at = now_ms() + $2 WHERE conversation = $1 RETURNING due_at",
    conversation,
    forMs,
  );
  if (!row) throw new Error(`looking at conversation ${conversation}: it is not watched`);
  return row.due_at;
}

/** Records the result of the poll that started with `until`; `nextMs` null schedules no further poll. A
 *  poll requested during this one stays scheduled, because this result may be older. */
export async function endPoll(
  q: Query,
  conversation: string,
  found: {
    readonly mode: string;
    readonly mark: string | null;
    readonly position: number;
    readonly until: number;
    readonly nextMs: number | null;
    /** True when some of the new messages could not be read. */
    readonly failed: boolean;
  },
): Promise<void> {
  await q.write(
    `UPDATE polls SET mode = $2, mark = COALESCE($3, mark), position = $6,
       failures = CASE WHEN $7 = 1 THEN failures + 1 ELSE 0 END,
       due_at = CASE WHEN due_at < $4 THEN due_at ELSE now_ms() + $5 END WHERE conversation = $1`,
    conversation,
    found.mode,
    found.mark,
    found.until,
    found.nextMs,
    found.position,
    found.failed ? 1 : 0,
  );
  touch(q, "polls");
}

/** SQL: true for a turn with an attempt that ended with one of these outcomes. */
const wasTried = (outcomes: string): string =>
  `EXISTS (SELECT 1 FROM attempts WHERE subject = turns.id AND outcome IN (${outcomes}))`;

/** Locks the conversation of the platform for this transaction: those of our conversations that share it are polled
 *  under leases of their own, and each message is delivered once. SQLite has one writer and needs no lock. */
async function lockPlatform(q: Query, platformId: string): Promise<void> {
  if (q.leases) return;
  await q.write(
    "SELECT pg_advisory_xact_lock(hashtextextended('bridgehead poll ' || CAST($1 AS TEXT), 0))",
    platformId,
  );
}

/** Returns the known ids, the turns that explain messages without a recorded id, and the state of the conversation.
 *  Call with the inbound lane leased and idle: unless a question is asked elsewhere, every answer to our questions then has a
 *  known id. */
export async function loadPollFacts(q: Query, conversation: string, platformId: string): Promise<PollFacts> {
  await lockPlatform(q, platformId);
  const found = await q.one<
    Customer & {
      lost: string | null;
      quiet: number | null;
      escalation: string | null;
      elsewhere: number;
      asking: number;
      unsent: number;
    }
  >(
    `SELECT ${customerColumns},
       (SELECT sessions.id FROM sessions WHERE sessions.conversation = conversations.id AND state = 'lost'
        ORDER BY lost_at DESC LIMIT 1) AS lost,
       (SELECT now_ms() - made_at FROM turns WHERE turns.conversation = conversations.id ORDER BY seq DESC LIMIT 1) AS quiet,
       (SELECT escalations.id FROM escalations WHERE about = $2 AND state <> 'closed') AS escalation,
       CASE WHEN EXISTS (SELECT 1 FROM conversations AS other JOIN escalations ON about = $3 || other.id AND state <> 'closed'
         WHERE other.platform_id = $4 AND other.id <> $1 AND cause IN ('topic', 'silent')) THEN 1 ELSE 0 END AS elsewhere,
       CASE WHEN ${isAskedElsewhere("conversations.id")} THEN 1 ELSE 0 END AS asking,
       CASE WHEN ${needsClearing("conversations.id")} THEN 1 ELSE 0 END AS unsent
     FROM conversations WHERE id = $1`,
    conversation,
    aboutConversation(conversation),
    aboutConversation(""),
    platformId,
  );
  // After that: an answer that was recorded in the meantime has a known id.
  const rows = await q.all<{ id: string | null; thread: string | null; channel: string | null } & KnownTurn>(
    `SELECT question_id AS id, conversation AS thread, channel, NULL AS kind, NULL AS state, NULL AS text, NULL AS "questionId"
       FROM turns WHERE question_id IS NOT NULL AND conversation IN (SELECT id FROM conversations WHERE platform_id = $1)
     UNION ALL
     SELECT platform_id, NULL, NULL, NULL, NULL, NULL, NULL FROM replies
       WHERE platform_id IS NOT NULL AND conversation IN (SELECT id FROM conversations WHERE platform_id = $1)
     UNION ALL
     SELECT NULL, NULL, NULL, kind, state, question, question_id FROM turns
       WHERE conversation IN (SELECT id FROM conversations WHERE platform_id = $1)
       AND ((state = 'dropped' AND (question_id IS NOT NULL OR ${wasTried("'unknown', 'sent'")}))
         OR (((kind = 'relayed' AND open = 0) OR (kind = 'question' AND state = 'answered')) AND ${wasTried("'unknown', 'refused'")}))`,
    platformId,
  );
  const {
    lost = null,
    quiet = null,
    escalation = null,
    elsewhere = 0,
    asking = 0,
    unsent = 0,
    ...customer
  } = found ?? {};
  const locked = escalation === null ? null : (await lockEscalations(q, [escalation])).get(escalation);
  const others = new Map(
    rows.flatMap(({ thread: id, channel }) =>
      id === null || channel === null || id === conversation ? [] : [[id, { id, channel }] as const],
    ),
  );
  return {
    known: new Set(rows.flatMap(({ id }) => id ?? [])),
    elsewhere: new Map(
      rows.flatMap(({ id, thread }) => {
        const other = others.get(thread ?? "");
        return id === null || other === undefined ? [] : [[id, other] as const];
      }),
    ),
    turns: rows.filter(({ id }) => id === null),
    customer: found && found.person !== "" ? ({ ...customer, session: found.session ?? lost } as Customer) : null,
    quiet,
    // Another node may have closed it before it was locked.
    escalation: locked && locked.state !== "closed" ? locked : null,
    isKnownElsewhere: elsewhere === 1,
    isAskedElsewhere: asking === 1,
    hasUnsent: unsent === 1,
  };
}

/** Records a failed poll and schedules the next one; `nextMs` null schedules none. */
export async function failPoll(q: Query, conversation: string, nextMs: number | null): Promise<void> {
  await q.write(
    "UPDATE polls SET failures = failures + 1, due_at = now_ms() + $2 WHERE conversation = $1",
    conversation,
    nextMs,
  );
}
