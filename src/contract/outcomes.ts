// The outcomes of a send attempt, as values. The four cases are complete, and no exception has to be interpreted.

import type { ExternalId } from "./ids.ts";

/** The extent of a refusal or a deferral. `sender` pauses the drafts that are sent from the same address of the channel
 *  (`MessageEvent.via`). `channel` pauses every draft of the channel: bad credentials, an unreachable provider. */
export type Scope = "draft" | "recipient" | "sender" | "channel";

/** Why a sender or a channel cannot send now. It selects the backoff, which has a schedule for each kind of channel.
 *  `unreachable`: no connection, the default. `login`: the credentials are rejected. `rate`: too many requests, a
 *  quota. `set-up`: the account or the number may not send until the operator changes something. */
export type DeferralCause = "unreachable" | "login" | "rate" | "set-up";

/** The outcome of one attempt to send a draft. */
export type SendOutcome =
  /** The provider has accepted it. `also`: further ids under which it may be cited (a Message-ID that
   *  the server substituted). */
  | {
      readonly kind: "sent";
      readonly id: ExternalId;
      readonly also?: readonly ExternalId[];
      readonly detail?: string;
    }
  /** The provider has permanently rejected it. Scope `recipient` counts towards suppressing the address. */
  | { readonly kind: "refused"; readonly code: string; readonly reason: string; readonly scope?: Scope }
  /** The provider has not accepted it yet, and the core retries. Without `scope` only this draft waits. `retryAfterMs`
   *  is the provider's Retry-After, or the adapter's own delay for this draft, at most three days; without it the core uses
   *  its backoff.
   *  The core retries a paused sender or channel with one draft, and the first success ends the pause. */
  | {
      readonly kind: "deferred";
      readonly reason: string;
      readonly retryAfterMs?: number;
      readonly scope?: Scope;
      readonly cause?: DeferralCause;
    }
  /** The draft may or may not have been sent. */
  | { readonly kind: "unknown"; readonly reason: string };

/** The result of a later check of an attempt with unknown outcome. */
export type Finding =
  | { readonly kind: "sent"; readonly id: ExternalId }
  | { readonly kind: "not-sent" }
  | { readonly kind: "unsure"; readonly lookAgainAfterMs?: number };

/** A channel's health, reported by the adapter whenever it changes. */
export type ChannelStatus =
  | { readonly state: "connecting" }
  | { readonly state: "ready" }
  | { readonly state: "degraded"; readonly code: string; readonly reason: string }
  | { readonly state: "unauthorized"; readonly code: string; readonly reason: string };

/** The result of `probe` for one side of a channel. */
export interface Probed {
  /** The name of the side, for the operator: `imap`, `smtp`. */
  readonly part: string;
  readonly status: ChannelStatus;
  /** The change that the operator has to make, in terms of the block's keys. */
  readonly fix?: string;
}
