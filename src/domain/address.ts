// Where an answer goes. Frozen when the turn is made: what arrives later changes nothing.

import type { ExternalId, MessageEvent, Party, SessionId } from "bridgehead/contract";

export interface Address {
  readonly to: readonly Party[];
  readonly cc: readonly Party[];
  readonly subject: string | null;
  readonly answers: ExternalId | null;
  /** References, oldest first, `answers` last. */
  readonly history: readonly ExternalId[];
  readonly hops: number;
  readonly session: SessionId | null;
}

/** Of words of the channel's own (`replies.address`). */
export interface NoticeAddress extends Address {
  /** They go out past a suppression, and before what waits in the conversation. */
  readonly forced: boolean;
}

/** The address of something that answers nothing. */
export function firstTo(person: Party, subject: string | null): Address {
  return { to: [person], cc: [], subject, answers: null, history: [], hops: 1, session: null };
}

/** The address of something more in a thread that we began: `said` are the ids of what was said in it, oldest first. */
export function furtherTo(person: Party, subject: string | null, said: readonly ExternalId[]): Address {
  const answers = said.at(-1) ?? null;
  return { to: [person], cc: [], subject, answers, history: said, hops: 1, session: null };
}

/** The address of the answer to `event`. Whether Cc is used is the adapter's setting. */
export function answerTo(event: MessageEvent): Address {
  const answers = event.cited ?? event.id;
  const inThread = "session" in event.thread ? [] : [...event.thread.answers].reverse();
  return {
    to: [event.replyTo ?? event.from],
    cc: event.cc ?? [],
    subject: event.subject ?? null,
    answers,
    history: [...inThread.filter((id) => id !== answers), answers],
    hops: (event.hops ?? 0) + 1,
    session: "session" in event.thread ? event.thread.session : null,
  };
}
