// Stage compose. Input: replies in state `ready`. Effect: formats them for the channel: signature, sender name,
// threading, splitting. Calls the adapter's `compose`, which is pure. Output: immutable drafts, `queued` in order in
// the conversation's outbound lane, due at max(received + delay, now). Failure: a shortened plain text is composed. If
// that fails too, the reply is `failed` and the error is logged. Crash: the reply is still `ready`.

import {
  type Clock,
  fileRef,
  type Json,
  type Log,
  type Party,
  partKey,
  type Reply,
  type ReplyAttachment,
  sendKey,
  threadToken,
} from "bridgehead/contract";
import type { ChannelSettings } from "../../agent/calls.ts";
import type { Address, NoticeAddress } from "../../domain/turn.ts";
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
import { filesOf, type ReadyFile } from "../../store/tables/files.ts";
import { readTurn, type TurnRow } from "../../store/tables/turns.ts";
import { type ChannelRuntime, type ChannelRuntimes, skillOf } from "../channel-runtime.ts";
import { shadowCode, shadowReason } from "../send/decide.ts";

const batch = 200;

export function composeStage(deps: { lines: () => ChannelRuntimes; log: Log }): TransactionalStage {
  return {
    takes: "replies",
    async run(q, channels) {
      for (const channel of channels ?? []) {
        const line = deps.lines().get(channel);
        if (!line || !(await lockChannel(q, channel))) continue;
        for (const row of await readyReplies(q, channel, batch)) {
          await q
            .savepoint(() => compose(q, line, row, deps.log))
            .catch(async (error: unknown) => {
              deps.log.error({ channel, reply: row.id, err: error }, "composing a reply failed");
              await changeReply(q, row.id, "failed", String(error));
              await listFailed(q, row, String(error));
              await line.escalation()?.undeliverable(q, line, { ...row, reply: row.id }, failed(error));
            });
        }
        failpointOfCommit(q, "draft.commit", { channel });
      }
      return [];
    },
  };
}

const failed = (error: unknown) => ({ state: "failed", reason: String(error) }) as const;

/** The customer waits for an answer that needs an operator. `inbox` lists the message and can retry it. */
async function listFailed(q: Query, row: ReplyRow, reason: string): Promise<void> {
  if (row.turn === null) return;
  const outcome = { state: "failed", code: "not-composed", reason } as const;
  await recordOutcomesOf(q, row.turn, outcome);
  reportUnanswered(q, await readTurn(q, row.turn), outcome);
}

/** What a reply is composed from. */
interface ComposeFacts {
  readonly turn: Pick<TurnRow, "address" | "received_at" | "trace"> | null;
  readonly conversation: ConversationRow;
  readonly skill: ChannelSettings | null;
  /** True when the agent has not replied in the conversation yet. */
  readonly isFirst: boolean;
  readonly files: readonly ReadyFile[];
}

async function compose(q: Query, line: ChannelRuntime, row: ReplyRow, log: Log): Promise<void> {
  const turn = row.turn === null ? null : await readTurn(q, row.turn);
  const conversation = await readConversation(q, row.conversation);
  const drafts = draftsOf(line, row, await load(q, line, row, turn, conversation), log);
  await enqueue(q, line, row, drafts);
  await changeReply(q, row.id, "composed", null);
}

/** Enqueues the drafts of a reply. In shadow mode those to customers are held at once, so that a later change to
 *  live mode does not send them; notices, such as the confirmation of a STOP, would be outdated then and are
 *  dropped. The author of a human's reply is notified. A call that is still running in shadow mode continues. */
async function enqueue(q: Query, line: ChannelRuntime, row: ReplyRow, drafts: readonly NewDraft[]): Promise<void> {
  const isShadow = line.rules.mode === "shadow" && row.internal !== 1;
  const state = row.kind === "notice" ? "dropped" : "held";
  for (const draft of drafts) {
    const { id, channel, conversation, trace = "", session, dueAt } = draft;
    const hop = { channel, trace, conversation, draft: id };
    await enqueueDraft(q, draft);
    if (!isShadow || session) {
      q.hop({ ...hop, name: "queued", session: session ?? null, dueAt });
      continue;
    }
    await changeDraft(q, id, { state, open: 0, code: shadowCode, reason: shadowReason });
    q.hop({ ...hop, name: state === "held" ? "replyHeld" : "dropped", code: shadowCode });
    if (row.kind === "human")
      await line.escalation()?.undeliverable(q, line, { ...row, reply: row.id }, { state, reason: shadowReason });
  }
  if (isShadow) await refreshLane(q, row.conversation, "out");
}

/** An agent's answer, with the rows of its question. */
interface NewAnswer {
  /** Id of the reply. */
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
    rendered,
    created_at: clock.now(),
  };
  const loaded = await load(q, line, row, turn, conversation);
  let drafts: readonly NewDraft[] | null = null;
  try {
    drafts = draftsOf(line, row, loaded, log);
  } catch (error) {
    log.warn({ channel, reply: own.id, err: error }, "composing an answer failed, stage compose retries it");
  }
  const reply = { ...own, platformId, transfer };
  if (drafts === null) return insertReply(q, { ...reply, rendered });
  await insertReply(q, { ...reply, state: "composed" });
  await enqueue(q, line, row, drafts);
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
    isFirst: introduces && !(await hasEarlierReply(q, row.conversation, row.id)),
    files: hasFiles ? await filesOf(q, row.id) : [],
  };
}

function draftsOf(line: ChannelRuntime, row: ReplyRow, loaded: ComposeFacts, log: Log): readonly NewDraft[] {
  const { turn, conversation, skill } = loaded;
  if (!line.outbound) throw new Error(`composing for channel ${line.channel}: it cannot send`);
  const written = row.address ?? turn?.address;
  if (written === undefined) throw new Error(`composing reply ${row.id}: it has no recipient`);
  const address = JSON.parse(written) as Address & Partial<NoticeAddress>;
  const bodies = composed(line.outbound, dress(row, loaded, address), { log, channel: line.channel });
  // Only an answer is delayed, as if it had been typed. A delay in a call would sound like a lost connection.
  const delay = row.kind === "answer" && !address.session ? (skill?.responseDelaySeconds ?? 0) * 1000 : 0;
  return bodies.map((body, part) => ({
    id: partKey(sendKey(row.id), part),
    conversation: row.conversation,
    channel: row.channel,
    reply: row.id,
    recipient: recipientOf(address.to, conversation),
    trace: turn?.trace ?? "",
    body: JSON.stringify(body satisfies Json),
    // A turn that was received after its answer is from a clock that was ahead.
    dueAt: Math.min(turn?.received_at ?? row.created_at, row.created_at) + delay,
    isDue: turn !== null && delay === 0,
    forced: address.forced === true,
    internal: row.internal === 1,
    session: address.session,
  }));
}

/** A text of this length, in characters, is within the limits of every channel that splits or carries long texts. */
const fallbackLength = 10_000;
const notComposed = "This notification could not be composed. See: bridgehead escalation list --state open";

/** Returns the adapter's drafts. When `compose` throws, a plain and shortened text is composed. This
 *  keeps answers and notifications deliverable when quoted content breaks the formatting. For a
 *  notification a fixed text is the last fallback. Throws when every form fails. */
function composed(
  outbound: NonNullable<ChannelRuntime["outbound"]>,
  reply: Reply,
  { log, channel }: { readonly log: Log; readonly channel: string },
): ReturnType<NonNullable<ChannelRuntime["outbound"]>["compose"]> {
  const { rendered: _rendered, ...words } = reply;
  const bare = { ...words, plain: true, signature: null, introduction: null } as const;
  const subject = () => reply.subject && shortened(reply.subject, 200);
  const forms: (() => Reply)[] = [() => reply, () => ({ ...bare, text: shortened(reply.text), subject: subject() })];
  if (reply.kind === "notice") forms.push(() => ({ ...bare, text: notComposed, subject: null }));
  let last: unknown;
  for (const form of forms) {
    try {
      return outbound.compose(form());
    } catch (error) {
      last = error;
      log.error({ channel, err: error }, "composing a reply failed, trying a plain text");
    }
  }
  throw last;
}

/** Removes control characters and truncates the text; `[...]` marks the truncation. */
function shortened(text: string, length = fallbackLength): string {
  const visible = text.replace(/[^\P{C}\n\t]/gu, " ");
  return visible.length <= length ? visible : `${visible.slice(0, length).toWellFormed()} [...]`;
}

function dress(row: ReplyRow, { conversation, skill, isFirst, files }: ComposeFacts, address: Address): Reply {
  const answer = row.kind === "answer" || row.kind === "human";
  return {
    kind: row.kind === "human" ? "answer" : row.kind,
    ...(row.kind === "human" ? { byHuman: true as const } : {}),
    ...(row.transfer === 1 ? { transfer: true as const } : {}),
    key: sendKey(row.id),
    createdAt: new Date(row.created_at),
    ...(conversation.via === null ? {} : { from: conversation.via }),
    to: address.to,
    cc: address.cc,
    // An empty subject counts as no subject.
    subject: address.subject || skill?.defaultSubject || null,
    text: row.text,
    ...(row.kind === "notice" || row.kind === "human" ? { plain: true as const } : {}),
    ...(row.rendered === null ? {} : { rendered: JSON.parse(row.rendered) as Json }),
    ...(files.length === 0 ? {} : { attachments: files.map(attachmentOf) }),
    signature: answer ? (skill?.signature ?? null) : null,
    introduction: isFirst ? (skill?.introduction ?? null) : null,
    senderName: skill?.senderName ?? null,
    answers: address.answers,
    history: address.history,
    token: threadToken(conversation.token),
    hops: address.hops,
    session: address.session,
  };
}

const recipientOf = (to: readonly Party[], conversation: ConversationRow): string =>
  (to[0]?.address ?? conversation.person).toLowerCase();

const attachmentOf = ({ name, media_type, size, blob }: ReadyFile): ReplyAttachment => ({
  name,
  mediaType: media_type,
  size,
  ref: fileRef(blob),
});
