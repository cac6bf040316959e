// Decisions of stage compose: the drafts of a reply, as pure functions on loaded rows. The adapter's `compose` is pure, too.

import {
  fileRef,
  type Json,
  type Outbound,
  partKey,
  type Reply,
  type ReplyAttachment,
  sendKey,
  threadToken,
} from "bridgehead/contract";
import type { ChannelSettings } from "../../agent/calls.ts";
import { commandText } from "../../domain/command-text.ts";
import type { Address, NoticeAddress } from "../../domain/turn.ts";
import { answeredBefore } from "../../store/restored.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import type { NewDraft, ReplyRow } from "../../store/tables/drafts.ts";
import type { ReadyFile } from "../../store/tables/files.ts";
import type { TurnRow } from "../../store/tables/turns.ts";
import type { ChannelRules, ChannelRuntime } from "../channel-runtime.ts";
import { shadowCode, shadowReason } from "../send/decide.ts";

/** What a reply is composed from. */
export interface ComposeFacts {
  readonly turn: Pick<TurnRow, "address" | "received_at" | "trace"> | null;
  readonly conversation: ConversationRow;
  readonly skill: ChannelSettings | null;
  /** True when the agent has not replied in the conversation yet. */
  readonly isFirst: boolean;
  readonly files: readonly ReadyFile[];
}

/** Returns the change of a reply's drafts that are not sent, or null. Those to customers are held at once in shadow mode, so
 *  that a later change to live mode does not send them; notices, such as the confirmation of a STOP, would be outdated then and
 *  are dropped. Those of a reply that the lost state of a restored store may have sent are held. */
export function unsentChange(
  { kind, internal, reason }: Pick<ReplyRow, "kind" | "internal" | "reason">,
  mode: ChannelRules["mode"],
) {
  if (reason !== null) return { state: "held", open: 0, code: answeredBefore, reason } as const;
  if (mode !== "shadow" || internal === 1) return null;
  const state = kind === "notice" ? "dropped" : "held";
  return { state, open: 0, code: shadowCode, reason: shadowReason } as const;
}

/** The drafts of a reply; null when no form of it could be composed. `errors` are those of the adapter, one for each form
 *  that was tried before. */
export interface ComposedDrafts {
  readonly drafts: readonly NewDraft[] | null;
  /** The change of drafts that are not sent; null when they are. */
  readonly change: ReturnType<typeof unsentChange>;
  readonly errors: readonly unknown[];
}

/** Composes the drafts of a reply. Throws when the channel cannot send, or the reply has no recipient. */
export function draftsOf(line: ChannelRuntime, row: ReplyRow, loaded: ComposeFacts): ComposedDrafts {
  const { turn, conversation, skill } = loaded;
  if (!line.outbound) throw new Error(`composing for channel ${line.channel}: it cannot send`);
  const written = row.address ?? turn?.address;
  if (written === undefined) throw new Error(`composing reply ${row.id}: it has no recipient`);
  const address = JSON.parse(written) as Address & Partial<NoticeAddress>;
  const change = unsentChange(row, line.rules.mode);
  const { bodies, errors } = composed(line.outbound, line.config, dress(row, loaded, address));
  // Only an answer is delayed, as if it had been typed. A delay in a call would sound like a lost connection.
  const delay = row.kind === "answer" && !address.session ? Math.round((skill?.responseDelaySeconds ?? 0) * 1000) : 0;
  const drafts = bodies?.map((body, part) => ({
    id: partKey(sendKey(row.id), part),
    conversation: row.conversation,
    channel: row.channel,
    reply: row.id,
    recipient: (address.to[0]?.address ?? conversation.person).toLowerCase(),
    trace: turn?.trace ?? "",
    body,
    // A turn that was received after its answer is from a clock that was ahead.
    dueAt: Math.min(turn?.received_at ?? row.created_at, row.created_at) + delay,
    isDue: turn !== null && delay === 0,
    forced: address.forced === true,
    internal: row.internal === 1,
    session: address.session,
  }));
  return { drafts: drafts ?? null, change, errors };
}

/** A text of this length, in characters, is within the limits of every channel that splits or carries long texts. */
const fallbackLength = 10_000;
const notComposed = (config: string | undefined): string =>
  `This notification could not be composed. See: ${commandText("escalation list --state open", config)}`;

interface ComposedBodies {
  /** As JSON. */
  readonly bodies: readonly string[] | null;
  readonly errors: readonly unknown[];
}

/** Returns the adapter's drafts. When `compose` throws or returns none, a plain and shortened text is composed. This
 *  keeps answers and notifications deliverable when quoted content breaks the formatting. For a
 *  notification a fixed text is the last fallback. `bodies` is null when every form fails. */
function composed(outbound: Outbound, config: string | undefined, reply: Reply): ComposedBodies {
  const { rendered: _rendered, ...words } = reply;
  const bare = { ...words, plain: true, signature: null, introduction: null } as const;
  const subject = () => reply.subject && shortened(reply.subject, 200);
  const forms: (() => Reply)[] = [() => reply, () => ({ ...bare, text: shortened(reply.text), subject: subject() })];
  if (reply.kind === "notice") forms.push(() => ({ ...bare, text: notComposed(config), subject: null }));
  const errors: unknown[] = [];
  for (const form of forms) {
    try {
      const drafts: unknown = outbound.compose(form());
      const bodies = Array.isArray(drafts) ? drafts.map((draft) => JSON.stringify(draft)) : [];
      // A reply without a draft would end unsent and unnoticed.
      if (bodies.length === 0) throw new Error("compose of the adapter returned no draft");
      if (bodies.some((body: unknown) => body === undefined))
        throw new Error("compose of the adapter returned a draft that is no JSON");
      return { bodies, errors };
    } catch (error) {
      errors.push(error);
    }
  }
  return { bodies: null, errors };
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

const attachmentOf = ({ name, media_type, size, blob }: ReadyFile): ReplyAttachment => ({
  name,
  mediaType: media_type,
  size,
  ref: fileRef(blob),
});
