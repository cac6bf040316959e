// The hops of a message through the daemon: one log line and one count per hop, written when its transaction is on disk
// (`reportCommit`). `Query.hop` reports them. The field `trace` is the same in all lines about one message, from its receipt to the delivery
// receipt of its answer: `grep -w m42` finds the history of the message that `inbox list` shows as 42.

export const hopLines = {
  received: ["info", "message received"],
  refused: ["info", "message refused"],
  handled: ["info", "message handled without a question"],
  held: ["warn", "message held"],
  failed: ["warn", "message failed"],
  released: ["info", "message released by an operator"],
  call: ["info", "call state changed"],
  asked: ["info", "question asked"],
  answered: ["info", "question answered"],
  queued: ["info", "reply queued"],
  sent: ["info", "reply sent"],
  dropped: ["info", "reply dropped"],
  replyHeld: ["warn", "reply held"],
  replyFailed: ["warn", "reply failed"],
  replyReleased: ["info", "reply released"],
  receipt: ["info", "delivery receipt"],
  // Counted only: failed attempts have a line of their own, with the reason.
  duplicate: null,
  capped: null,
  askAttempt: null,
  sendAttempt: null,
} as const;

export type HopName = keyof typeof hopLines;

/** One hop. All fields are safe to log: no addresses, no message text. */
export interface Hop {
  readonly name: HopName;
  readonly channel: string;
  /** The messages that the hop is about: `m42`, or `m42 m43` for a question that consists of several. Empty for work that no
   *  message caused, such as a notification. */
  readonly trace: string;
  readonly event?: number;
  readonly conversation?: string | null;
  readonly turn?: string;
  readonly draft?: string;
  readonly session?: string | null;
  readonly code?: string | null;
  readonly outcome?: string;
  /** True when the work is tried again after this attempt. */
  readonly isRetried?: boolean;
  /** State that a delivery receipt or an event of a call reports. */
  readonly state?: string;
  /** Number of the attempt, from 1 on. */
  readonly attempt?: number;
  /** Epoch milliseconds at which a reply becomes due. */
  readonly dueAt?: number;
  /** Milliseconds that the hop itself took. */
  readonly tookMs?: number | null;
  /** Milliseconds since the first of its messages was accepted. */
  readonly ageMs?: number | null;
}

/** Returns the token of an event in `trace`. */
export const traceOf = (event: number): string => `m${event}`;

/** Joins the traces of messages that are asked together. */
export const joinTraces = (...traces: readonly string[]): string =>
  [...new Set(traces.join(" ").split(" "))].filter((one) => one !== "").join(" ");

/** One commit of the store that is on disk. */
export interface CommitReport {
  /** The hops of its transactions, in their order. */
  readonly hops: readonly Hop[];
  readonly commitMs: number;
  /** Duration of the sync of an SQLite store; null when an earlier report has it, and when nothing was synced. */
  readonly syncMs: number | null;
}
