// Delivers external messages of the platform's conversation. Each goes to the customer once, on the channel
// of the question. A human's answer acknowledges the escalation.

import type { Clock, Log } from "bridgehead/contract";
import type { PlatformMessage, PlatformMessages } from "../../agent/calls.ts";
import type { Policy } from "../../domain/policy.ts";
import { newId } from "../../ops/clock.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { Raised } from "../../pipeline/escalation.ts";
import type { Query } from "../../store/driver.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import { insertReply } from "../../store/tables/drafts.ts";
import { liveEscalation } from "../../store/tables/escalations.ts";
import { dropWaitingAnswers } from "../../store/tables/takeover.ts";
import { platformIds } from "../../store/tables/turns.ts";
import { acknowledge, addressOf, close } from "../actions.ts";
import { readCustomer } from "../reply/rows.ts";
import { aboutConversation, logUnnotified, raise } from "../trigger/stage.ts";
import { externalMessages } from "./decide.ts";
import { knownTurns, type PollRow } from "./rows.ts";

/** The actor for answers in the platform's interface, which does not name the author. */
const somebody = { name: "somebody who answers on the platform", contact: null };

interface Poll {
  readonly line: ChannelRuntime;
  readonly watch: PollRow;
  readonly conversation: ConversationRow;
  readonly platformId: string;
}

/** Call with the inbound lane leased and idle. Every answer to our own questions then has a known
 *  platform id. */
export async function deliverExternal(
  q: Query,
  poll: Poll,
  read: PlatformMessages,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<void> {
  const { conversation, line, watch } = poll;
  const fields = { channel: line.channel, conversation: conversation.id };
  const known = await platformIds(q, poll.platformId, "");
  const turns = await knownTurns(q, conversation.id);
  const { deliver, record } = externalMessages(watch, read, known, turns);
  // Replies go out in the order of their ids, so the replies of one poll must not share a millisecond.
  let now = clock.now();
  for (const message of record)
    await insertReply(q, { ...replyFor(conversation, message, now++), state: "composed" });
  if (record.length > 0)
    log.warn(
      { ...fields, messages: record.length },
      "platform messages not delivered: the store was restored",
    );
  if (deliver.length === 0) return;
  const customer = await readCustomer(q, conversation.id);
  const isCall = line.traits.platform === "voice";
  if (customer === null || (isCall && customer.session === null)) return;
  const address = JSON.stringify({
    ...addressOf(customer),
    ...(isCall ? { session: customer.session } : {}),
  });
  for (const message of deliver) {
    await insertReply(q, { ...replyFor(conversation, message, now++), address });
    log.info(fields, "external platform message enqueued");
  }
  if (!deliver.some(({ role }) => role === "human")) return;
  const open = await liveEscalation(q, aboutConversation(conversation.id));
  if (open?.state === "open") await acknowledge(q, open, somebody, { clock, log });
}

const replyFor = (
  { id: conversation, channel }: ConversationRow,
  { id, role, text }: PlatformMessage,
  now: number,
) => ({
  id: newId(now),
  conversation,
  channel,
  turn: null,
  kind: role === "human" ? ("human" as const) : ("answer" as const),
  text,
  platformId: id,
});

interface Look {
  readonly line: ChannelRuntime;
  readonly watch: PollRow;
  readonly conversation: ConversationRow;
}

/** `mark`: id of the newest message. It distinguishes two changes to manual mode in one conversation. */
export async function noteModeChange(
  q: Query,
  look: Look,
  mode: "ai" | "manual",
  mark: string | null,
  deps: { readonly policy: () => Policy | null; readonly clock: Clock; readonly log: Log },
): Promise<void> {
  const { line, watch, conversation } = look;
  if (mode === "manual" && watch.mode !== "manual") {
    const spoken = new Set((line.settings()?.escalations ?? []).map(({ response }) => response.trim()));
    await dropWaitingAnswers(q, conversation.id, "a person has the conversation", spoken);
    const policy = deps.policy();
    const raised: Raised = {
      key: `mode:${conversation.id}:${mark ?? ""}`,
      source: "mode",
      cause: "topic",
      channel: line.channel,
      agent: line.agent,
      conversation: conversation.id,
      topic: null,
      reason: "the platform has given the conversation to a human (manual mode)",
    };
    if (policy === null) return logUnnotified(deps.log, raised);
    if (policy.causes.includes("topic")) await raise(q, raised, deps);
  }
  if (mode === "ai" && watch.mode === "manual") {
    const row = await liveEscalation(q, aboutConversation(conversation.id));
    // Mode ai does not close an unacknowledged escalation whose cause is unknown to the platform.
    if (row && (row.state === "taken" || row.cause === "topic" || row.cause === "silent"))
      await close(q, row, "the platform (mode ai)", deps);
  }
}
