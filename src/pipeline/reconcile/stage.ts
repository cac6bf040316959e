// Stage settle.
// Input: a draft of unknown outcome at the head of its lane (`unknown`, or `sending` under an expired
// lease).
// Effect: calls the adapter's `reconcile` repeatedly within the window. A delivery receipt may settle the
// draft earlier (receipt.ts). After the window the policy `on_unknown` applies.
// Output: draft `sent`, `queued`, `unknown` until the next lookup, `held`, `dropped`, or `failed` after the
// lifetime of several days.
// Failure: retried later.
// Crash: retried later.

import type { Json, Verdict } from "bridgehead/contract";
import { sendKey } from "bridgehead/contract";
import { lookDelay, paceOf, sendDelay, sendLifetime } from "../../domain/retry.ts";
import type { Transition } from "../../engine/stage.ts";
import { jitter } from "../../ops/clock.ts";
import type { Query } from "../../store/driver.ts";
import { guardLease, releaseLane } from "../../store/lanes.ts";
import { noticesOf } from "../../store/tables/contacts.ts";
import { cite } from "../../store/tables/conversations.ts";
import { changeDraft, type DraftChange, lastAttempt, readDraft } from "../../store/tables/drafts.ts";
import { endRest } from "../../store/tables/parts.ts";
import { endAttempt } from "../../store/tables/turns.ts";
import type { ChannelRules } from "../channel-runtime.ts";
import type { SendDeps, Sending } from "../send/sending.ts";

export async function settle(sending: Sending, signal: AbortSignal, deps: SendDeps): Promise<Transition> {
  const { line, draft } = sending;
  const verdict = await look(sending, signal, deps);
  deps.log.info(
    { channel: line.channel, draft: draft.id, verdict: verdict.kind },
    "looked at an unknown outcome",
  );
  const isNotice = (await deps.db.read((q) => noticesOf(q, draft.reply))).length > 0;
  const rules = isNotice ? noticeRules(line.rules, deps.timing.reconcile.noticeWindow) : line.rules;
  // The window of an attempt in which the process died begins with the first lookup.
  const left = Math.min(draft.settle_left ?? rules.unknown_window, rules.unknown_window);
  const change = paced(changeAfter(verdict, draft.looks, left, rules), verdict, sending);
  return async (q) => {
    await guardLease(q, sending.lease);
    const now = await readDraft(q, draft.id);
    if (now?.state === draft.state) await write(q, sending, verdict, change, isNotice);
    await releaseLane(q, sending.lease, "out");
  };
}

/** A notification of unknown outcome is sent again after a short window. A missed notification is worse
 *  than a duplicate. */
const noticeRules = (rules: ChannelRules, window: number): ChannelRules => ({
  ...rules,
  on_unknown: "resend",
  unknown_window: Math.min(rules.unknown_window, window),
});

async function look(sending: Sending, signal: AbortSignal, deps: SendDeps): Promise<Verdict> {
  const { line, draft } = sending;
  const attempt = await deps.db.read((q) => lastAttempt(q, draft.id));
  if (!line.outbound?.reconcile || !attempt) return { kind: "unsure" };
  const past = { key: sendKey(draft.id), number: attempt.number, startedAt: new Date(attempt.started_at) };
  try {
    const deadline = sending.leaseDeadline.signal(signal, deps.timeout);
    return await line.outbound.reconcile(JSON.parse(draft.body) as Json, past, deadline);
  } catch (error) {
    deps.log.warn(
      { channel: line.channel, draft: draft.id, err: error },
      "looking at an unknown outcome failed",
    );
    return { kind: "unsure" };
  }
}

/** Returns the change for a finding of the adapter (`Verdict`). Pure. `left` is the rest of the window,
 *  in milliseconds. */
export function changeAfter(verdict: Verdict, looks: number, left: number, rules: ChannelRules): DraftChange {
  switch (verdict.kind) {
    case "sent":
      return { state: "sent", open: 0, externalId: verdict.id, reason: "found by a later look" };
    case "not-sent":
      return { state: "queued", open: 1, reason: "a later look found that it had not gone out" };
    case "unsure": {
      const asked = Math.max(verdict.lookAgainAfterMs ?? lookDelay(looks), lookDelay(0));
      const delay = Math.min(asked, Math.max(left, 0));
      if (left > 0) {
        return {
          state: "unknown",
          open: 1,
          dueInMs: delay,
          looks: looks + 1,
          settleForMs: left,
          reason: "nobody can tell yet",
        };
      }
      return byPolicy(rules);
    }
  }
}

function byPolicy(rules: ChannelRules): DraftChange {
  const reason = "it may have gone out and nobody can tell";
  switch (rules.on_unknown) {
    case "resend":
      return { state: "queued", open: 1, reason: `${reason}: sent again by policy, under the same id` };
    case "drop":
      return { state: "dropped", open: 0, reason: `${reason}: dropped by policy` };
    case "hold":
      return { state: "held", open: rules.on_dead === "block" ? 1 : 0, reason };
  }
}

/** Limits retries by policy, which could repeat without end: the backoff grows, and the lifetime of
 *  deferred drafts applies. */
function paced(change: DraftChange, verdict: Verdict, { draft, line }: Sending): DraftChange {
  if (change.state !== "queued" || verdict.kind !== "unsure") return change;
  if ((draft.trying_for ?? 0) > sendLifetime) {
    const open = line.rules.on_dead === "block" ? 1 : 0;
    return { state: "failed", open, reason: `given up: ${change.reason}` };
  }
  const delay = sendDelay(paceOf(line.traits.platform), draft.attempts - 1);
  return draft.attempts < 2 ? change : { ...change, dueInMs: jitter(delay) };
}

async function write(
  q: Query,
  sending: Sending,
  verdict: Verdict,
  change: DraftChange,
  isNotice: boolean,
): Promise<void> {
  const { line, draft } = sending;
  if (verdict.kind === "sent") await cite(q, line.channel, verdict.id, draft.conversation, draft.id);
  const outcome = { sent: "sent", "not-sent": "deferred", unsure: "unknown" }[verdict.kind];
  await endAttempt(q, draft.id, outcome, change.reason ?? null);
  await changeDraft(q, draft.id, change);
  const reason = change.reason ?? "";
  const { state } = change;
  // The retried notification may fail as well, so the escalation policy's next step does not wait for it.
  if (isNotice && state === "queued" && verdict.kind === "unsure")
    await line.escalation()?.stuck(q, line, draft, { state: "held", reason });
  if (state !== "held" && state !== "dropped" && state !== "failed") return;
  if (change.open === 0) await endRest(q, draft, state === "held" ? "held" : "dropped");
  await line.escalation()?.stuck(q, line, draft, { state, reason });
}
