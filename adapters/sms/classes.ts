// What can be wrong with a text, whatever the provider calls it, and what that means for the draft and for the channel.
// Each provider has one table from its own codes to these classes.

import type { ChannelStatus, SendOutcome } from "bridgehead/contract";

/** Whom or what a refusal is about. */
export type TextClass =
  /** This address never gets a text. */
  | "recipient"
  /** The person said STOP. */
  | "opted-out"
  /** Our login. */
  | "login"
  /** Our number, our account: nothing goes out until a human mends it. */
  | "set-up"
  /** Our account is not enabled for this person's country or network; others are not concerned. */
  | "reach"
  /** These words. */
  | "content"
  /** Certainly not processed: too much at once. */
  | "rate"
  /** Accepted, and not delivered this time. */
  | "unreached"
  /** Accepted, and too late by now. */
  | "expired"
  /** Perhaps processed. */
  | "ambiguous";

/** What was told, in words that name no person. */
export interface Refusal {
  readonly code: string;
  readonly reason: string;
  readonly retryAfterMs?: number | undefined;
}

const minute = 60_000;

/** A provider's table turned round: from code to class. */
export function classes<Code extends number | string>(
  table: Readonly<Partial<Record<TextClass, readonly Code[]>>>,
): ReadonlyMap<Code, TextClass> {
  return new Map(
    Object.entries(table).flatMap(([kind, codes]) => codes.map((code) => [code, kind as TextClass] as const)),
  );
}

/** What became of a text that was refused in this way; a class unknown to us refuses the draft alone. */
export function outcomeOf(kind: TextClass | null, { code, reason, retryAfterMs }: Refusal): SendOutcome {
  const again = (ms: number) => ({ retryAfterMs: retryAfterMs ?? ms });
  switch (kind) {
    case "recipient":
      return { kind: "refused", code, reason, scope: "recipient" };
    case "opted-out":
      return { kind: "refused", code: "opted-out", reason, scope: "recipient" };
    case "login":
      return { kind: "deferred", reason, ...again(5 * minute), scope: "channel" };
    case "set-up":
      return { kind: "deferred", reason, ...again(15 * minute), scope: "channel" };
    case "reach":
      // Whoever lives elsewhere waits for the operator; everybody else must not wait with them.
      return { kind: "deferred", reason, ...again(60 * minute), scope: "recipient" };
    case "rate":
      return {
        kind: "deferred",
        reason,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
        scope: "channel",
      };
    case "unreached":
      return { kind: "deferred", reason, ...again(2 * minute) };
    case "ambiguous":
      return { kind: "unknown", reason };
    case "content":
    case "expired":
    case null:
      return { kind: "refused", code, reason };
  }
}

/** What a refusal says about the channel; null: nothing. */
export function statusOf(kind: TextClass | null, { code, reason }: Refusal): ChannelStatus | null {
  if (kind === "login") return { state: "unauthorized", code, reason };
  if (kind === "set-up" || kind === "reach") return { state: "degraded", code, reason };
  return null;
}

/** True when the address is dead, or closed to us. */
export function isPermanent(kind: TextClass | null | undefined): boolean {
  return kind === "recipient" || kind === "opted-out";
}

/** Providers repeat the number in what they say, and reasons are logged. */
export function withoutNumbers(text: string): string {
  return text.replace(/\+?\d[\d\s().-]{5,}\d/g, "<number>").slice(0, 300);
}
