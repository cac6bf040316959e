// A conversation that begins with us: what an operator's command leaves in the store for the daemon to find. The turn is
// asked like any other, only that there is no question: the platform's conversation is opened, then our first words go out.

import type { Clock } from "bridgehead/contract";
import { firstTo } from "../domain/address.ts";
import { type Opening, readOpening, writeOpening } from "../domain/opening.ts";
import { newId, newToken } from "../ops/clock.ts";
import { addParticipant, insertConversation } from "../store/conversations.ts";
import type { Query } from "../store/driver.ts";
import { type OpeningOutcome, openingOutcome, recentOpenings } from "../store/openings.ts";
import { enqueueTurn } from "../store/turns.ts";

export interface Begun {
  readonly conversation: string;
  readonly turn: string;
}

/** What a person would be sent twice. */
export interface Repeated extends Begun {
  /** Milliseconds. */
  readonly ago: number;
  readonly state: OpeningOutcome["state"];
}

/** Within this time the same words are taken for the same command, run twice. */
const sameMs = 600_000;

/** The conversation in which the same words are on their way to that person, or have been sent, within the last ten
 *  minutes; null when there is none, or when all of them failed. `defaults`: the agent's own words, for openings that
 *  leave them out. Call it in the transaction that calls `begin`; the channel's row must exist. */
export async function begunBefore(
  q: Query,
  wanted: { readonly channel: string; readonly address: string; readonly opening: Opening },
  defaults: { readonly introduction: string | null; readonly subject: string | null },
): Promise<Repeated | null> {
  const words = ({ introduction, subject }: Opening) =>
    JSON.stringify([
      (introduction ?? defaults.introduction ?? "").trim(),
      (subject ?? defaults.subject ?? "").trim(),
    ]);
  const person = wanted.address.toLowerCase();
  for (const { turn, conversation, ago, opening } of await recentOpenings(
    q,
    wanted.channel,
    person,
    sameMs,
  )) {
    const earlier = readOpening(opening);
    if (!earlier.speak || words(earlier) !== words(wanted.opening)) continue;
    const { state } = await openingOutcome(q, turn);
    if (state !== "failed" && state !== "dropped") return { conversation, turn, ago, state };
  }
  return null;
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
