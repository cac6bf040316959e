// Webhooks of the fake Twilio: a customer's text with retries as configured in the URL fragment (connection
// overrides rc, rp, rt, tt), then the fallback URL; and status callbacks for our texts.

import { type Form, type Posted, postSigned, type SignedPost } from "./signed-post.ts";
import type { CallRecord, SmsMessage } from "./sms-records.ts";

/** Webhook URLs of the number, as entered at Twilio. */
export interface Webhooks {
  /** Includes the fragment: `https://bridge.example.com/channels/sms/inbound#rc=3&rp=ct,rt,5xx`. */
  readonly inbound: string;
  readonly fallback?: string;
  /** Connects to this origin; signatures cover the configured URLs. */
  readonly via?: string;
}

export interface Account {
  readonly sid: string;
  /** Auth token for signatures; null sends none. */
  readonly token: string | null;
  /** Base URL of the API, which media URLs start with. */
  readonly url: string;
  readonly signal: AbortSignal;
}

/** Builds the form of an inbound message webhook. `more` overrides fields: OptOutType, ProfileName ... */
export function inboundForm(account: Account, message: SmsMessage, more: Form = {}): Form {
  const media = message.media.flatMap(({ sid, type }, index) => [
    [
      `MediaUrl${index}`,
      `${account.url}/2010-04-01/Accounts/${account.sid}/Messages/${message.sid}/Media/${sid}`,
    ],
    [`MediaContentType${index}`, type],
  ]);
  return {
    ToCountry: "US",
    ToState: "",
    SmsMessageSid: message.sid,
    NumMedia: String(message.media.length),
    ToCity: "",
    FromZip: "",
    SmsSid: message.sid,
    FromState: "",
    SmsStatus: "received",
    FromCity: "",
    Body: message.body,
    FromCountry: "US",
    To: message.to,
    ToZip: "",
    NumSegments: "1",
    MessageSid: message.sid,
    AccountSid: account.sid,
    From: message.from ?? "",
    ApiVersion: "2010-04-01",
    ...Object.fromEntries(media),
    ...more,
  };
}

/** Returns every attempt in order; the last one decides. Never rejects. */
export async function postInbound(
  account: Account,
  webhooks: Webhooks,
  form: Form,
  idempotency: string,
): Promise<readonly Posted[]> {
  const { inbound, fallback, via } = webhooks;
  const headers = { "i-twilio-idempotency-token": idempotency };
  const tries = await postRepeatedly(account, { url: inbound, via, form, headers });
  if (fallback === undefined || tries.some(good)) return tries;
  const ErrorCode = tries.at(-1)?.error === "connect" ? "11205" : "11200";
  const late = { ...form, ErrorCode, ErrorUrl: inbound };
  return [...tries, ...(await postRepeatedly(account, { url: fallback, via, form: late, headers }))];
}

/** Retries as often as the URL fragment requests. */
async function postRepeatedly(
  { token, signal }: Account,
  post: Pick<SignedPost, "url" | "via" | "form" | "headers">,
): Promise<readonly Posted[]> {
  const tries: Posted[] = [];
  const wish = overrides(post.url);
  const until = performance.now() + wish.total;
  for (let left = wish.retries; ; left -= 1) {
    const timeoutMs = Math.max(1, Math.min(wish.read, until - performance.now()));
    const posted = await postSigned({ ...post, token, signal, timeoutMs });
    tries.push(posted);
    if (good(posted) || left <= 0 || performance.now() >= until || !wish.repeats(posted)) return tries;
  }
}

/** Posts one status callback and returns its last attempt; null when the text was created without a
 *  callback URL. */
export async function postStatus(
  account: Account,
  message: SmsMessage,
  via?: string,
): Promise<Posted | null> {
  const { sid, status, errorCode, from, to, service, statusCallback } = message;
  if (statusCallback === null) return null;
  const tries = await postRepeatedly(account, {
    url: statusCallback,
    via,
    form: {
      SmsSid: sid,
      SmsStatus: status,
      MessageStatus: status,
      To: to,
      ...(service === null ? {} : { MessagingServiceSid: service }),
      MessageSid: sid,
      AccountSid: account.sid,
      From: from ?? "",
      ApiVersion: "2010-04-01",
      ...(errorCode === null ? {} : { ErrorCode: String(errorCode) }),
      ...(["delivered", "undelivered"].includes(status) ? { RawDlrDoneDate: "2601010000" } : {}),
    },
  });
  return tries.at(-1) ?? null;
}

/** Posts the status of a call that we requested; null when no callback was requested. */
export async function postCallStatus(
  account: Account,
  call: CallRecord,
  via?: string,
): Promise<Posted | null> {
  if (call.statusCallback === null) return null;
  return postSigned({
    url: call.statusCallback,
    via,
    token: account.token,
    signal: account.signal,
    form: {
      CallSid: call.sid,
      CallStatus: call.status,
      AccountSid: account.sid,
      ApiVersion: "2010-04-01",
      Direction: "outbound-api",
      From: call.from,
      To: call.to,
    },
  });
}

const good = ({ status }: Posted): boolean => status !== null && status >= 200 && status < 300;

interface Overrides {
  readonly retries: number;
  readonly read: number;
  readonly total: number;
  repeats(posted: Posted): boolean;
}

/** Without a fragment Twilio retries once, and only after a connection failure. */
function overrides(url: string): Overrides {
  const wish = new URLSearchParams(url.split("#")[1] ?? "");
  const kinds = (wish.get("rp") ?? "ct").split(",");
  return {
    retries: Math.min(Number(wish.get("rc") ?? 1), 5),
    read: Number(wish.get("rt") ?? 15_000),
    total: Number(wish.get("tt") ?? 15_000),
    repeats(posted) {
      if (kinds.includes("all")) return true;
      if (posted.status !== null) return kinds.includes(`${Math.floor(posted.status / 100)}xx`);
      return kinds.includes(posted.error === "connect" ? "ct" : "rt");
    },
  };
}
