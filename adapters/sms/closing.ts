// A number or an account that may not send, as some providers only say when they have taken a text (an unregistered
// number, a suspended account): nothing more is handed over for a while, or the queue would be burned text by text.

import type { Clock, SendOutcome } from "bridgehead/contract";
import { outcomeOf, statusOf } from "./classes.ts";
import type { Health } from "./health.ts";
import type { TextStatus } from "./provider.ts";

export interface Closing {
  /** What became of a text of ours. */
  heard(status: TextStatus): void;
  /** What becomes of a text that would be sent now; null: it may go. */
  outcome(): SendOutcome | null;
}

const closedMs = 15 * 60_000;

/** Known to this process alone: another finds out by one text more. */
export function createClosing(clock: Pick<Clock, "now">, health: Health): Closing {
  let closed: { readonly reason: string; readonly since: number } | null = null;
  return {
    heard({ kind, code, status }) {
      if (kind !== "set-up" && kind !== "login") return;
      const refusal = { code: code ?? status, reason: `${code ?? status}: said of a text that was taken` };
      const told = statusOf(kind, refusal);
      if (told !== null) health.set("account", told);
      closed = { reason: refusal.reason, since: clock.now() };
    },
    outcome() {
      const gone = closed === null ? closedMs : clock.now() - closed.since;
      // After a jump of the clock a text too many tells as much.
      if (closed === null || gone < 0 || gone >= closedMs) return null;
      return outcomeOf("set-up", { code: "closed", reason: closed.reason, retryAfterMs: closedMs - gone });
    },
  };
}
