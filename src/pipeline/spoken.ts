// What is to be said in a live session: now or never. Part of stage send. There is no looking back: a sentence that
// comes late in a call is worse than none, so what cannot be said, or may have been said, is dropped.

import type { SendOutcome } from "bridgehead/contract";
import { changeDraft, type DraftChange, type DraftRow } from "../store/drafts.ts";
import type { Query } from "../store/driver.ts";
import { lostFor } from "../store/sessions.ts";
import { isOutdated } from "../store/superseded.ts";
import { endAttempt } from "../store/turns.ts";

/** How long a lost connection is waited for. */
const patience = 60_000;
/** How often a lost session, or one that nobody holds yet, is looked at. */
const glance = 500;
const shortestGlance = 100;

/** Whether the head of a lane may be said now; if not, it was dropped (look at the next one) or waits. */
export async function mayBeSaid(
  q: Query,
  draft: DraftRow,
  session: string,
): Promise<"now" | "never" | "later"> {
  const lost = await lostFor(q, draft.channel, session);
  const reason = await whyNever(q, draft, session, lost);
  if (reason !== null) {
    if (draft.state !== "queued") await endAttempt(q, draft.id, "unknown", reason);
    await changeDraft(q, draft.id, { state: "dropped", open: 0, reason });
    return "never";
  }
  if (lost === null) return "now";
  await changeDraft(q, draft.id, {
    state: "queued",
    open: 1,
    dueInMs: glance,
    reason: "the call has lost its connection",
  });
  return "later";
}

async function whyNever(
  q: Query,
  draft: DraftRow,
  session: string,
  lost: number | null | "ended",
): Promise<string | null> {
  // Found with a dead lease.
  if (draft.state !== "queued") return "it may have been said";
  if (lost === "ended") return "the call has ended";
  if (lost !== null && lost > patience) return "the call did not come back";
  return (await isOutdated(q, draft.reply, session)) ? "the caller said something newer" : null;
}

/** What follows from an attempt to say it: pure. */
export function afterSaying(outcome: SendOutcome, tryingFor: number): DraftChange {
  switch (outcome.kind) {
    case "sent":
      return { state: "sent", open: 0, externalId: outcome.id };
    case "refused":
      return { state: "dropped", open: 0, reason: `${outcome.code}: ${outcome.reason}` };
    case "unknown":
      return { state: "dropped", open: 0, reason: `it may have been said: ${outcome.reason}` };
    case "deferred":
      return tryingFor > patience
        ? { state: "dropped", open: 0, reason: `given up: ${outcome.reason}` }
        : {
            state: "queued",
            open: 1,
            dueInMs: Math.max(outcome.retryAfterMs ?? glance, shortestGlance),
            reason: outcome.reason,
          };
  }
}
