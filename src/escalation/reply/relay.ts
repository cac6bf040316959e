// Relays a responder's text to the customer: on the channel of the question, in its thread and under the
// agent's name, and to the platform as a manual message. One transaction enqueues both; each is sent
// exactly once.

import type { Clock, Log, Traits } from "bridgehead/contract";
import { type Address, firstTo } from "../../domain/address.ts";
import { newId } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import { type ConversationRow, readConversation } from "../../store/tables/conversations.ts";
import { insertReply } from "../../store/tables/drafts.ts";
import { insertFiles, type ReadyFile } from "../../store/tables/files.ts";
import { openSession } from "../../store/tables/sessions.ts";
import { dropWaitingAnswers, unblock } from "../../store/tables/takeover.ts";
import { enqueueTurn, newestAddress } from "../../store/tables/turns.ts";
import { namesOf } from "./files.ts";

export interface RelayDeps {
  /** Returns the kind of the channel; null when it cannot send. */
  readonly kindOf: (channel: string) => Traits["platform"] | null;
  readonly clock: Clock;
  readonly log: Log;
}

/** Content for the customer. Files without a text are sent with their names as the text. */
export interface Words {
  readonly text: string;
  /** Set only where the channel supports attachments. */
  readonly files?: readonly ReadyFile[];
}

/** Returns null when the text is enqueued, otherwise the reason for the responder. */
export async function relay(
  q: Query,
  about: { readonly conversation: string | null },
  words: Words,
  deps: RelayDeps,
): Promise<string | null> {
  if (about.conversation === null) return "it is about a channel, so there is no customer to answer";
  const conversation = await readConversation(q, about.conversation);
  const kind = deps.kindOf(conversation.channel);
  if (kind === null) return `channel ${conversation.channel} cannot send now`;
  const names = namesOf(words.files ?? []);
  const text = words.text || names;
  if (kind === "voice") return speak(q, conversation, text, deps);
  await dropWaitingAnswers(q, conversation.id, "a person has answered");
  await unblock(q, conversation.id);
  const address = await addressOf(q, conversation);
  const turn = newId(deps.clock.now());
  await enqueueTurn(q, {
    id: turn,
    conversation: conversation.id,
    channel: conversation.channel,
    person: conversation.person,
    kind: "relayed",
    event: null,
    // The platform receives only the names of the files.
    question: [words.text, names].filter((part) => part !== "").join("\n\n"),
    context: null,
    address: JSON.stringify(address),
    receivedAt: deps.clock.now(),
  });
  await say(q, conversation, { ...words, text, address, turn }, deps);
  return null;
}

/** Speaks the text in the current call, or fails when the call is over. The External API has no manual
 *  messages for calls. */
async function speak(
  q: Query,
  conversation: ConversationRow,
  text: string,
  deps: RelayDeps,
): Promise<string | null> {
  const session = await openSession(q, conversation.id);
  if (session === null) return `the call is over; the number is ${conversation.person}`;
  const address = {
    ...firstTo({ address: conversation.person }, null),
    session: session as Address["session"],
  };
  await say(q, conversation, { text, address, turn: null }, deps);
  return null;
}

async function say(
  q: Query,
  conversation: ConversationRow,
  words: Words & { readonly address: Address; readonly turn: string | null },
  deps: RelayDeps,
): Promise<void> {
  const id = newId(deps.clock.now());
  await insertReply(q, {
    id,
    conversation: conversation.id,
    channel: conversation.channel,
    turn: words.turn,
    kind: "human",
    address: JSON.stringify(words.address),
    text: words.text,
    platformId: null,
  });
  await insertFiles(q, id, words.files ?? []);
  deps.log.info({ channel: conversation.channel, conversation: conversation.id }, "a person's words go out");
}

/** Returns the address of the customer's newest message. Later writers in the thread are not included. */
export async function addressOf(q: Query, conversation: ConversationRow): Promise<Address> {
  const written = await newestAddress(q, conversation.id);
  return written === null
    ? firstTo({ address: conversation.person }, conversation.subject)
    : (JSON.parse(written) as Address);
}
