// Classes of delivery errors, common to all providers, and what each class means for the draft and for the
// channel. Each provider has one table that maps its own error codes to these classes.

import type { Attempt, ChannelStatus, Clock, Health, SendOutcome } from "bridgehead/contract";
import type { TextDraft, TextStatus } from "./provider.ts";
import type { SmsTiming } from "./timing.ts";

/** The subject of a refusal. */
export type TextClass =
  /** The recipient's address can never receive a text message. */
  | "recipient"
  /** The recipient opted out (STOP). */
  | "opted-out"
  /** The provider rejected our login. */
  | "login"
  /** The account is blocked: no message is sent until the operator changes something. */
  | "account"
  /** The sending number, WhatsApp sender or messaging service cannot send; other senders of the account
   *  are unaffected. */
  | "set-up"
  /** The account is not enabled for the recipient's country or network; other countries and networks are unaffected. */
  | "reach"
  /** The message body was rejected. */
  | "content"
  /** Certainly not processed: the account exceeded its request rate. */
  | "rate"
  /** Certainly not processed: the sender's own queue or throughput is full. */
  | "sender-rate"
  /** Accepted, but not delivered this time. */
  | "unreached"
  /** Accepted, but expired before delivery. */
  | "expired"
  /** Possibly processed. */
  | "ambiguous";

/** The provider's error, in text that identifies no person. */
export interface ProviderRefusal {
  readonly code: string;
  readonly reason: string;
  readonly retryAfterMs?: number | undefined;
}

/** Inverts a provider's table: returns the map from error code, a number or a word, to class. */
export function classes(
  table: Readonly<Partial<Record<TextClass, readonly (number | string)[]>>>,
): ReadonlyMap<number | string, TextClass> {
  return new Map(
    Object.entries(table).flatMap(([kind, codes]) => codes.map((code) => [code, kind as TextClass] as const)),
  );
}

/** Returns the send outcome for an error of this class. An unknown class (null) refuses only this draft. */
export function outcomeOf(
  kind: TextClass | null,
  { code, reason, retryAfterMs }: ProviderRefusal,
  timing: Pick<SmsTiming, "reachRetry" | "unreachedRetry">,
): SendOutcome {
  const again = (ms: number) => ({ retryAfterMs: retryAfterMs ?? ms });
  const retryAfter = retryAfterMs === undefined ? {} : { retryAfterMs };
  switch (kind) {
    case "recipient":
      return { kind: "refused", code, reason, scope: "recipient" };
    case "opted-out":
      return { kind: "refused", code: "opted-out", reason, scope: "recipient" };
    case "login":
      return { kind: "deferred", reason, ...retryAfter, scope: "channel", cause: "login" };
    case "account":
      return { kind: "deferred", reason, ...retryAfter, scope: "channel", cause: "set-up" };
    case "set-up":
      return { kind: "deferred", reason, ...retryAfter, scope: "sender", cause: "set-up" };
    case "reach":
      // Only recipients in that country or network wait for the operator.
      return { kind: "deferred", reason, ...again(timing.reachRetry), scope: "recipient" };
    case "rate":
      return { kind: "deferred", reason, ...retryAfter, scope: "channel", cause: "rate" };
    case "sender-rate":
      return { kind: "deferred", reason, ...retryAfter, scope: "sender", cause: "rate" };
    case "unreached":
      return { kind: "deferred", reason, ...again(timing.unreachedRetry) };
    case "ambiguous":
      return { kind: "unknown", reason };
    case "content":
    case "expired":
    case null:
      return { kind: "refused", code, reason };
  }
}

/** Returns the channel status that follows from an error; null: the channel is unaffected. */
export function statusOf(kind: TextClass | null, { code, reason }: ProviderRefusal): ChannelStatus | null {
  if (kind === "login") return { state: "unauthorized", code, reason };
  if (kind === "account" || kind === "set-up" || kind === "reach") return { state: "degraded", code, reason };
  return null;
}

/** Returns the outcome when no connection was made: this text was not sent, and the whole channel cannot send. */
export function unreachable(error: unknown): SendOutcome {
  const reason = `the provider was not reached: ${errorText(error)}`;
  return { kind: "deferred", reason, scope: "channel", cause: "unreachable" };
}

/** Formats a network error as one line of at most 200 characters. */
function errorText(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  const words = error instanceof Error ? error.message : String(error);
  return `${typeof code === "string" ? `${code} ` : ""}${words}`.slice(0, 200);
}

/** Returns true when the address is dead, or its owner opted out. */
export function isPermanent(kind: TextClass | null | undefined): boolean {
  return kind === "recipient" || kind === "opted-out";
}

/** Replaces phone numbers in a provider's error text, because reasons are logged. Returns at most 300 characters. */
export function withoutNumbers(text: string): string {
  return text.replace(/\+?\d[\d\s().-]{5,}\d/g, "<number>").slice(0, 300);
}

// Pauses a sender or an account that may not send, or sends too much. Some providers report this only after they accepted a
// text (an unregistered number, a suspended account, the limit of a carrier). Without the pause the whole queue would be
// accepted and lost.
const account = "*";

/** The classes that affect further texts, with the class for all texts of the account. */
const pausing: ReadonlyMap<TextClass, "account" | "rate"> = new Map([
  ["login", "account"],
  ["account", "account"],
  ["set-up", "account"],
  ["rate", "rate"],
  ["sender-rate", "rate"],
]);

interface ClosedSender {
  reason: string;
  kind: TextClass;
  /** Start of the pause, in milliseconds of the channel's clock. */
  since: number;
  forMs: number;
  /** Consecutive lost texts. */
  lost: number;
}

/** The state is kept in this process only: another process detects the failure with one more text.
 *  Memory is bounded by the number of senders of one channel. */
export class SenderPauses {
  readonly #clock: Pick<Clock, "now">;
  readonly #health: Health;
  readonly #timing: SmsTiming;
  readonly #closed = new Map<string, ClosedSender>();

  constructor(clock: Pick<Clock, "now">, health: Health, timing: SmsTiming) {
    this.#clock = clock;
    this.#health = health;
    this.#timing = timing;
  }

  /** Handles the status of a sent text: pauses its sender, or resumes it. */
  handleStatus({ kind, code, status, state, sender, service }: TextStatus): void {
    // A text whose number the service selects knows only the service.
    const senders = [sender, service].filter((one) => one !== undefined);
    if (state === "delivered" || status === "sent") for (const key of [...senders, account]) this.#closed.delete(key);
    const ofAccount = kind ? pausing.get(kind) : undefined;
    if (!kind || ofAccount === undefined) return;
    const refusal = {
      code: code ?? status,
      reason: `${code ?? status}: reported for a text that was accepted`,
    };
    const health = statusOf(kind, refusal);
    if (health !== null) this.#health.set("account", health);
    const isOfSender = (kind === "set-up" || kind === "sender-rate") && senders.length > 0;
    if (isOfSender) for (const key of senders) this.#close(key, kind, refusal.reason);
    else this.#close(account, ofAccount, refusal.reason);
  }

  #close(key: string, kind: TextClass, reason: string): void {
    const before = this.#closed.get(key);
    const now = this.#clock.now();
    // Texts that were in flight together count as one loss.
    const together = before !== undefined && now - before.since < before.forMs;
    const lost = together ? before.lost : (before?.lost ?? 0) + 1;
    const forMs = Math.min(this.#timing.pauseFirst * 2 ** (lost - 1), this.#timing.pauseLongest);
    this.#closed.set(key, { reason, kind, since: now, forMs, lost });
  }

  /** Sends a text by `request`, which awaits the crossing before the first byte, unless its sender or the account is
   *  paused. An error of `request` before the crossing means that the provider was not reached. */
  async send(
    text: TextDraft,
    attempt: Attempt,
    request: (crossing: () => Promise<void>) => Promise<SendOutcome>,
  ): Promise<SendOutcome> {
    const closed = this.#outcome(text);
    if (closed !== null) return closed;
    let crossed = false;
    try {
      return await request(async () => {
        await attempt.crossing();
        crossed = true;
      });
    } catch (error) {
      if (crossed) return { kind: "unknown", reason: `no answer: ${errorText(error)}` };
      return unreachable(error);
    }
  }

  /** Returns the outcome for a text that is due now; null: the text may be sent. */
  #outcome({ from, service }: TextDraft): SendOutcome | null {
    for (const key of [account, from ?? service ?? account]) {
      const one = this.#closed.get(key);
      if (one === undefined) continue;
      const gone = this.#clock.now() - one.since;
      if (gone >= 0 && gone < one.forMs)
        return outcomeOf(
          one.kind,
          { code: "closed", reason: one.reason, retryAfterMs: one.forMs - gone },
          this.#timing,
        );
      // This text is sent as a trial; its status decides for the next ones. A text is also sent after a
      // jump of the clock.
      one.since = this.#clock.now();
      one.forMs = this.#timing.firstStatus;
    }
    return null;
  }
}
