// Delivery receipts: applies a delivery event (a status callback, a DSN) or a reply to the draft it is about. Part of stage
// route. Input: the stored event, or the keys of our messages that a reply cites. Effect: none outside the store. Output: the
// draft `sent`, `delivered` or `failed`; a suppression of its address; the event settled. Failure: fails with the event's
// transaction, which stage route retries. Crash: the event is still stored.

import type { DeliveryEvent, ExternalId, Log, SendKey } from "bridgehead/contract";
import { strikeLimit } from "../../domain/retry.ts";
import type { Timing } from "../../ops/timing.ts";
import { failpointOfCommit, logOnDisk, type Query } from "../../store/driver.ts";
import { refreshLane } from "../../store/lanes.ts";
import { cite } from "../../store/tables/conversations.ts";
import { changeDraft, endRest, reportDraft, resumeRest } from "../../store/tables/drafts.ts";
import { awaitDraft, type EventRow, hasKeywordSince, recordOutcome } from "../../store/tables/events.ts";
import { allOwn, strike, suppressOptedOut } from "../../store/tables/suppressions.ts";
import { endAttempt } from "../../store/tables/turns.ts";
import { type ChannelRuntime, consentAddress } from "../channel-runtime.ts";
import { mayBeEarly, type ReceiptEffect, type ReceiptFacts, receiptEffect, recipientsOf } from "./decide.ts";
import { isSending, lastAttempt, loadDrafts, loadMatch, lockEnded, type ReceiptDraft } from "./rows.ts";

/** Applies a delivery receipt and ends its event. */
export async function matchReceipt(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: DeliveryEvent,
  { log, timing: { reconcile: timing } }: { readonly log: Log; readonly timing: Timing },
): Promise<void> {
  const { channel } = line;
  // Read before the search, so that the search also finds attempts that end in between.
  const early = mayBeEarly(event.about) && (await isSending(q, channel));
  const draft = await loadMatch(q, channel, event.about, timing.bounce);
  const reason = event.detail ?? null;
  if (draft === null) {
    // A delivery receipt may arrive before the response that contains the id it names. It is matched again until
    // the id is known.
    if (early && (await awaitDraft(q, row.id, timing.receiptRetry, timing.receiptWait))) {
      q.waits.add(timing.receiptRetry);
      return;
    }
    logOnDisk(q, log).info(
      { channel, event: row.id, state: event.state },
      "delivery receipt ignored: no matching draft",
    );
    return recordOutcome(q, row.id, { state: "ignored", code: "unmatched", reason });
  }
  await write(q, line, draft, event, receiptEffect(factsOf(line, draft, draft.certain === 1), event), log);
  await recordOutcome(q, row.id, { state: "routed", conversation: draft.conversation, reason });
  failpointOfCommit(q, "receipt.commit", { channel, draft: draft.id });
}

const factsOf = (
  { outbound, traits: { platform } }: ChannelRuntime,
  draft: ReceiptDraft,
  certain: boolean,
): ReceiptFacts => ({ draft, certain, recipients: recipientsOf(outbound, draft), platform });

/** A reply proves that its draft was delivered. A draft without a known outcome becomes `sent` and is
 *  cited by the id in the reply. Called before any lookup by that id. `ours`: see `Thread`. */
export async function applyReplyAsReceipt(
  q: Query,
  line: ChannelRuntime,
  reply: ExternalId,
  ours: readonly { readonly id: ExternalId; readonly key: SendKey }[],
  log: Log,
): Promise<void> {
  const { channel } = line;
  const drafts = await loadDrafts(
    q,
    ours.map(({ key }) => key),
  );
  for (const { id, key } of ours) {
    const found = drafts.get(key);
    const draft = found === undefined ? null : await lockEnded(q, found, channel);
    if (draft === null) continue;
    drafts.delete(key);
    const event: DeliveryEvent = { kind: "delivery", id: reply, about: { key, sent: [id] }, state: "accepted" };
    logOnDisk(q, log).info(
      { channel, draft: draft.id, state: draft.state },
      "unknown draft reconciled by a reply to it",
    );
    await cite(q, channel, id, draft.conversation, draft.id);
    await write(q, line, draft, event, receiptEffect(factsOf(line, draft, true), event), log);
  }
}

/** Suppresses the recipient of a draft, because the provider refused it to a person who opted out. A person who has said START
 *  since the attempt is not suppressed: the provider reports the state before it. `via`: see `ReceiptDraft`. Returns whether
 *  the suppression applies. */
export async function applyOptOut(
  q: Query,
  line: ChannelRuntime,
  { id, recipient, via }: Pick<ReceiptDraft, "id" | "recipient" | "via">,
  reason: string,
): Promise<boolean> {
  const own = consentAddress(line, via);
  const since = (await lastAttempt(q, id))?.started_at ?? 0;
  const consent = { code: "opt-in", since, to: own === allOwn ? undefined : via } as const;
  if (await hasKeywordSince(q, line.channel, recipient, consent)) return false;
  await suppressOptedOut(q, line.channel, recipient, reason, own);
  return true;
}

/** Writes the effect of the event. Call with the lane's row locked. */
async function write(
  q: Query,
  line: ChannelRuntime,
  draft: ReceiptDraft,
  event: DeliveryEvent,
  effect: ReceiptEffect | "contradicts",
  log: Log,
): Promise<void> {
  const { channel } = line;
  const fields = { channel, draft: draft.id };
  if (effect === "contradicts")
    return logOnDisk(q, log).warn(fields, "delivery receipt ignored: a delivered reply is reported as failed");
  const { suppress, change, ends } = effect;
  if (suppress?.by === "opt-out") {
    const { id, via } = draft;
    const isApplied = await applyOptOut(q, line, { id, recipient: suppress.address, via }, suppress.reason);
    if (isApplied) logOnDisk(q, log).info(fields, "recipient opted out at the provider");
  } else if (suppress) {
    const suppressed = await strike(q, channel, suppress.address, strikeLimit, suppress.reason);
    logOnDisk(q, log).warn({ ...fields, suppressed }, "reply bounced");
  }
  reportDraft(q, draft, "receipt", { state: event.state, ...(event.code ? { code: event.code } : {}) });
  if (!change) return;
  if (change.externalId) await cite(q, channel, change.externalId, draft.conversation, draft.id);
  await changeDraft(q, draft.id, change);
  if (effect.notifies)
    await line.escalation()?.undeliverable(q, line, draft, { state: "failed", reason: change.reason ?? "" });
  if (ends === undefined) return;
  if (ends === "refused") await endRest(q, draft, "dropped");
  else await resumeRest(q, draft);
  await endAttempt(q, draft.id, ends, "receipt");
  await refreshLane(q, draft.conversation, "out");
}
