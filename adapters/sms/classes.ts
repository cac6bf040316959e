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
  /** Our account: nothing goes out until the operator changes something. */
  | "account"
  /** The sending number, WhatsApp sender or messaging service: other senders of the account are not concerned. */
  | "set-up"
  /** Our account is not enabled for this person's country or network; others are not concerned. */
  | "reach"
  /** These words. */
  | "content"
  /** Certainly not processed: too many requests of the account. */
  | "rate"
  /** Certainly not processed: the sender's own queue or throughput is full. */
  | "sender-rate"
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
  const told = retryAfterMs === undefined ? {} : { retryAfterMs };
  switch (kind) {
    case "recipient":
      return { kind: "refused", code, reason, scope: "recipient" };
    case "opted-out":
      return { kind: "refused", code: "opted-out", reason, scope: "recipient" };
    case "login":
      return { kind: "deferred", reason, ...told, scope: "channel", cause: "login" };
    case "account":
      return { kind: "deferred", reason, ...told, scope: "channel", cause: "set-up" };
    case "set-up":
      return { kind: "deferred", reason, ...told, scope: "sender", cause: "set-up" };
    case "reach":
      // Recipients of that country wait for the operator; the others are not concerned.
      return { kind: "deferred", reason, ...again(60 * minute), scope: "recipient" };
    case "rate":
      return { kind: "deferred", reason, ...told, scope: "channel", cause: "rate" };
    case "sender-rate":
      return { kind: "deferred", reason, ...told, scope: "sender", cause: "rate" };
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
  if (kind === "account" || kind === "set-up" || kind === "reach") return { state: "degraded", code, reason };
  return null;
}

/** What becomes of a text for which no connection was made: nothing was sent, and no other text can be sent either. */
export function unreachable(error: unknown): SendOutcome {
  const reason = `the provider was not reached: ${wordsOf(error)}`;
  return { kind: "deferred", reason, scope: "channel", cause: "unreachable" };
}

/** An error of the network in one short line. */
export function wordsOf(error: unknown): string {
  const code = (error as { code?: unknown } | null)?.code;
  const words = error instanceof Error ? error.message : String(error);
  return `${typeof code === "string" ? `${code} ` : ""}${words}`.slice(0, 200);
}

/** True when the address is dead, or closed to us. */
export function isPermanent(kind: TextClass | null | undefined): boolean {
  return kind === "recipient" || kind === "opted-out";
}

/** Providers repeat the number in what they say, and reasons are logged. */
export function withoutNumbers(text: string): string {
  return text.replace(/\+?\d[\d\s().-]{5,}\d/g, "<number>").slice(0, 300);
}
