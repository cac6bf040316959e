// Decisions of stage reconcile and of delivery receipts on loaded rows. Pure: the caller passes the jitter
// and writes the results.

import type { DeliveryEvent, Finding, Json, Outbound } from "bridgehead/contract";
import { optedOut } from "../../domain/guards.ts";
import { delayAfter, type Pace } from "../../domain/retry.ts";
import type { Timing } from "../../ops/timing.ts";
import { type DraftChange, type DraftRow, unknownOutcome } from "../../store/tables/drafts.ts";
import type { ChannelRules } from "../channel-runtime.ts";

/** What the delays of a draft depend on. */
export interface DraftBackoff {
  readonly pace: Pace;
  readonly timing: Pick<Timing, "send" | "reconcile">;
  readonly jitter: (ms: number) => number;
}

type ReconcileRules = Pick<ChannelRules, "on_unknown" | "unknown_window" | "on_permanent_failure">;

/** Returns the rules for a notification of unknown outcome: it is sent again after `window` milliseconds. A missed
 *  notification is worse than a duplicate. */
export const notificationRules = (rules: ChannelRules, window: number): ChannelRules => ({
  ...rules,
  on_unknown: "resend",
  on_permanent_failure: "continue",
  unknown_window: Math.min(rules.unknown_window, window),
});

/** Reason of a draft that the provider does not have. */
export const notSent = "reconcile: it was not sent";

/** Returns the change of an unknown draft after the adapter's finding. `absences`: how many earlier attempts were not found.
 *  A draft that is not found is sent again once; the lookup itself may be wrong, and would repeat the message without end.
 *  Retries by policy could do the same: their backoff grows, and the lifetime of deferred drafts applies. */
export function changeAfter(
  finding: Finding,
  draft: Pick<DraftRow, "lookups" | "reconcile_left" | "attempts" | "trying_for"> & { readonly absences: number },
  rules: ReconcileRules,
  backoff: DraftBackoff,
): DraftChange {
  // The window of an attempt in which the process died begins with the first lookup.
  const left = Math.min(draft.reconcile_left ?? rules.unknown_window, rules.unknown_window);
  switch (finding.kind) {
    case "sent":
      return { state: "sent", open: 0, externalId: finding.id, reason: "reconcile: the provider has it" };
    case "not-sent":
      return draft.absences === 0
        ? { state: "queued", open: 1, reason: notSent }
        : byPolicy(draft, rules, backoff, `${notSent}, for the second time`);
    case "unsure": {
      if (left <= 0) return byPolicy(draft, rules, backoff);
      const { lookup } = backoff.timing.reconcile;
      const asked = finding.lookAgainAfterMs ?? delayAfter(draft.lookups + 1, lookup);
      return {
        state: "unknown",
        open: 1,
        dueInMs: Math.min(Math.max(asked, delayAfter(1, lookup)), left),
        lookups: draft.lookups + 1,
        reconcileForMs: left,
        reason: "reconcile: the outcome is still unknown",
      };
    }
  }
}

function byPolicy(
  draft: Pick<DraftRow, "attempts" | "trying_for">,
  rules: ReconcileRules,
  { pace, timing, jitter }: DraftBackoff,
  reason = "the outcome is unknown: it may have been sent",
): DraftChange {
  const blocking = rules.on_permanent_failure === "block" ? 1 : 0;
  switch (rules.on_unknown) {
    case "resend": {
      const resending = `${reason}; sent again by policy, under the same id`;
      if ((draft.trying_for ?? 0) > timing.send.lifetime)
        return { state: "failed", open: blocking, code: "given-up", reason: `given up: ${resending}` };
      const change = { state: "queued", open: 1, reason: resending } as const;
      if (draft.attempts < 2) return change;
      return { ...change, dueInMs: jitter(delayAfter(draft.attempts - 1, timing.send.retry[pace])) };
    }
    case "drop":
      return { state: "dropped", open: 0, code: unknownOutcome, reason: `${reason}; dropped by policy` };
    case "hold":
      return { state: "held", open: blocking, code: unknownOutcome, reason };
  }
}

/** At most this many addresses of a report without our ids are looked up. */
const mentionLimit = 5;

/** Returns the addresses that a report names, in lower case: that of the recipient first. */
export const addressesOf = ({ recipient, mentioned = [] }: DeliveryEvent["about"]): readonly string[] =>
  [...(recipient ? [recipient] : []), ...mentioned].slice(0, mentionLimit).map((address) => address.toLowerCase());

/** How a draft was found that a delivery receipt may be about. */
export interface DraftMatch {
  /** 1: by its key or by an id that it was sent under. 0: by an address of the report, which may be forged. */
  readonly certain: 0 | 1;
  /** -1: by its key. Otherwise the place of the id or address in the report. */
  readonly place: number;
}

/** Returns the draft that the receipt is about, or null. Its key comes before its ids, and these before its addresses. */
export const chooseDraft = <Found extends DraftMatch>(matches: readonly Found[]): Found | null =>
  matches.toSorted((a, b) => b.certain - a.certain || a.place - b.place)[0] ?? null;

/** Returns whether an attempt that is running may be the one that a receipt is about for which no draft was found: it names
 *  the provider's ids alone, and the response to the send has them. */
export const mayBeEarly = ({ key, sent = [] }: DeliveryEvent["about"]): boolean => key === undefined && sent.length > 0;

/** The facts that decide about a delivery receipt. */
export interface ReceiptFacts {
  readonly draft: Pick<DraftRow, "state" | "attempts" | "recipient">;
  /** Every address that the draft was sent to, in lower case. */
  readonly recipients: readonly string[];
  /** False when only the recipient and the time match: the report may be forged. */
  readonly certain: boolean;
  /** `Traits.platform` of the channel. */
  readonly platform: string | null;
}

/** Returns the recipients in lower case. A draft whose body was removed by the retention, or was stored by another
 *  adapter, has one recipient. */
export function recipientsOf(
  outbound: Outbound | null,
  { recipient, body }: Pick<DraftRow, "recipient" | "body">,
): readonly string[] {
  try {
    const found = outbound?.recipients?.(JSON.parse(body) as Json) ?? [];
    return [...new Set([recipient, ...found.map((one) => one.toLowerCase())])];
  } catch {
    return [recipient];
  }
}

/** True for a draft that was tried on this channel and is not known to have been sent. A reply to it proves that it was. */
export const isEndedByReply = (draft: Pick<DraftRow, "channel" | "state" | "attempts">, channel: string): boolean =>
  draft.channel === channel && draft.attempts > 0 && draft.state !== "sent" && draft.state !== "delivered";

const nextStates = { failed: "failed", accepted: "sent", delivered: "delivered", read: "delivered" } as const;

/** The writes that follow from a delivery receipt. */
export interface ReceiptEffect {
  /** The address that opted out, or that counts a hard bounce. */
  readonly suppress?: { readonly address: string; readonly by: "opt-out" | "strike"; readonly reason: string };
  readonly change?: DraftChange;
  /** The draft's outcome was open and is known now: its attempt ends with this outcome. */
  readonly ends?: "sent" | "refused";
  /** Responders are notified that the draft was not delivered. */
  readonly notifies?: boolean;
}

/** Decides what a delivery receipt changes. States only advance: a late "accepted" never replaces
 *  "delivered", and a failed draft stays failed. A draft that is queued for a retry by policy is not sent
 *  again when its first attempt turns out to have arrived. Returns "contradicts" when a message that was
 *  delivered to a phone is reported as failed. */
export function receiptEffect(
  { draft, recipients, certain, platform }: ReceiptFacts,
  event: DeliveryEvent,
): ReceiptEffect | "contradicts" {
  if (draft.attempts === 0) return {};
  const about = recipientOf(draft.recipient, recipients, event.about);
  if (about === null) return {};
  const failed = event.state === "failed";
  // A mail may bounce after a server accepted it. A message delivered to a phone stays delivered, despite
  // later status callbacks.
  if (failed && draft.state === "delivered" && platform !== "email") return "contradicts";
  const suppress = failed && certain ? suppressionBy(draft, about, event) : {};
  // A bounced copy (Cc) does not change the draft's delivery to its main recipient.
  if (!about.isMain) return suppress;
  const pending = !["sent", "delivered", "failed"].includes(draft.state);
  // A report without our ids may be forged. It does not end a draft that is reconciled, queued for a retry,
  // or held for an operator.
  if (pending && !certain) return suppress;
  const next = nextStates[event.state];
  const advances = failed ? draft.state !== "failed" : pending || (next === "delivered" && draft.state === "sent");
  if (!advances) return suppress;
  // When the response to the send was lost, only the delivery receipt contains the provider's id.
  const externalId = pending && !failed ? (event.about.sent?.[0] ?? null) : null;
  return {
    ...suppress,
    change: {
      state: next,
      open: 0,
      ...(failed ? { code: event.code ?? "not-delivered" } : {}),
      reason: event.detail ?? null,
      externalId,
    },
    ...(pending ? { ends: failed ? "refused" : "sent" } : {}),
    ...(failed && certain ? { notifies: true } : {}),
  };
}

function suppressionBy(
  draft: ReceiptFacts["draft"],
  { address, ours }: Recipient,
  event: DeliveryEvent,
): Pick<ReceiptEffect, "suppress"> {
  const { detail } = event;
  if (event.code === optedOut) return { suppress: { address, by: "opt-out", reason: detail ?? optedOut } };
  const repeated = draft.state === "failed" && address === draft.recipient;
  // Every recipient of the reply knows its Message-ID: a forged bounce must not suppress a third address.
  if (!event.permanent || !ours || repeated) return {};
  return { suppress: { address, by: "strike", reason: detail ?? "hard bounce" } };
}

interface Recipient {
  readonly address: string;
  /** Whether the draft was sent to that address at all. */
  readonly ours: boolean;
  /** Whether the event is about the delivery to the main recipient. */
  readonly isMain: boolean;
}

/** Returns the recipient that the event is about. A text report names it among other addresses, the failed one first.
 *  If it names none of the draft's recipients and the draft has one recipient, that one is meant: a server that forwards
 *  mails reports the address behind it (RFC 3464 2.3.2). Null: unknown. */
function recipientOf(main: string, all: readonly string[], about: DeliveryEvent["about"]): Recipient | null {
  const { recipient, mentioned } = about;
  const names = recipient === undefined ? mentioned : [recipient];
  const named = names?.map((one) => one.toLowerCase()).find((one) => all.includes(one));
  if (named !== undefined) return { address: named, ours: true, isMain: named === main };
  if (recipient !== undefined) return { address: recipient.toLowerCase(), ours: false, isMain: all.length === 1 };
  return names === undefined || all.length === 1 ? { address: main, ours: true, isMain: true } : null;
}
