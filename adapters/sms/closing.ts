// Pauses a sender or an account that may not send. Some providers report this only after they accepted a
// text (an unregistered number, a suspended account). Without the pause the whole queue would be accepted
// and lost.

import type { Clock, Health, SendOutcome } from "bridgehead/contract";
import { outcomeOf, statusOf } from "./classes.ts";
import type { TextDraft, TextStatus } from "./provider.ts";

export interface Closing {
  /** Handles the status of a sent text: pauses its sender, or resumes it. */
  heard(status: TextStatus): void;
  /** Returns the outcome for a text that is due now; null: the text may be sent. */
  outcome(text: TextDraft): SendOutcome | null;
}

/** Duration of the first pause, in milliseconds. It doubles with each consecutive lost text. */
const firstMs = 30_000;
const longestMs = 5 * 60_000;
/** The status of an accepted text arrives within seconds. The next text waits for it this long, in
 *  milliseconds. */
const verdictMs = 10_000;
const account = "*";

interface Closed {
  reason: string;
  kind: "account" | "set-up";
  /** Start of the pause, in milliseconds of the channel's clock. */
  since: number;
  forMs: number;
  /** Consecutive lost texts. */
  lost: number;
}

/** The state is kept in this process only: another process detects the failure with one more text.
 *  Memory is bounded by the number of senders of one channel. */
export function createClosing(clock: Pick<Clock, "now">, health: Health): Closing {
  const closed = new Map<string, Closed>();

  return {
    heard({ kind, code, status, state, sender }) {
      if (state === "delivered" || status === "sent") {
        if (sender !== undefined) closed.delete(sender);
        closed.delete(account);
      }
      if (kind !== "set-up" && kind !== "account" && kind !== "login") return;
      const refusal = {
        code: code ?? status,
        reason: `${code ?? status}: reported for a text that was accepted`,
      };
      const told = statusOf(kind, refusal);
      if (told !== null) health.set("account", told);
      const key = kind === "set-up" && sender !== undefined ? sender : account;
      const before = closed.get(key);
      // Texts that were in flight together count as one loss.
      const together = before !== undefined && clock.now() - before.since < before.forMs;
      const lost = together ? before.lost : (before?.lost ?? 0) + 1;
      const forMs = Math.min(firstMs * 2 ** (lost - 1), longestMs);
      const scope = key === account ? "account" : "set-up";
      closed.set(key, { reason: refusal.reason, kind: scope, since: clock.now(), forMs, lost });
    },
    outcome({ from, service }) {
      for (const key of [account, from ?? service ?? account]) {
        const one = closed.get(key);
        if (one === undefined) continue;
        const gone = clock.now() - one.since;
        if (gone >= 0 && gone < one.forMs)
          return outcomeOf(one.kind, { code: "closed", reason: one.reason, retryAfterMs: one.forMs - gone });
        // This text is sent as a trial; its status decides for the next ones. A text is also sent after a
        // jump of the clock.
        one.since = clock.now();
        one.forMs = verdictMs;
      }
      return null;
    },
  };
}
