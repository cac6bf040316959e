// A number or an account that may not send, as some providers only say after they accepted a text (an unregistered number,
// a suspended account). No more texts are handed over from it for a while, or the whole queue would be accepted and lost.

import type { Clock, SendOutcome } from "bridgehead/contract";
import { outcomeOf, statusOf } from "./classes.ts";
import type { Health } from "./health.ts";
import type { TextDraft, TextStatus } from "./provider.ts";

export interface Closing {
  /** Takes the status of a text of ours: closes its sender, or opens it again. */
  heard(status: TextStatus): void;
  /** What becomes of a text that would be sent now; null: it may go. */
  outcome(text: TextDraft): SendOutcome | null;
}

/** Doubled with each text that is lost in a row. */
const firstMs = 30_000;
const longestMs = 5 * 60_000;
/** The status of a text that was accepted comes within seconds; the next text waits for it this long. */
const verdictMs = 10_000;
const account = "*";

interface Closed {
  reason: string;
  kind: "account" | "set-up";
  /** Clock milliseconds. */
  since: number;
  forMs: number;
  /** Consecutive lost texts. */
  lost: number;
}

/** Known to this process alone: another finds out by one more text. Memory is bounded by the senders of one channel. */
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
      // Texts that were on their way together are lost together.
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
        // This text may go; its status decides for the next ones. After a jump of the clock it goes as well.
        one.since = clock.now();
        one.forMs = verdictMs;
      }
      return null;
    },
  };
}
