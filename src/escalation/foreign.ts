// Messages that appear on the platform from elsewhere (a person who answers in its own interface, something scheduled):
// they go to the customer on the channel where the question was asked, each once. A person's answer takes the escalation.

import type { Clock, Log } from "bridgehead/contract";
import type { PlatformMessage, PlatformMessages } from "../agent/calls.ts";
import { squeeze } from "../domain/squeeze.ts";
import { newId } from "../ops/clock.ts";
import type { Line } from "../pipeline/line.ts";
import type { ConversationRow } from "../store/conversations.ts";
import { insertReply } from "../store/drafts.ts";
import type { Query } from "../store/driver.ts";
import { liveEscalation } from "../store/escalations.ts";
import { openSession } from "../store/sessions.ts";
import { platformIds } from "../store/turns.ts";
import {
  allKnown,
  doubtfulWords,
  repeatedQuestions,
  unwantedQuestions,
  type WatchRow,
} from "../store/watches.ts";
import { aboutConversation } from "./raise.ts";
import { addressOf } from "./relay.ts";
import { take } from "./take.ts";

/** Whoever answers in the platform's own interface: it does not say who that is. */
const somebody = { name: "somebody who answers on the platform", contact: null };

interface Look {
  readonly line: Line;
  readonly watch: WatchRow;
  readonly conversation: ConversationRow;
  readonly platformId: string;
}

/** Call with the inbound lane leased and idle: whatever is an answer of ours is known by its id then. */
export async function deliverForeign(
  q: Query,
  look: Look,
  { messages: said, start }: PlatformMessages,
  deps: { readonly clock: Clock; readonly log: Log },
): Promise<void> {
  const { conversation, line, watch } = look;
  const known = await platformIds(q, look.platformId, "");
  const unwanted = await unwantedQuestions(q, conversation.id);
  // Put once more, or given up, because they were not there: the first may come to light, and the customer has them.
  const doubtful = new Set((await doubtfulWords(q, conversation.id)).map(squeeze));
  // The same of a question that was asked once more and is answered: the customer has one answer to it.
  const repeated = new Set((await repeatedQuestions(q, conversation.id)).map(squeeze));
  const copies = said.filter(
    ({ id, role, text }) => role === "person" && !known.has(id) && repeated.has(squeeze(text)),
  );
  for (const { id } of copies) unwanted.add(id);
  const marked = watch.mark === null ? -1 : said.findIndex(({ id }) => id === watch.mark);
  // At the first look, and when the mark is gone, what the agent has said is taken for known: an introduction has no id
  // of ours. A person's words are new from our first question on: the platform may have gone on with an old conversation.
  // A part that does not begin with the conversation follows one with our first question.
  const begun = said.findIndex(({ id }) => known.has(id));
  const isOurs = (at: number) => start > 0 || (begun >= 0 && at > begun);
  const isNew = ({ role }: PlatformMessage, at: number) =>
    (role === "human" && isOurs(at)) || (role === "agent" && marked >= 0 && at > marked);
  // Replies go out in the order of their ids: those of one look must not share a millisecond.
  let now = deps.clock.now();
  if (watch.position === allKnown) {
    // Written down as ours, for each later look would take a person's words for new.
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
