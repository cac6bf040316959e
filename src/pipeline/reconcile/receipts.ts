// Delivery receipts: applies a delivery event (a status callback, a DSN) or a reply to the draft it is
// about. Part of stage route: runs in the event's own transaction.

import type { DeliveryEvent, ExternalId, Json, Log, SendKey } from "bridgehead/contract";
import { optedOut } from "../../domain/guards.ts";
import { strikeLimit } from "../../domain/retry.ts";
import type { Timing } from "../../ops/timing.ts";
import { failpointOfCommit, logOnDisk, type Query } from "../../store/driver.ts";
import { lockLane, refreshLane } from "../../store/lanes.ts";
import { cite, readConversation } from "../../store/tables/conversations.ts";
import { changeDraft, type DraftRow, endRest, readDraft, reportDraft, resumeRest } from "../../store/tables/drafts.ts";
import { awaitDraft, type EventRow, recordOutcome } from "../../store/tables/events.ts";
import { strike, suppressOptedOut } from "../../store/tables/suppressions.ts";
import { endAttempt } from "../../store/tables/turns.ts";
import { type ChannelRuntime, consentAddress } from "../channel-runtime.ts";
import { receiptEffect } from "./decide.ts";
import { draftByRecipient, draftBySent, isSending } from "./rows.ts";

/** At most this many addresses of a report without our ids are looked up. */
const mentionLimit = 5;

/** Applies a delivery receipt and ends its event. Returns the id of its draft, or null when the event matches no draft that we sent
 *  or know of yet. */
export async function matchReceipt(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: DeliveryEvent,
  { log, timing: { reconcile: timing } }: { readonly log: Log; readonly timing: Timing },
): Promise<string | null> {
  // Read before the search, so that the search also finds attempts that end in between.
  const early = event.about.key === undefined && event.about.sent?.length && (await isSending(q, line.channel));
  const found = await findDraft(q, line, event, timing.bounce);
  // A delivery receipt may arrive before the response that contains the id it names. It is matched again until
  // the id is known.
  if (!found && early && (await awaitDraft(q, row.id, timing.receiptRetry, timing.receiptWait))) {
    q.waits.add(timing.receiptRetry);
    return null;
  }
  if (!found) {
    logOnDisk(q, log).info(
      { channel: line.channel, event: row.id, state: event.state },
      "delivery receipt ignored: no matching draft",
    );
    await recordOutcome(q, row.id, { state: "ignored", code: "unmatched", reason: event.detail ?? null });
    return null;
  }
  // A send worker may be about to write its outcome. The lane's lock orders the two transactions.
  await lockLane(q, found.draft.conversation, "out");
  const draft = (await readDraft(q, found.draft.id)) ?? found.draft;
  await apply(q, line, draft, found.certain, event, log);
  await recordOutcome(q, row.id, {
    state: "routed",
    conversation: draft.conversation,
    reason: event.detail ?? null,
  });
  failpointOfCommit(q, "receipt.commit", { channel: line.channel, draft: draft.id });
  return draft.id;
}

/** A reply proves that its draft was delivered. A draft without a known outcome becomes `sent` and is
 *  cited by the id in the reply. Called before any lookup by that id. `ours`: see `Thread`. */
export async function applyReplyAsReceipt(
  q: Query,
  line: ChannelRuntime,
  reply: ExternalId,
  ours: readonly { readonly id: ExternalId; readonly key: SendKey }[],
  log: Log,
): Promise<void> {
  for (const { id, key } of ours) {
    const found = await readDraft(q, key);
    if (found?.channel !== line.channel || found.state === "sent" || found.state === "delivered") continue;
    await lockLane(q, found.conversation, "out");
    const draft = (await readDraft(q, key)) ?? found;
    if (draft.attempts === 0) continue;
    logOnDisk(q, log).info(
      { channel: line.channel, draft: draft.id, state: draft.state },
      "unknown draft reconciled by a reply to it",
    );
    await cite(q, line.channel, id, draft.conversation, draft.id);
    const about = { key, sent: [id] };
    await apply(q, line, draft, true, { kind: "delivery", id: reply, about, state: "accepted" }, log);
  }
}

interface Match {
  readonly draft: DraftRow;
  /** False when only the recipient and the time match. */
  readonly certain: boolean;
}

async function findDraft(
  q: Query,
  line: ChannelRuntime,
  event: DeliveryEvent,
  bounceMs: number,
): Promise<Match | null> {
  const { key, sent, recipient } = event.about;
  if (key) {
    const draft = await readDraft(q, key);
    if (draft?.channel === line.channel) return { draft, certain: true };
  }
  for (const id of sent ?? []) {
    const draft = await draftBySent(q, line.channel, id);
    if (draft) return { draft, certain: true };
  }
  const named = [...(recipient ? [recipient] : []), ...(event.about.mentioned ?? [])].slice(0, mentionLimit);
  for (const address of named) {
    const draft = await draftByRecipient(q, line.channel, address, bounceMs);
    if (draft) return { draft, certain: false };
  }
  return null;
}

/** Returns the recipients in lower case. A draft whose body was removed by the retention, or was stored
 *  by another adapter, has one recipient. */
function allRecipients(line: ChannelRuntime, draft: DraftRow): readonly string[] {
  try {
    const found = line.outbound?.recipients?.(JSON.parse(draft.body) as Json) ?? [];
    return [...new Set([draft.recipient, ...found.map((one) => one.toLowerCase())])];
  } catch {
    return [draft.recipient];
  }
}

/** Applies the event to the draft. Call with the lane's row locked. */
async function apply(
  q: Query,
  line: ChannelRuntime,
  draft: DraftRow,
  certain: boolean,
  event: DeliveryEvent,
  log: Log,
): Promise<void> {
  const fields = { channel: line.channel, draft: draft.id };
  const facts = { draft, recipients: allRecipients(line, draft), certain, platform: line.traits.platform };
  const effect = receiptEffect(facts, event);
  if (effect === "contradicts")
    return logOnDisk(q, log).warn(fields, "delivery receipt ignored: a delivered reply is reported as failed");
  const { suppress, change, ends } = effect;
  const reason = event.detail ?? event.code;
  if (suppress?.by === "opt-out") {
    const { via } = await readConversation(q, draft.conversation);
    await suppressOptedOut(q, line.channel, suppress.address, reason ?? optedOut, consentAddress(line, via));
    logOnDisk(q, log).info(fields, "recipient opted out at the provider");
  } else if (suppress) {
    const cause = event.detail ?? "hard bounce";
    const suppressed = await strike(q, line.channel, suppress.address, strikeLimit, cause);
    logOnDisk(q, log).warn({ ...fields, suppressed }, "reply bounced");
  }
  reportDraft(q, draft, "receipt", { state: event.state, ...(event.code ? { code: event.code } : {}) });
  if (!change) return;
  if (change.externalId) await cite(q, line.channel, change.externalId, draft.conversation, draft.id);
  await changeDraft(q, draft.id, change);
  if (effect.notifies)
    await line.escalation()?.undeliverable(q, line, draft, { state: "failed", reason: change.reason ?? "" });
  if (ends === undefined) return;
  if (ends === "refused") await endRest(q, draft, "dropped");
  else await resumeRest(q, draft);
  await endAttempt(q, draft.id, ends, "receipt");
  await refreshLane(q, draft.conversation, "out");
}
