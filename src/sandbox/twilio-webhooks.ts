// Posts a form as Twilio does: signed over the public URL, with Twilio's headers, without following redirects.

import { getExpectedTwilioSignature } from "twilio/lib/webhooks/webhooks.js";
import type { FakeCall, SmsMessage } from "./sms-records.ts";

export type TwilioForm = Readonly<Record<string, string>>;

export interface SignedPost {
  /** URL as configured at the provider; the signature covers it. A fragment is neither signed nor sent. */
  readonly url: string;
  /** Connects to this origin (`http://127.0.0.1:1234`) instead of the origin of `url`. */
  readonly via?: string | undefined;
  readonly form: TwilioForm;
  /** Auth token for the signature; null sends none. */
  readonly token: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** Timeout in milliseconds; default 15 seconds, like Twilio. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Result of one attempt. `status` is null when no response arrived; `error` contains the reason. */
export interface Posted {
  readonly status: number | null;
  readonly type: string;
  readonly body: string;
  readonly ms: number;
  readonly error?: "connect" | "timeout" | "cut";
}

/** Never rejects. */
export async function postSigned(post: SignedPost): Promise<Posted> {
  const signed = withoutFragment(post.url);
  const started = performance.now();
  const ms = () => Math.round(performance.now() - started);
  const limit = AbortSignal.timeout(Math.ceil(post.timeoutMs ?? 15_000));
  try {
    const response = await fetch(reached(signed, post.via), {
      method: "POST",
      headers: {
        "content-type": "application/x-www-form-urlencoded; charset=utf-8",
        "user-agent": "TwilioProxy/1.1",
        ...(post.token === null ? {} : { "x-twilio-signature": signature(post.token, signed, post.form) }),
        ...post.headers,
      },
      body: new URLSearchParams(post.form).toString(),
      redirect: "manual",
      signal: post.signal ? AbortSignal.any([post.signal, limit]) : limit,
    });
    const body = await response.text();
    return { status: response.status, type: response.headers.get("content-type") ?? "", body, ms: ms() };
  } catch (error) {
    return { status: null, type: "", body: "", ms: ms(), error: reason(error) };
  }
}

/** Computes X-Twilio-Signature with Twilio's own code. */
export const signature = (token: string, url: string, form: TwilioForm = {}): string =>
  getExpectedTwilioSignature(token, url, form);

/** Returns the address to connect to: the origin of `via` with the path of `url`; ws for http. */
export function reached(url: string, via: string | undefined): string {
  if (via === undefined) return url;
  const { pathname, search, protocol } = new URL(url);
  const origin = protocol.startsWith("ws") ? via.replace(/^http/, "ws") : via;
  return origin.replace(/\/$/, "") + pathname + search;
}

export const withoutFragment = (url: string): string => url.replace(/#.*$/, "");

function reason(error: unknown): "connect" | "timeout" | "cut" {
  if ((error as Error).name === "TimeoutError") return "timeout";
  const code = ((error as Error).cause as { code?: string } | undefined)?.code ?? "";
  return ["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"].includes(code) ? "connect" : "cut";
}

// Webhooks of the fake Twilio: a customer's text with retries as configured in the URL fragment (connection
// overrides rc, rp, rt, tt), then the fallback URL; and status callbacks for our texts.

/** Webhook URLs of the number, as entered at Twilio. */
export interface WebhookUrls {
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
export function inboundForm(account: Account, message: SmsMessage, more: TwilioForm = {}): TwilioForm {
  const media = message.media.flatMap(({ sid, type }, index) => [
    [`MediaUrl${index}`, `${account.url}/2010-04-01/Accounts/${account.sid}/Messages/${message.sid}/Media/${sid}`],
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
  webhooks: WebhookUrls,
  form: TwilioForm,
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
  const wanted = overrides(post.url);
  const until = performance.now() + wanted.total;
  for (let left = wanted.retries; ; left -= 1) {
    const timeoutMs = Math.max(1, Math.min(wanted.read, until - performance.now()));
    const posted = await postSigned({ ...post, token, signal, timeoutMs });
    tries.push(posted);
    if (good(posted) || left <= 0 || performance.now() >= until || !wanted.repeats(posted)) return tries;
  }
}

/** Posts one status callback and returns its last attempt; null when the text was created without a callback URL. */
export async function postStatus(account: Account, message: SmsMessage, via?: string): Promise<Posted | null> {
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
export async function postCallStatus(account: Account, call: FakeCall, via?: string): Promise<Posted | null> {
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

/** Without a fragment Twilio retries once, and only after a connection failure. */
function overrides(url: string) {
  const wanted = new URLSearchParams(url.split("#")[1] ?? "");
  const kinds = (wanted.get("rp") ?? "ct").split(",");
  return {
    retries: Math.min(Number(wanted.get("rc") ?? 1), 5),
    read: Number(wanted.get("rt") ?? 15_000),
    total: Number(wanted.get("tt") ?? 15_000),
    repeats(posted: Posted): boolean {
      if (kinds.includes("all")) return true;
      if (posted.status !== null) return kinds.includes(`${Math.floor(posted.status / 100)}xx`);
      return kinds.includes(posted.error === "connect" ? "ct" : "rt");
    },
  };
}
