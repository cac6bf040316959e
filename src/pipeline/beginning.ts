// A conversation that begins with us: what an operator's command leaves in the store for the daemon to find. The turn is
// asked like any other, only that there is no question: the platform's conversation is opened, then our first words go out.

import type { Clock } from "bridgehead/contract";
import { firstTo } from "../domain/address.ts";
import { type Opening, writeOpening } from "../domain/opening.ts";
import { newId, newToken } from "../ops/clock.ts";
import { addParticipant, insertConversation } from "../store/conversations.ts";
import type { Query } from "../store/driver.ts";
import { enqueueTurn } from "../store/turns.ts";

export interface Begun {
  readonly conversation: string;
  readonly turn: string;
}

/** Every call is one opening. `address`: canonical, as the channel's adapter has it. */
export async function begin(
  q: Query,
  clock: Clock,
  wanted: {
    readonly channel: string;
    readonly agent: string;
    readonly address: string;
    readonly name: string | null;
    readonly opening: Opening;
  },
): Promise<Begun> {
  const { channel, agent, address, name, opening } = wanted;
  const now = clock.now();
  const begun = { conversation: newId(now), turn: newId(now) };
  const person = address.toLowerCase();
  await insertConversation(q, {
    id: begun.conversation,
    channel,
    agent,
    person,
    person_name: name,
    subject: opening.subject,
    token: newToken(),
  });
  await addParticipant(q, begun.conversation, person);
  await enqueueTurn(q, {
    id: begun.turn,
    conversation: begun.conversation,
    channel,
    person,
    event: null,
    question: "",
    context: null,
    address: JSON.stringify(firstTo({ address, ...(name === null ? {} : { name }) }, opening.subject)),
    receivedAt: now,
    opening: writeOpening(opening),
  });
  return begun;
}
