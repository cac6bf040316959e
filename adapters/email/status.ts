// What failures mean: the status of one side of the channel after a failed connection or login, and the outcome of a draft
// after an SMTP response or its absence (RFC 5321, RFC 3463).

import type { ChannelStatus, SendOutcome } from "bridgehead/contract";
import { isTokenFailure } from "./oauth.ts";
import { otherReasons } from "./parse/machine/phrases.ts";

/** The fields that nodemailer sets on its errors. */
export interface SmtpFailure {
  readonly code?: string | undefined;
  readonly command?: string | undefined;
  readonly response?: string | undefined;
  readonly responseCode?: number | undefined;
  /** The recipient whose RCPT the server refused. */
  readonly recipient?: string | undefined;
  /** The refusals of all recipients. */
  readonly rejectedErrors?: readonly SmtpFailure[] | undefined;
}

/** The fields that imapflow, nodemailer and Node set on their errors. */
interface Traced extends SmtpFailure {
  readonly authenticationFailed?: boolean;
  readonly serverResponseCode?: string;
  readonly responseText?: string;
  readonly tlsFailed?: boolean;
  readonly mailboxMissing?: boolean;
  readonly storeFailed?: boolean;
  readonly parserFailed?: boolean;
}

type FailedStatus = Exclude<ChannelStatus, { state: "connecting" | "ready" }>;

const rejected = (reason = "the server rejects the credentials"): FailedStatus => ({
  state: "unauthorized",
  code: "login",
  reason,
});
const throttled: FailedStatus = { state: "degraded", code: "throttled", reason: "the login was throttled" };
/** The server cannot check the credentials now. */
const unavailable: FailedStatus = {
  state: "degraded",
  code: "server",
  reason: "the server cannot process the login now",
};

/** What the response codes of RFC 5530 mean in the response to a login. */
const loginCodes: Readonly<Partial<Record<string, FailedStatus>>> = {
  AUTHENTICATIONFAILED: rejected(),
  AUTHORIZATIONFAILED: rejected(),
  NOPERM: rejected("the account has no permission to log in"),
  EXPIRED: rejected("the password has expired"),
  CONTACTADMIN: rejected("the account is blocked until its administrator has been contacted"),
  PRIVACYREQUIRED: {
    state: "degraded",
    code: "tls",
    reason: "the server accepts the login only over an encrypted connection",
  },
  UNAVAILABLE: unavailable,
  SERVERBUG: unavailable,
  CLIENTBUG: unavailable,
  CORRUPTION: unavailable,
  CANNOT: unavailable,
  INUSE: unavailable,
  LIMIT: throttled,
  OVERQUOTA: throttled,
};
/** SMTP responses (RFC 4954, section 6) that mean that the credentials are not accepted. */
const finalLogin = new Set([530, 534, 535, 538]);
/** Those that mean that the server knows no AUTH, or not this mechanism: a relay, or the wrong port (RFC 5321, section 4.2.1;
 *  RFC 4954, section 4). */
const withoutLogin = new Set([500, 502, 504]);
const throttling =
  /\b(throttl|too many|rate limit|try again|temporar|unavailable|limit exceeded|bandwidth|maximum number)/i;
/** Without a response code, a rejection counts as a credentials error only after this many failures in a row. */
const doubtfulLimit = 3;

/** Returns the status after the `count`th failure in a row. Servers reject a throttled login with free
 *  text, so only a definite response code returns `unauthorized` at once. */
export function statusOf(error: unknown, count: number): FailedStatus {
  const traced = (error ?? {}) as Traced;
  if (isTokenFailure(error)) {
    const state = error.tokenFailure.certain ? "unauthorized" : "degraded";
    return { state, code: "token", reason: error.message };
  }
  // Since imapflow 2.3 a throttled login (Exchange: "Request is throttled") is not reported as an
  // authentication failure.
  if (traced.code === "ETHROTTLE") return throttled;
  if (traced.authenticationFailed === true || traced.code === "EAUTH") {
    const { serverResponseCode = "", responseCode = 0 } = traced;
    const text = traced.response ?? traced.responseText ?? "";
    const meaning = Object.hasOwn(loginCodes, serverResponseCode) ? loginCodes[serverResponseCode] : undefined;
    if (meaning) return meaning;
    if (throttling.test(text)) return throttled;
    // A 4xx response to AUTH is not about the credentials (RFC 4954, section 6).
    if (responseCode >= 400 && responseCode < 500) return unavailable;
    if (withoutLogin.has(responseCode)) return rejected("the server offers no such login");
    if (finalLogin.has(responseCode) || count >= doubtfulLimit) return rejected();
    return { state: "degraded", code: "login", reason: "the login failed; it may be throttled" };
  }
  if (traced.storeFailed) return { state: "degraded", code: "store", reason: `storing mail failed: ${brief(error)}` };
  if (traced.parserFailed) return { state: "degraded", code: "parser", reason: brief(error) };
  if (traced.mailboxMissing) return { state: "degraded", code: "mailbox", reason: "the mailbox does not exist" };
  // A tagged NO or BAD to a command after the login: imapflow's own message is only "Command failed".
  const answer = oneLine(traced.responseText ?? "");
  if (answer !== "") return { state: "degraded", code: "server", reason: `the server rejected a command: ${answer}` };
  const isTls = traced.tlsFailed || traced.code === "ETLS" || tlsWords.test(`${traced.code ?? ""} ${String(error)}`);
  return isTls
    ? { state: "degraded", code: "tls", reason: `the TLS connection failed: ${brief(error)}` }
    : { state: "degraded", code: "connection", reason: `the connection failed: ${brief(error)}` };
}

/** Returns the status of one side, named in the reason: each has a server and credentials of its own. */
export function statusOfSide(side: "imap" | "smtp", error: unknown, count: number): FailedStatus {
  const status = statusOf(error, count);
  return status.code === "store" || status.code === "parser"
    ? status
    : { ...status, reason: `${side}: ${status.reason}` };
}

/** Returns the first line of an error's message, without long text that a server may have added. For a command that an IMAP
 *  server rejected it is the server's text: imapflow's message is only "Command failed". */
export function brief(error: unknown): string {
  const { code, responseText = "" } = (error ?? {}) as Traced;
  const text = oneLine(responseText) || (error instanceof Error ? error.message : String(error));
  const line = text.split(/[\r\n]/)[0] ?? "";
  return `${code ? `${code} ` : ""}${tlsReason.exec(line)?.[1] ?? line}`.slice(0, 200);
}

/** The reason in a line of OpenSSL's error queue: thread:error:number:library:function:reason:file:line. */
const tlsReason = /:error:[0-9A-F]{1,16}:[^:]{0,100}:[^:]{0,100}:([^:]{1,100}):/;
const tlsWords = /certificate|self.signed|ERR_TLS|ERR_SSL|STARTTLS|:error:[0-9A-F]{1,16}:SSL routines:/i;

/** Truncates a server's text and removes control characters that a terminal would interpret. */
export const oneLine = (text: string): string =>
  text
    .slice(0, 2000)
    .replace(/[\p{Cc}\p{Cf}\s]+/gu, " ")
    .trim()
    .slice(0, 300);

/** The outcome is certain except in one case: the message was complete (`crossed`) and no response
 *  arrived. A connection that fails before the final dot has delivered nothing (RFC 5321, 4.1.1.4). */
export function outcomeOf(error: unknown, crossed: boolean): SendOutcome {
  const failure = (error ?? {}) as SmtpFailure;
  const code = failure.responseCode;
  if (isTokenFailure(error) || isLogin(failure)) {
    // A 4xx response to AUTH means that the server cannot check the login now (RFC 4954, section 6).
    const cause = code !== undefined && code >= 400 && code < 500 ? "unreachable" : "login";
    return { kind: "deferred", reason: brief(error), scope: "channel", cause };
  }
  // The SMTP client refuses it itself: the message is larger than the server's SIZE (RFC 1870), or no address is valid.
  if (!crossed && failure.response === undefined && (failure.code === "EMESSAGE" || failure.code === "EENVELOPE")) {
    const isSize = failure.code === "EMESSAGE";
    return { kind: "refused", code: isSize ? "5.3.4" : "5.1.3", reason: brief(error), scope: "draft" };
  }
  if (code === undefined || code < 400) {
    return crossed
      ? { kind: "unknown", reason: `no reply after the message: ${brief(error)}` }
      : { kind: "deferred", reason: brief(error) };
  }
  const reason = replyText(failure);
  const setUp = { kind: "deferred", reason, scope: "channel", cause: "set-up" } as const;
  if (code >= 500 && accountBlock.test(reason)) return setUp;
  if (isQuota(failure, code, reason)) return { kind: "deferred", reason, scope: "channel", cause: "rate" };
  if (isOfSender(failure, code, reason)) return setUp;
  // A failure before MAIL is not about this message: the server accepts no messages now.
  if (/^(?:CONN|EHLO|HELO|STARTTLS)$/.test(failure.command ?? ""))
    return { kind: "deferred", reason, scope: "channel", cause: "unreachable" };
  // 503 means commands out of sequence, 421 that the server closes the connection. Neither is about this message.
  if (code < 500 || code === 503) return { kind: "deferred", reason };
  const enhanced = /\b5\.\d{1,3}\.\d{1,3}\b/.exec(reason)?.[0];
  return {
    kind: "refused",
    code: enhanced ?? String(code),
    reason,
    scope: isAddress(failure, code, enhanced) ? "recipient" : "draft",
  };
}

/** True when the response means that the server permanently rejected our credentials. */
export function isLogin(failure: SmtpFailure): boolean {
  if (failure.code === "EAUTH") return true;
  // Some servers request a login only when the message is submitted.
  return failure.responseCode === 530 || failure.responseCode === 535;
}

/** True when the server refuses our address or the account, which every message has. MAIL names nothing else but the size
 *  of the message; Postfix refuses the sender in its response to RCPT. */
function isOfSender({ command }: SmtpFailure, code: number, reason: string): boolean {
  if (code < 500 || code === 503) return false;
  return (
    (command === "MAIL FROM" && code !== 552 && !aboutSize.test(reason)) ||
    (command === "RCPT TO" && aboutSender.test(reason))
  );
}

const aboutSize = /\b5\.(?:2\.3|3\.4)\b/;
const aboutSender = /^\d{3}[ -](?:5\.\d{1,3}\.\d{1,3} )?(?:<address>: )?sender address rejected\b/i;

/** Limits of the account instead of this message: Gmail 550 5.4.5 and 450 4.2.1, Microsoft 432 and 454. A response about
 *  the recipient is not about the account. */
function isQuota(failure: SmtpFailure, code: number, reason: string): boolean {
  if (aboutMessage.test(reason)) return false;
  if ((code === 550 && /\b5\.4\.5\b/.test(reason)) || accountLimit.test(reason)) return true;
  const namesRecipient = failure.command === "RCPT TO" && reason.includes(address) && !/\bsender\b/i.test(reason);
  if (namesRecipient) return false;
  return code === 432 || code === 454 || (code === 450 && /\b4\.2\.1\b/.test(reason)) || userLimit.test(reason);
}

/** Codes of RFC 3463 about the recipient's address (X.1), its mailbox (X.2.2 full, X.2.3 size, X.2.4 list), or the size of the
 *  message (X.3.4). */
const aboutMessage = /^\d{3}[ -][45]\.(?:1\.\d{1,3}|2\.[234]|3\.4)\b/;
/** Last those of GoDaddy, Zoho and Microsoft 365 (the recipients of a day, and too many failed messages). */
const accountLimit =
  /\b(?:daily|sending) .{0,30}(?:limit|quota) exceeded|\bexceeded (?:its|your|the) .{0,20}\bsending limit|^550 5\.4\.6 (?:unusual sending activity|mail rate exceeded)|SubmissionQuotaExceeded|^550 5\.2\.25\d sender throttled/i;
/** The account or its address may send nothing: RFC 3463 (X.1.8), and Microsoft after spam from it, and of a new tenant. */
const accountBlock = /\b5\.(?:1\.8|7\.50[123]|7\.708)\b|outboundspam/i;
/** The user is the sender or, with a full mailbox, the recipient. */
const userLimit = /\buser (?!.{0,30}\b(?:mailbox|storage|size)\b).{0,30}(?:limit|quota) exceeded/i;

/** True when the recipient's address is invalid: 5.1.x, or a bare 550/551/553 response to RCPT that gives no other reason.
 *  A relay that has lost our permission to send refuses every recipient, and none of them may be suppressed for it. */
function isAddress(failure: SmtpFailure, code: number, enhanced: string | undefined): boolean {
  if (failure.command !== "RCPT TO") return false;
  // 5.1.0 is for all that the others do not name, such as a sender that is refused.
  if (enhanced !== undefined && enhanced !== "5.1.0") return /^5\.1\.[1-6]$|^5\.1\.10$|^5\.2\.1$/.test(enhanced);
  return (
    (enhanced !== undefined || code === 550 || code === 551 || code === 553) && !otherReasons.test(replyText(failure))
  );
}

/** Replaces the addresses in a response. */
const address = "<address>";

/** Returns the text of the server's response, truncated and without the address it may repeat. */
export function replyText(failure: SmtpFailure): string {
  return (failure.response ?? String(failure.responseCode))
    .slice(0, 2000)
    .replace(/<?[^\s<>@]{1,64}@[^\s<>@]{1,255}>?/g, address)
    .replace(/[\p{Cc}]+/gu, " ")
    .slice(0, 300);
}
