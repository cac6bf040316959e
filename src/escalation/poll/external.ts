// Delivers external messages: messages that appear on the platform without a request by this daemon, such
// as a human's answer in the platform's interface or a scheduled message. Each goes to the customer once,
// on the channel of the question. A human's answer acknowledges the escalation.

import type { Clock, Log } from "bridgehead/contract";
import type { PlatformMessage, PlatformMessages } from "../../agent/calls.ts";
import { squeeze } from "../../domain/squeeze.ts";
import { newId } from "../../ops/clock.ts";
import type { ChannelRuntime } from "../../pipeline/channel-runtime.ts";
import type { Query } from "../../store/driver.ts";
import type { ConversationRow } from "../../store/tables/conversations.ts";
import { insertReply } from "../../store/tables/drafts.ts";
import { liveEscalation } from "../../store/tables/escalations.ts";
import { openSession } from "../../store/tables/sessions.ts";
import { platformIds } from "../../store/tables/turns.ts";
import {
  allKnown,
  doubtfulWords,
  repeatedQuestions,
  unwantedQuestions,
  type WatchRow,
} from "../../store/tables/watches.ts";
import { take } from "../reply/acknowledge.ts";
import { addressOf } from "../reply/relay.ts";
import { aboutConversation } from "../trigger/open.ts";

/** The actor for answers in the platform's interface, which does not name the author. */
const somebody = { name: "somebody who answers on the platform", contact: null };

interface Look {
  readonly line: ChannelRuntime;
  readonly watch: WatchRow;
  readonly conversation: ConversationRow;
  readonly platformId: string;
}

/** Call with the inbound lane leased and idle. Every answer to our own questions then has a known
 *  platform id. */
export async function deliverForeign(
  q: Query,
  look: Look,
  { messages: said, start }: PlatformMessages,
  deps: { readonly clock: Clock; readonly log: Log },
): Promise<void> {
  const { conversation, line, watch } = look;
  const known = await platformIds(q, look.platformId, "");
  const unwanted = await unwantedQuestions(q, conversation.id);
  // Texts that were posted again, or given up, because the platform did not list them. The first copy may
  // appear later, and the customer already has the text.
  const doubtful = new Set((await doubtfulWords(q, conversation.id)).map(squeeze));
  // Questions that were asked again and are answered. The customer already has one answer to each.
  const repeated = new Set((await repeatedQuestions(q, conversation.id)).map(squeeze));
  const copies = said.filter(
    ({ id, role, text }) => role === "person" && !known.has(id) && repeated.has(squeeze(text)),
  );
  for (const { id } of copies) unwanted.add(id);
  const marked = watch.mark === null ? -1 : said.findIndex(({ id }) => id === watch.mark);
  // At the first poll, and when the mark is gone, agent messages count as known: the daemon has no id for
  // an introduction. A human's messages count as new after our first question, because the platform may
  // have continued an old conversation. A partial read that does not start with the conversation comes
  // after our first question.
  const begun = said.findIndex(({ id }) => known.has(id));
  const isOurs = (at: number) => start > 0 || (begun >= 0 && at > begun);
  const isNew = ({ role }: PlatformMessage, at: number) =>
    (role === "human" && isOurs(at)) || (role === "agent" && marked >= 0 && at > marked);
  // Replies go out in the order of their ids, so the replies of one poll must not share a millisecond.
  let now = deps.clock.now();
  if (watch.position === allKnown) {
    // Recorded as known messages: otherwise each later poll would treat a human's messages as new.
    const sent = said.filter(({ id, role }, at) => role !== "person" && isOurs(at) && !known.has(id));
    for (const message of sent)
      await insertReply(q, { ...replyFor(look, message, now++), state: "composed" });
    const fields = { channel: line.channel, conversation: conversation.id, messages: sent.length };
    if (sent.length > 0)
      deps.log.warn(fields, "messages on the platform are not delivered: the store was restored");
    return;
  }
  for (const [at, message] of said.entries()) {
    if (known.has(message.id) || !isNew(message, at) || message.text.trim() === "") continue;
    if (message.answers !== null && unwanted.has(message.answers)) continue;
    if (message.role === "human" && doubtful.has(squeeze(message.text))) continue;
    const address = await addressOf(q, conversation);
    const call = line.traits.platform === "voice" ? await openSession(q, conversation.id) : null;
    if (line.traits.platform === "voice" && call === null) continue;
    await insertReply(q, {
      ...replyFor(look, message, now++),
      address: JSON.stringify(call === null ? address : { ...address, session: call }),
    });
    deps.log.info(
      { channel: line.channel, conversation: conversation.id },
      "a message from elsewhere goes out",
    );
    if (message.role !== "human") continue;
    const open = await liveEscalation(q, aboutConversation(conversation.id));
    if (open?.state === "open") await take(q, open, somebody, deps);
  }
}

const replyFor = ({ conversation }: Look, { id, role, text }: PlatformMessage, now: number) => ({
  id: newId(now),
  conversation: conversation.id,
  channel: conversation.channel,
  turn: null,
  kind: role === "human" ? ("human" as const) : ("answer" as const),
  text,
  platformId: id,
});
