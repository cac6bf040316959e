// Stage compose.
// Input: replies in state `ready`.
// Effect: formats them for the channel: signature, sender name, threading, splitting. Calls the adapter's
// `compose`, which is pure.
// Output: immutable drafts, `queued` in order in the conversation's outbound lane, due at max(received +
// delay, now).
// Failure: a shortened plain text is composed. If that fails too, the reply is `failed` and the error is
// logged.
// Crash: the reply is still `ready`.

import {
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
import type { Address, NoticeAddress } from "../../domain/address.ts";
import type { TransactionalStage } from "../../engine/stage.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Query } from "../../store/driver.ts";
import { type ConversationRow, readConversation } from "../../store/tables/conversations.ts";
import {
  changeReply,
  channelsToCompose,
  enqueueDraft,
  hasEarlierReply,
  type ReplyRow,
  readyReplies,
} from "../../store/tables/drafts.ts";
import { lockChannel, settleEventsOf } from "../../store/tables/events.ts";
import { filesOf } from "../../store/tables/files.ts";
import { readTurn } from "../../store/tables/turns.ts";
import { type ChannelRuntime, type ChannelRuntimes, skillOf } from "../channel-runtime.ts";

const batch = 200;

export function composeStage(deps: { lines: () => ChannelRuntimes; log: Log }): TransactionalStage {
  return {
    takes: "replies",
    async run(q) {
      const committed: (() => void)[] = [];
      for (const channel of await channelsToCompose(q)) {
        const line = deps.lines().get(channel);
        if (!line || !(await lockChannel(q, channel))) continue;
        for (const row of await readyReplies(q, channel, batch)) {
          await q
            .savepoint(() => compose(q, line, row, deps.log))
            .catch(async (error: unknown) => {
              deps.log.error({ channel, reply: row.id, err: error }, "composing a reply failed");
              await changeReply(q, row.id, "failed", String(error));
              await listFailed(q, row, String(error));
              await line.escalation()?.stuck(q, line, { ...row, reply: row.id }, failed(error));
            });
        }
        failpoint("draft.commit", "before", { channel });
        committed.push(() => failpoint("draft.commit", "after", { channel }));
      }
      return committed;
    },
  };
}

const failed = (error: unknown) => ({ state: "failed", reason: String(error) }) as const;

/** The customer waits for an answer that needs an operator. `inbox` lists the message and can retry it. */
async function listFailed(q: Query, row: ReplyRow, reason: string): Promise<void> {
  if (row.turn !== null) await settleEventsOf(q, row.turn, { state: "failed", code: "not-composed", reason });
}

async function compose(q: Query, line: ChannelRuntime, row: ReplyRow, log: Log): Promise<void> {
  if (!line.outbound) throw new Error(`composing for channel ${line.channel}: it cannot send`);
  const turn = row.turn === null ? null : await readTurn(q, row.turn);
  const conversation = await readConversation(q, row.conversation);
  const written = row.address ?? turn?.address;
  if (written === undefined) throw new Error(`composing reply ${row.id}: it goes to nobody`);
  const address = JSON.parse(written) as Address & Partial<NoticeAddress>;
  const drafts = composed(line.outbound, await dress(q, line, row, conversation, address), {
    log,
    channel: line.channel,
  });
  // Only an answer is delayed, as if it had been typed. A delay in a call would sound like a lost
  // connection.
  const delay =
    row.kind === "answer" && !address.session ? (skillOf(line)?.responseDelaySeconds ?? 0) * 1000 : 0;
  const dueAt = (turn?.received_at ?? row.created_at) + delay;
  for (const [part, body] of drafts.entries()) {
    await enqueueDraft(q, {
      id: partKey(sendKey(row.id), part),
      conversation: row.conversation,
      channel: row.channel,
      reply: row.id,
      recipient: recipientOf(address.to, conversation),
      body: JSON.stringify(body satisfies Json),
      dueAt,
      forced: address.forced === true,
      session: address.session,
    });
  }
  await changeReply(q, row.id, "composed", null);
}

/** A text of this length, in characters, is within the limits of every channel that splits or carries
 *  long texts. */
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
  const short = {
    ...bare,
    text: shortened(reply.text),
    subject: reply.subject && shortened(reply.subject, 200),
  };
  const forms: Reply[] = [reply, short];
  if (reply.kind === "notice") forms.push({ ...bare, text: notComposed, subject: null });
  let last: unknown;
  for (const form of forms) {
    try {
      return outbound.compose(form);
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

async function dress(
  q: Query,
  line: ChannelRuntime,
  row: ReplyRow,
  conversation: ConversationRow,
  address: Address,
): Promise<Reply> {
  const skill = skillOf(line);
  const answer = row.kind === "answer" || row.kind === "human";
  const first = row.kind === "answer" && !(await hasEarlierReply(q, row.conversation, row.id));
  return {
    kind: row.kind === "human" ? "answer" : row.kind,
    ...(row.kind === "human" ? { byHuman: true as const } : {}),
    ...(row.hand_over === 1 ? { handOver: true as const } : {}),
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
    ...(await attachmentsOf(q, line, row)),
    signature: answer ? (skill?.signature ?? null) : null,
    introduction: first ? (skill?.introduction ?? null) : null,
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

/** Only replies written by a human have attachments. */
async function attachmentsOf(
  q: Query,
  line: ChannelRuntime,
  { id, kind }: ReplyRow,
): Promise<{ readonly attachments?: readonly ReplyAttachment[] }> {
  if (kind !== "human" || !line.traits.attachments) return {};
  const files = await filesOf(q, id);
  if (files.length === 0) return {};
  return {
    attachments: files.map(({ name, media_type, size, blob }) => ({
      name,
      mediaType: media_type,
      size,
      ref: fileRef(blob),
    })),
  };
}
