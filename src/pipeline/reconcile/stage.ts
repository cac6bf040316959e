// Stage reconcile. Input: a draft of unknown outcome at the head of its lane (`unknown`, or `sending` under an expired
// lease). Effect: calls the adapter's `reconcile` repeatedly within the window. A delivery receipt may end the draft
// earlier (receipts.ts). After the window the policy `on_unknown` applies. Output: draft `sent`, `queued`, `unknown`
// until the next lookup, `held`, `dropped`, or `failed` after the lifetime of several days. Failure: retried later.
// Crash: retried later.

import { type Finding, type Json, sendKey, wrongFieldText, wrongFinding } from "bridgehead/contract";
import { paceOf } from "../../domain/retry.ts";
import type { Transition } from "../../engine/stage.ts";
import { jitter, limited } from "../../ops/clock.ts";
import type { Core, Query } from "../../store/driver.ts";
import { guardLease, releaseLane } from "../../store/lanes.ts";
import { cite } from "../../store/tables/conversations.ts";
import { changeDraft, type DraftChange, type DraftRow, endRest, reportEnd } from "../../store/tables/drafts.ts";
import { notificationsOf } from "../../store/tables/responders.ts";
import { endAttempt } from "../../store/tables/turns.ts";
import type { LaneWork } from "../channel-runtime.ts";
import { changeAfter, notificationRules } from "./decide.ts";
import { type LastAttempt, lastAttempt } from "./rows.ts";

export interface DraftWork extends LaneWork {
  readonly draft: DraftRow;
}

/** Called by stage send for a claimed draft of unknown outcome. */
export async function reconcile(work: DraftWork, signal: AbortSignal, deps: Core): Promise<Transition> {
  const { line, draft } = work;
  const { attempt, isNotification } = await deps.db.read(async (q) => ({
    attempt: await lastAttempt(q, draft.id),
    isNotification: (await notificationsOf(q, draft.reply)).length > 0,
  }));
  const finding = attempt === null ? ({ kind: "unsure" } as const) : await find(work, attempt, signal, deps);
  const { trace } = draft;
  const fields = { ...(trace && { trace }), channel: line.channel, draft: draft.id, finding: finding.kind };
  deps.log.info(fields, "unknown draft reconciled");
  const rules = isNotification ? notificationRules(line.rules, deps.timing.reconcile.notificationWindow) : line.rules;
  const { absences } = attempt ?? { absences: 0 };
  const backoff = { pace: paceOf(line.traits.platform), timing: deps.timing, jitter };
  const change = changeAfter(finding, { ...draft, absences }, rules, backoff);
  return async (q) => {
    await guardLease(q, work.lease);
    // A delivery receipt may have changed the draft in the meantime.
    if (await changeDraft(q, draft.id, change, draft.state)) {
      reportEnd(q, draft, change);
      await writeEnd(q, work, finding, change, isNotification);
    }
    await releaseLane(q, work.lease, "out");
  };
}

/** Calls the adapter. An error counts as "unsure". */
async function find(
  { line, draft }: DraftWork,
  attempt: LastAttempt,
  signal: AbortSignal,
  deps: Core,
): Promise<Finding> {
  if (!line.outbound?.reconcile) return { kind: "unsure" };
  const past = { key: sendKey(draft.id), number: attempt.number, startedAt: new Date(deps.clock.now() - attempt.age) };
  try {
    const deadline = limited(signal, deps.timing.send.attempt);
    const found = await line.outbound.reconcile(JSON.parse(draft.body) as Json, past, deadline);
    const wrong = wrongFinding(found);
    if (wrong !== null) throw new Error(`reconcile of the adapter returned no finding: ${wrongFieldText(wrong)}`);
    return found;
  } catch (error) {
    deps.log.warn({ channel: line.channel, draft: draft.id, err: error }, "reconcile failed");
    return { kind: "unsure" };
  }
}

async function writeEnd(
  q: Query,
  { line, draft }: DraftWork,
  finding: Finding,
  change: DraftChange,
  isNotification: boolean,
): Promise<void> {
  if (finding.kind === "sent") await cite(q, line.channel, finding.id, draft.conversation, draft.id);
  const outcome = { sent: "sent", "not-sent": "deferred", unsure: "unknown" }[finding.kind];
  await endAttempt(q, draft.id, outcome, change.reason ?? null);
  const reason = change.reason ?? "";
  const { state } = change;
  // The retried notification may fail as well, so the escalation policy's next step does not wait for it.
  if (isNotification && state === "queued" && finding.kind === "unsure")
    await line.escalation()?.undeliverable(q, line, draft, { state: "held", reason });
  if (state !== "held" && state !== "dropped" && state !== "failed") return;
  if (change.open === 0) await endRest(q, draft, state === "held" ? "held" : "dropped");
  await line.escalation()?.undeliverable(q, line, draft, { state, reason });
}
