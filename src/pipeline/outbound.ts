// Outbound conversations: an operator's command stores them here, and the daemon claims them from the
// store. The turn is processed like any other but has no question. The platform's conversation is opened,
// then the introduction is sent.

import type { Clock } from "bridgehead/contract";
import { firstTo, type Opening, readOpening, writeOpening } from "../domain/turn.ts";
import { newId, newToken } from "../ops/clock.ts";
import type { Query } from "../store/driver.ts";
import {
  insertConversation,
  type OpeningOutcome,
  openingOutcome,
  recentOpenings,
} from "../store/tables/conversations.ts";
import { enqueueTurn } from "../store/tables/turns.ts";

export interface Begun {
  readonly conversation: string;
  readonly turn: string;
}

/** An earlier opening with the same text for the same recipient. */
export interface Repeated extends Begun {
  /** Milliseconds. */
  readonly ago: number;
  readonly state: OpeningOutcome["state"];
}

/** Deduplicates openings. Returns the conversation in which the same text still waits for that recipient, or was queued
 *  or sent within the last `sameMs` milliseconds: the same command run twice. Returns null when no text matches, or when all of them failed.
 *  `defaults` is the agent's own text, for openings that omit it. Call it in the transaction that calls
 *  `begin`; the channel's row must exist. */
export async function begunBefore(
  q: Query,
  wanted: { readonly channel: string; readonly address: string; readonly opening: Opening },
  defaults: { readonly introduction: string | null; readonly subject: string | null },
  sameMs: number,
): Promise<Repeated | null> {
  const words = ({ introduction, subject }: Opening) =>
    JSON.stringify([(introduction ?? defaults.introduction ?? "").trim(), (subject ?? defaults.subject ?? "").trim()]);
  const person = wanted.address.toLowerCase();
  for (const { turn, conversation, ago, opening } of await recentOpenings(q, wanted.channel, person, sameMs)) {
    const earlier = readOpening(opening);
    if (!earlier.speak || words(earlier) !== words(wanted.opening)) continue;
    const { state } = await openingOutcome(q, turn);
    if (state !== "failed" && state !== "dropped") return { conversation, turn, ago, state };
  }
  return null;
}

/** Enqueues one opening per call; it is not idempotent. `address` is in the canonical form of the channel's adapter. */
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
