// Delivery receipts: applies a delivery event (a status callback, a DSN) or a reply to the draft it is
// about. Part of stage route: runs in the event's own transaction.

import type { DeliveryEvent, Json, Log, MessageEvent } from "bridgehead/contract";
import { strikeLimit } from "../../domain/retry.ts";
import { failpoint } from "../../ops/failpoints.ts";
import type { Query } from "../../store/driver.ts";
import { lockLane, refreshLane } from "../../store/lanes.ts";
import { cite } from "../../store/tables/conversations.ts";
import {
  changeDraft,
  type DraftRow,
  draftByRecipient,
  draftBySent,
  isSending,
  readDraft,
} from "../../store/tables/drafts.ts";
import { awaitDraft, type EventRow, settleEvent } from "../../store/tables/events.ts";
import { endRest, resumeRest } from "../../store/tables/parts.ts";
import { strike } from "../../store/tables/suppressions.ts";
import { endAttempt } from "../../store/tables/turns.ts";
import type { ChannelRuntime } from "../channel-runtime.ts";
import { optedOut, suppressOptedOut } from "../route/consent.ts";

/** A delivery receipt may arrive before the response that contains the id it names. It is matched again
 *  after this many milliseconds, until the id is known. */
const lookAgainMs = 1000;
const patienceMs = 60_000;
/** A bounce that names only the recipient matches a draft sent within this time. Milliseconds. */
const bounceWindow = 7 * 24 * 3_600_000;
/** At most this many addresses of a report without our ids are looked up. */
const mentionLimit = 5;

/** Settles the event. Returns the id of its draft, or null when the event matches no draft that we sent
 *  or know of yet. */
export async function matchReceipt(
  q: Query,
  line: ChannelRuntime,
  row: EventRow,
  event: DeliveryEvent,
  log: Log,
): Promise<string | null> {
  // Read before the search, so that the search also finds attempts that end in between.
  const early =
    event.about.key === undefined && event.about.sent?.length && (await isSending(q, line.channel));
  const found = await findDraft(q, line, event);
  if (!found && early && (await awaitDraft(q, row.id, lookAgainMs, patienceMs))) {
    q.waits.add(lookAgainMs);
    return null;
  }
  if (!found) {
    log.info({ channel: line.channel, event: row.id, state: event.state }, "receipt about nothing we sent");
    await settleEvent(q, row.id, { state: "ignored", code: "unmatched", reason: event.detail ?? null });
    return null;
  }
  // A send worker may be about to write its outcome. The lane's lock orders the two transactions.
  await lockLane(q, found.draft.conversation, "out");
  const draft = (await readDraft(q, found.draft.id)) ?? found.draft;
  await apply(q, line, draft, found.certain, event, log);
  await settleEvent(q, row.id, {
    state: "routed",
    conversation: draft.conversation,
    reason: event.detail ?? null,
  });
  failpoint("receipt.commit", "before", { channel: line.channel, draft: draft.id });
  return draft.id;
}

/** A reply proves that its draft was delivered. A draft without a known outcome becomes `sent` and is
 *  cited by the id in the reply. Called before any lookup by that id. */
export async function heedAnswered(
  q: Query,
  line: ChannelRuntime,
  event: MessageEvent,
  log: Log,
): Promise<void> {
  if ("session" in event.thread) return;
  for (const { id, key } of event.thread.ours ?? []) {
    const found = await readDraft(q, key);
    if (found?.channel !== line.channel || found.state === "sent" || found.state === "delivered") continue;
    await lockLane(q, found.conversation, "out");
    const draft = (await readDraft(q, key)) ?? found;
    if (draft.attempts === 0) continue;
    log.info(
      { channel: line.channel, draft: draft.id, state: draft.state },
      "an answer shows that it went out",
    );
    await cite(q, line.channel, id, draft.conversation, draft.id);
    const about = { key, sent: [id] };
    await apply(q, line, draft, true, { kind: "delivery", id: event.id, about, state: "accepted" }, log);
  }
}

interface Match {
  readonly draft: DraftRow;
  /** False when only the recipient and the time match. */
  readonly certain: boolean;
}

async function findDraft(q: Query, line: ChannelRuntime, event: DeliveryEvent): Promise<Match | null> {
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
    const draft = await draftByRecipient(q, line.channel, address, bounceWindow);
    if (draft) return { draft, certain: false };
  }
  return null;
}

/** Returns the recipient that the event is about, and whether the draft was sent to that address at all.
 *  A text report names it among other addresses, the failed one first. If it names none of the draft's
 *  recipients and the draft has one recipient, that one is meant. Null: unknown. */
function recipientOf(
  line: ChannelRuntime,
  draft: DraftRow,
  { about }: DeliveryEvent,
): { readonly address: string; readonly ours: boolean } | null {
  const all = allRecipients(line, draft);
  if (about.recipient !== undefined) {
    const address = about.recipient.toLowerCase();
    return { address, ours: all.includes(address) };
  }
  const named = (about.mentioned ?? []).map((one) => one.toLowerCase()).find((one) => all.includes(one));
  if (about.mentioned === undefined || (named === undefined && all.length === 1))
    return { address: draft.recipient, ours: true };
  return named === undefined ? null : { address: named, ours: true };
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

/** Applies the event to the draft. States only advance: a late "accepted" never replaces "delivered",
 *  and a failed draft stays failed. A draft that is queued for a retry by policy is not sent again when
 *  its first attempt turns out to have arrived. */
async function apply(
  q: Query,
  line: ChannelRuntime,
  draft: DraftRow,
  certain: boolean,
  event: DeliveryEvent,
  log: Log,
): Promise<void> {
  if (draft.attempts === 0) return;
  const failing = recipientOf(line, draft, event);
  if (failing === null) return;
  const recipient = failing.address;
  // A mail may bounce after a server accepted it. A message delivered to a phone stays delivered, despite
  // later status callbacks.
  if (event.state === "failed" && draft.state === "delivered" && line.traits.platform !== "email") {
    log.warn(
      { channel: line.channel, draft: draft.id },
      "a delivered reply is reported as failed: not believed",
    );
    return;
  }
  // A bounce without our own ids may be forged. It marks a sent draft as failed, but suppresses no address
  // and notifies no responder.
  if (event.state === "failed" && event.code === optedOut && certain) {
    await suppressOptedOut(q, line.channel, recipient, event.detail ?? event.code);
    log.info({ channel: line.channel, draft: draft.id }, "the provider says that a person opted out");
  } else if (
    event.state === "failed" &&
    event.permanent &&
    certain &&
    // Every recipient of the reply knows its Message-ID: a forged bounce must not suppress a third address.
    failing.ours &&
    !(draft.state === "failed" && recipient === draft.recipient)
  ) {
    const suppressed = await strike(q, line.channel, recipient, strikeLimit, event.detail ?? "hard bounce");
    log.warn({ channel: line.channel, draft: draft.id, suppressed }, "a reply bounced");
  }
  // A bounced copy (Cc) does not change the draft's delivery to its main recipient.
  if (recipient !== draft.recipient) return;
  const pending = !["sent", "delivered", "failed"].includes(draft.state);
  // A report without our ids may be forged. It does not end a draft that is reconciled, queued for a retry,
  // or held for an operator.
  if (pending && !certain) return;
  // When the response to the send was lost, only the delivery receipt contains the provider's id.
  const [id] = pending && event.state !== "failed" ? (event.about.sent ?? []) : [];
  if (id !== undefined) await cite(q, line.channel, id, draft.conversation, draft.id);
  const settled = { open: 0 as const, reason: event.detail ?? null, externalId: id ?? null };
  if (event.state === "failed") {
    if (draft.state === "failed") return;
    await changeDraft(q, draft.id, { state: "failed", ...settled });
    if (certain)
      await line.escalation()?.stuck(q, line, draft, { state: "failed", reason: settled.reason ?? "" });
  } else if (event.state === "accepted") {
    if (pending) await changeDraft(q, draft.id, { state: "sent", ...settled });
  } else if (pending || draft.state === "sent") {
    await changeDraft(q, draft.id, { state: "delivered", ...settled });
  }
  if (pending) {
    if (event.state === "failed") await endRest(q, draft, "dropped");
    else await resumeRest(q, draft);
    await endAttempt(q, draft.id, event.state === "failed" ? "refused" : "sent", "receipt");
    await refreshLane(q, draft.conversation, "out");
  }
}
