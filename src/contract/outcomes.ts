// What became of an attempt, as values. There is no fifth case and no exception to interpret.

import type { ExternalId } from "./ids.ts";

/** Whom a refusal or a deferral concerns. `channel` pauses every send of the channel (quota, bad credentials). */
export type Scope = "draft" | "recipient" | "channel";

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
  /** Certain: not yet. */
  | {
      readonly kind: "deferred";
      readonly reason: string;
      readonly retryAfterMs?: number;
      readonly scope?: Scope;
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
