// The address of a reply. It is fixed when the turn is created; later messages do not change it.

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

/** The address of a notification (`replies.address`). */
export interface NoticeAddress extends Address {
  /** Sent despite a suppression, and before other queued drafts of the conversation. */
  readonly forced: boolean;
}

/** Returns the address of the first message of a new thread. */
export function firstTo(person: Party, subject: string | null): Address {
  return { to: [person], cc: [], subject, answers: null, history: [], hops: 1, session: null };
}

/** Returns the address of a further message in a thread that we began. `said` are the ids of its earlier
 *  messages, oldest first. */
export function furtherTo(person: Party, subject: string | null, said: readonly ExternalId[]): Address {
  const answers = said.at(-1) ?? null;
  return { to: [person], cc: [], subject, answers, history: said, hops: 1, session: null };
}

/** Returns the address of the reply to `event`. The adapter's configuration decides whether Cc is used. */
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
