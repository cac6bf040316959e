// What Twilio posts to us: a person's text, repeated as the fragment of the configured address asks (connection overrides:
// rc, rp, rt, tt), then the fallback address; and what became of a text of ours.

import { type Form, type Posted, postSigned, type SignedPost } from "./signed-post.ts";
import type { CallRecord, SmsMessage } from "./sms-records.ts";

/** Where the number's webhooks go, as one would write it at Twilio. */
export interface Webhooks {
  /** With its fragment: `https://bridge.example.com/channels/sms/inbound#rc=3&rp=ct,rt,5xx`. */
  readonly inbound: string;
  readonly fallback?: string;
  /** Really connects to this origin; signatures stay those of the configured addresses. */
  readonly via?: string;
}

export interface Account {
  readonly sid: string;
  /** Signs with it; null: no signature. */
  readonly token: string | null;
  /** Where the API itself is; media addresses begin with it. */
  readonly url: string;
  readonly signal: AbortSignal;
}

/** The form of an inbound message, as the webhook has it. `more` overrides: OptOutType, ProfileName ... */
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

/** Every try, in order; the last one decides. Never rejects. */
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

/** As often as the address's fragment asks for. */
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

/** One status callback, and how its last try was answered; a text that was created without an address for it has none. */
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

/** What became of a call that we asked for; null where nobody wants to know. */
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

/** Without a fragment Twilio tries once more, and only when it could not connect. */
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
