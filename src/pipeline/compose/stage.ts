// Stage compose. Input: replies in state `ready`. Effect: formats them for the channel: signature, sender name,
// threading, splitting. Calls the adapter's `compose`, which is pure. Output: immutable drafts, `queued` in order in
// the conversation's outbound lane, due at max(received + delay, now). Failure: a shortened plain text is composed. If
// that fails too, the reply is `failed` and the error is logged. Crash: the reply is still `ready`.

import type { Clock, Log } from "bridgehead/contract";
import type { TransactionalStage } from "../../engine/stage.ts";
import { failpointOfCommit, type Query } from "../../store/driver.ts";
import { refreshLane } from "../../store/lanes.ts";
import { type ConversationRow, readConversation } from "../../store/tables/conversations.ts";
import {
  changeDraft,
  changeReply,
  enqueueDraft,
  hasEarlierReply,
  insertReply,
  type NewDraft,
  type ReplyRow,
  readyReplies,
} from "../../store/tables/drafts.ts";
import { lockChannel, recordOutcomesOf, reportUnanswered } from "../../store/tables/events.ts";
import { filesOf } from "../../store/tables/files.ts";
import { readTurn, type TurnRow } from "../../store/tables/turns.ts";
import { type ChannelRuntime, type ChannelRuntimes, skillOf } from "../channel-runtime.ts";
import { type ComposedDrafts, type ComposeFacts, draftsOf } from "./decide.ts";

const batch = 200;

export function composeStage(deps: { lines: () => ChannelRuntimes; log: Log }): TransactionalStage {
  return {
    takes: "replies",
    async run(q, channels) {
      for (const channel of channels ?? []) {
        const line = deps.lines().get(channel);
        if (!line || !(await lockChannel(q, channel))) continue;
        for (const row of await readyReplies(q, channel, batch)) {
          const turn = row.turn === null ? null : await readTurn(q, row.turn);
          await q
            .savepoint(() => compose(q, line, row, turn, deps.log))
            .catch(async (error: unknown) => {
              deps.log.error({ channel, reply: row.id, err: error }, "composing a reply failed");
              await fail(q, line, row, turn, String(error));
            });
        }
        failpointOfCommit(q, "draft.commit", { channel });
      }
      return [];
    },
  };
}

/** Ends a reply that cannot be composed. `inbox` lists the message that waits for an answer, and can retry it. */
async function fail(q: Query, line: ChannelRuntime, row: ReplyRow, turn: TurnRow | null, why: string): Promise<void> {
  const outcome = { state: "failed", code: "not-composed", reason: why } as const;
  await changeReply(q, row.id, "failed", why);
  if (turn !== null) {
    await recordOutcomesOf(q, turn.id, outcome);
    reportUnanswered(q, turn, outcome);
  }
  await line.escalation()?.undeliverable(q, line, { ...row, reply: row.id }, outcome);
}

async function compose(q: Query, line: ChannelRuntime, row: ReplyRow, turn: TurnRow | null, log: Log): Promise<void> {
  const conversation = await readConversation(q, row.conversation);
  const reply = composed(line, row, await load(q, line, row, turn, conversation), log);
  await enqueue(q, line, row, reply);
  await changeReply(q, row.id, "composed", null);
}

/** A reply that was composed in one of its forms. */
type Composed = Pick<ComposedDrafts, "change"> & { readonly drafts: readonly NewDraft[] };

/** Returns the drafts of a reply, and logs the forms of it that could not be composed. Throws when there is no other. */
function composed(line: ChannelRuntime, row: ReplyRow, loaded: ComposeFacts, log: Log): Composed {
  const { drafts, change, errors } = draftsOf(line, row, loaded);
  for (const err of errors) log.error({ channel: line.channel, err }, "composing a reply failed, trying a plain text");
  if (drafts === null) throw errors.at(-1);
  return { drafts, change };
}

/** Enqueues the drafts of a reply. The author of a human's reply is notified when it is held. A call that is
 *  still running in shadow mode continues. */
async function enqueue(q: Query, line: ChannelRuntime, row: ReplyRow, { drafts, change }: Composed): Promise<void> {
  for (const draft of drafts) {
    const { id, channel, conversation, trace = "", session, dueAt } = draft;
    const hop = { channel, trace, conversation, draft: id };
    await enqueueDraft(q, draft);
    if (change === null || session) {
      q.hop({ ...hop, name: "queued", session: session ?? null, dueAt });
      continue;
    }
    const { state, code, reason } = change;
    await changeDraft(q, id, change);
    q.hop({ ...hop, name: state === "held" ? "replyHeld" : "dropped", code });
    if (row.kind === "human")
      await line.escalation()?.undeliverable(q, line, { ...row, reply: row.id }, { state, reason });
  }
  if (change !== null) await refreshLane(q, row.conversation, "out");
}

/** An agent's answer, with the rows of its question. */
interface NewAnswer {
  readonly id: string;
  readonly turn: TurnRow;
  readonly conversation: ConversationRow;
  readonly text: string;
  readonly platformId: string | null;
  readonly transfer: boolean;
  /** Result of the adapter's `prepare` (JSON), or null. */
  readonly rendered: string | null;
  readonly clock: Clock;
  readonly log: Log;
}

/** Stores an agent's answer with its drafts, in the transaction that ends its question. When composing
 *  fails, the reply is stored as `ready`, and stage compose handles the failure. */
export async function composeAnswer(q: Query, line: ChannelRuntime, answer: NewAnswer): Promise<void> {
  const { id, turn, conversation, text, transfer, rendered, platformId, clock, log } = answer;
  const { channel } = line;
  const own = { id, conversation: conversation.id, channel, turn: turn.id, text };
  const row: ReplyRow = {
    ...own,
    kind: "answer",
    transfer: transfer ? 1 : 0,
    internal: 0,
    address: null,
    reason: null,
    rendered,
    // By the clock of the database, as when the turn was claimed: that of this node may be behind it.
    created_at: q.leases === null ? turn.received_at + turn.age : clock.now(),
  };
  const loaded = await load(q, line, row, turn, conversation);
  let written: Composed | null = null;
  try {
    written = composed(line, row, loaded, log);
  } catch (error) {
    log.warn({ channel, reply: own.id, err: error }, "composing an answer failed, stage compose retries it");
  }
  const reply = { ...own, platformId, transfer };
  if (written === null) return insertReply(q, { ...reply, rendered });
  await insertReply(q, { ...reply, state: "composed" });
  await enqueue(q, line, row, written);
  failpointOfCommit(q, "draft.commit", { channel });
}

async function load(
  q: Query,
  line: ChannelRuntime,
  row: ReplyRow,
  turn: ComposeFacts["turn"],
  conversation: ConversationRow,
): Promise<ComposeFacts> {
  const skill = skillOf(line);
  const introduces = row.kind === "answer" && (skill?.introduction ?? null) !== null;
  // Only replies written by a human have attachments.
  const hasFiles = row.kind === "human" && line.traits.attachments;
  return {
    turn,
    conversation,
    skill,
    isFirst: introduces && !(await hasEarlierReply(q, row.conversation)),
    files: hasFiles ? await filesOf(q, row.id) : [],
  };
}
