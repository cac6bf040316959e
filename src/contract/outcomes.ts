// What became of an attempt, as values. There is no fifth case and no exception to interpret.

import type { ExternalId } from "./ids.ts";

/** What a refusal or a deferral concerns. `sender` pauses the drafts that go out from the same address of ours
 *  (`MessageEvent.via`); `channel` pauses every draft of the channel: bad credentials, an unreachable provider. */
export type Scope = "draft" | "recipient" | "sender" | "channel";

/** Why a sender or a channel cannot send now. It selects the backoff, which has a schedule for each kind of channel.
 *  `unreachable`: no connection, the default. `login`: the credentials are rejected. `rate`: too many requests, a quota.
 *  `set-up`: the account or the number may not send until the operator changes something. */
export type DeferralCause = "unreachable" | "login" | "rate" | "set-up";

/** What became of one attempt to send a draft. Certain or not. */
export type SendOutcome =
  /** The provider has it. `also`: further ids it may be cited under (the Message-ID the server put in place of ours). */
  | {
      readonly kind: "sent";
      readonly id: ExternalId;
      readonly also?: readonly ExternalId[];
      readonly detail?: string;
    }
  /** Certain: no, and never. scope `recipient` counts towards suppressing the address. */
  | { readonly kind: "refused"; readonly code: string; readonly reason: string; readonly scope?: Scope }
  /** Certain: not yet. Without `scope` only this draft waits. `retryAfterMs` is the provider's own Retry-After, or the
   *  adapter's for this draft; without it the core backs off. A paused sender or channel is tried again with one draft,
   *  and the first success ends the pause. */
  | {
      readonly kind: "deferred";
      readonly reason: string;
      readonly retryAfterMs?: number;
      readonly scope?: Scope;
      readonly cause?: DeferralCause;
    }
  /** It may have gone out. */
  | { readonly kind: "unknown"; readonly reason: string };

/** What a later look found out about an attempt of unknown outcome. */
export type Verdict =
  | { readonly kind: "sent"; readonly id: ExternalId }
  | { readonly kind: "not-sent" }
  | { readonly kind: "unsure"; readonly lookAgainAfterMs?: number };

/** A channel's health, reported by the adapter whenever it changes. */
export type ChannelStatus =
  | { readonly state: "connecting" }
  | { readonly state: "ready" }
  | { readonly state: "degraded"; readonly code: string; readonly reason: string }
  | { readonly state: "unauthorized"; readonly code: string; readonly reason: string };

/** What `probe` found out about one side of a channel. */
export interface Probed {
  /** For the operator: `imap`, `smtp`. */
  readonly part: string;
  readonly status: ChannelStatus;
  /** What the operator has to change, in terms of the block's keys. */
  readonly fix?: string;
}
