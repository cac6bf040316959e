// Drafts of a live session (call). Part of stage send. A draft is spoken immediately or dropped. A late
// voice reply is worse than none, and unknown outcomes are not reconciled.

import type { SendOutcome } from "bridgehead/contract";
import type { Query } from "../store/driver.ts";
import { changeDraft, type DraftChange, type DraftRow } from "../store/tables/drafts.ts";
import { lostFor } from "../store/tables/sessions.ts";
import { endAttempt } from "../store/tables/turns.ts";
import { isOutdated } from "./superseded.ts";

/** Timeout for a lost connection to come back, in milliseconds. */
const patience = 60_000;
/** Poll interval for a session that is lost or not yet held by a node, in milliseconds. */
const glance = 500;
const shortestGlance = 100;

/** Returns whether the head of a lane may be spoken now. Otherwise the draft was dropped (`never`: take
 *  the next one) or waits (`later`). */
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
  // The draft was found with an expired lease.
  if (draft.state !== "queued") return "it may have been said";
  if (lost === "ended") return "the call has ended";
  if (lost !== null && lost > patience) return "the call did not come back";
  return (await isOutdated(q, draft.reply, session)) ? "the caller said something newer" : null;
}

/** Returns the change after an attempt to speak the draft. Pure. */
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
