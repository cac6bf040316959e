// The status of one side of the channel, derived from a failed connection or login.

import type { ChannelStatus } from "bridgehead/contract";
import { isTokenFailure } from "./oauth.ts";

/** The fields that imapflow, nodemailer and Node set on their errors. */
interface Traced {
  readonly code?: string;
  readonly authenticationFailed?: boolean;
  readonly serverResponseCode?: string;
  readonly response?: string;
  readonly responseText?: string;
  readonly responseCode?: number;
  readonly tlsFailed?: boolean;
  readonly mailboxMissing?: boolean;
}

/** Response codes (RFC 5530) that mean that the credentials are not accepted. */
const certainCodes = new Set(["AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED", "CONTACTADMIN"]);
const throttling =
  /\b(throttl|too many|rate limit|try again|temporar|unavailable|limit exceeded|bandwidth|maximum number)/i;
/** Without a response code, a rejection counts as a credentials error only after this many failures in a
 *  row. */
const doubtfulLimit = 3;

/** Returns the status after the `count`th failure in a row. Servers reject a throttled login with free
 *  text, so only a definite response code returns `unauthorized` at once. */
export function statusOf(
  error: unknown,
  count: number,
): Exclude<ChannelStatus, { state: "connecting" | "ready" }> {
  const traced = (error ?? {}) as Traced;
  if (isTokenFailure(error)) {
    const state = error.tokenFailure.certain ? "unauthorized" : "degraded";
    return { state, code: "token", reason: error.message };
  }
  // Since imapflow 2.3 a throttled login (Exchange: "Request is throttled") is not reported as an
  // authentication failure.
  if (traced.code === "ETHROTTLE")
    return { state: "degraded", code: "throttled", reason: "the login was throttled" };
  if (isCredentialProblem(traced)) {
    const text = traced.response ?? traced.responseText ?? "";
    if (throttling.test(text))
      return { state: "degraded", code: "throttled", reason: "the login was throttled" };
    const certain = certainCodes.has(traced.serverResponseCode ?? "") || isFinalSmtp(traced);
    if (certain || count >= doubtfulLimit) {
      return { state: "unauthorized", code: "login", reason: "the server rejects the credentials" };
    }
    return { state: "degraded", code: "login", reason: "the login failed; it may be throttled" };
  }
  if (traced.mailboxMissing)
    return { state: "degraded", code: "mailbox", reason: "the mailbox does not exist" };
  if (isTlsProblem(traced, error)) {
    return { state: "degraded", code: "tls", reason: `the encrypted line failed: ${brief(error)}` };
  }
  return { state: "degraded", code: "connection", reason: `the connection failed: ${brief(error)}` };
}

/** Returns the first line of an error's message, without long text that a server may have added. */
export function brief(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  const code = (error as Traced | null)?.code;
  return `${code ? `${code} ` : ""}${text.split(/[\r\n]/)[0] ?? ""}`.slice(0, 200);
}

function isCredentialProblem(traced: Traced): boolean {
  return traced.authenticationFailed === true || traced.code === "EAUTH";
}

function isFinalSmtp(traced: Traced): boolean {
  return traced.responseCode !== undefined && [530, 534, 535, 538].includes(traced.responseCode);
}

function isTlsProblem(traced: Traced, error: unknown): boolean {
  if (traced.tlsFailed || traced.code === "ETLS") return true;
  return /certificate|self.signed|ERR_TLS|ERR_SSL|STARTTLS/i.test(`${traced.code ?? ""} ${brief(error)}`);
}
