// Verifies and parses Telnyx's webhook requests. The signature covers the time and the raw body, but not
// the URL's query. Our send key is therefore taken from the URL that the signed body repeats.

import { type DeliveryEvent, type ExchangeAnswer, retryAfterOf, sendKey } from "bridgehead/contract";
import * as z from "zod";
import { canonicalNumber } from "../numbers.ts";
import { classes, type ProviderRefusal, type TextClass, withoutNumbers } from "../outcomes.ts";
import type { InboundText, ReceivedBatch, TextStatus } from "../provider.ts";

/** Parameter of the webhook's URL that carries our send key. */
export const keyParameter = "draft";

const phone = z.object({ phone_number: z.string(), status: z.string().optional() });
const medium = z.object({ url: z.string(), content_type: z.string().nullish(), size: z.number().nullish() });
const error = z.object({
  code: z.union([z.string(), z.number()]).optional(),
  title: z.string().optional(),
  detail: z.string().optional(),
});
const payload = z.object({
  id: z.string().min(1),
  from: phone.optional(),
  to: z.union([z.array(phone), z.string()]).optional(),
  text: z.string().nullish(),
  subject: z.string().nullish(),
  received_at: z.string().nullish(),
  media: z.array(medium).nullish(),
  errors: z.array(error).nullish(),
  webhook_url: z.string().nullish(),
  autoresponse_type: z.string().nullish(),
  messaging_profile_id: z.string().nullish(),
});
const event = z.object({
  data: z.object({ event_type: z.string(), occurred_at: z.string().optional(), payload: z.unknown() }),
});
type Payload = z.output<typeof payload>;

const kinds: Readonly<Record<string, "text" | "status">> = {
  "message.received": "text",
  "message.sent": "status",
  "message.finalized": "status",
};

/** Parses a verified body; events of other kinds return no content. Throws for a supported event that is
 *  invalid: after the error response Telnyx sends it again, and the operator sees the error at Telnyx. */
export function readEvent(body: Uint8Array, now: number): ReceivedBatch {
  const { data } = event.parse(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body)));
  const kind = kinds[data.event_type];
  if (kind === undefined) return { texts: [], statuses: [] };
  const facts = payload.parse(data.payload);
  return kind === "text"
    ? { texts: [textOf(facts, data.occurred_at, body, now)], statuses: [] }
    : { texts: [], statuses: [statusOf(facts, body)] };
}

function textOf(payload: Payload, occurredAt: string | undefined, raw: Uint8Array, now: number): InboundText {
  const to = Array.isArray(payload.to) ? payload.to[0]?.phone_number : payload.to;
  if (payload.from === undefined || to === undefined) throw new Error("reading a text: it has no from or no to");
  const word = payload.autoresponse_type?.toLowerCase();
  const text = payload.text?.trim() ? payload.text : "";
  // Phones with a field for it send a subject as MMS, also alone. Carriers fill in an absent one.
  const subject = (payload.subject ?? "")
    .slice(0, 300)
    .replace(/\s+/g, " ")
    .trim()
    .replace(/^\(?no ?subject\)?$/i, "");
  return {
    id: payload.id,
    from: payload.from.phone_number,
    to,
    body: text || subject,
    sentAt: dateOf(payload.received_at ?? occurredAt, now),
    media: (payload.media ?? []).map((one) => {
      const mediaType = one.content_type ?? "application/octet-stream";
      const size = typeof one.size === "number" ? { size: one.size } : {};
      return { ref: { url: one.url, mediaType }, mediaType, ...size };
    }),
    ...(word === "stop" || word === "start" || word === "help" ? { optOut: word } : {}),
    ...(text === "" || subject === "" ? {} : { notes: { subject } }),
    raw,
  };
}

const states: Readonly<Record<string, DeliveryEvent["state"]>> = {
  queued: "accepted",
  sending: "accepted",
  sent: "accepted",
  delivered: "delivered",
  delivery_failed: "failed",
  sending_failed: "failed",
  expired: "failed",
};

/** Converts a status. `delivery_unconfirmed` means that the carrier reports nothing: the text was sent,
 *  and no further status follows. */
function statusOf(payload: Payload, raw: Uint8Array): TextStatus {
  const status = Array.isArray(payload.to) ? payload.to[0]?.status : undefined;
  if (status === undefined) throw new Error("reading a receipt: it has no status");
  const state = states[status] ?? "accepted";
  const [first = null] = payload.errors ?? [];
  const sender = canonicalNumber(payload.from?.phone_number ?? "");
  const failed = state === "failed";
  const code = failed ? codeOf(first) : undefined;
  const detail = failed ? wordsOf(first) : undefined;
  return {
    id: payload.id,
    key: keyOf(payload.webhook_url),
    status,
    state,
    ...(sender === null ? {} : { sender }),
    ...(payload.messaging_profile_id ? { service: payload.messaging_profile_id } : {}),
    ...(failed ? { kind: classOfCode(code) } : {}),
    ...(code === undefined ? {} : { code }),
    ...(detail === undefined ? {} : { detail }),
    raw,
  };
}

function keyOf(address: string | null | undefined) {
  if (!address || !URL.canParse(address)) return null;
  const key = new URL(address).searchParams.get(keyParameter) ?? "";
  return /^[a-z0-9]+$/.test(key) ? sendKey(key) : null;
}

function dateOf(text: string | null | undefined, now: number): Date {
  const date = new Date(text ?? "");
  return Number.isNaN(date.getTime()) ? new Date(now) : date;
}

// Maps Telnyx's error codes to error classes. Source: developers.telnyx.com, messaging error codes and API error codes.
const codes = classes({
  recipient: [10002, 10016, 40001, 40012, 40301, 40310, 40319],
  "opted-out": [40300],
  login: [10009, 10010],
  account: [20012, 20013, 20014, 20016, 20017, 20100, 40314, 40333],
  "set-up": [
    10001, 40010, 40013, 40100, 40150, 40151, 40305, 40306, 40308, 40311, 40312, 40313, 40315, 40320, 40321, 40329,
    40330,
  ],
  reach: [10039, 40309],
  content: [40002, 40003, 40009, 40015, 40017, 40302, 40304, 40316, 40317, 40322, 40328],
  rate: [10011],
  "sender-rate": [40011, 40016, 40018, 40318],
  unreached: [40004, 40006, 40008],
  expired: [40005, 40014],
  ambiguous: [10007, 10008],
});

/** One of `errors` in a response or a webhook. */
export interface TelnyxError {
  readonly code?: string | number | undefined;
  readonly title?: string | undefined;
  readonly detail?: string | undefined;
}

/** Returns the class of an error code alone, as a webhook has it. */
function classOfCode(code: string | undefined): TextClass | null {
  return codes.get(Number(code)) ?? null;
}

/** Returns the class of an error response, by its first error's code, else by the HTTP status. */
export function classOf(answer: ExchangeAnswer): TextClass | null {
  // A server in front of the API returns 5xx with its own text, and may have forwarded the request.
  if (answer.status >= 500 || answer.status === 408) return "ambiguous";
  const known = classOfCode(codeOf(firstError(answer)));
  if (known !== null) return known;
  if (answer.status === 401) return "login";
  return answer.status === 429 ? "rate" : null;
}

export function refusalOf(answer: ExchangeAnswer): ProviderRefusal {
  const error = firstError(answer);
  const retryAfterMs = retryAfterOf(answer);
  const code = codeOf(error) ?? String(answer.status);
  return {
    code,
    reason: `${codeOf(error) ?? `HTTP ${answer.status}`}: ${wordsOf(error) ?? "no words"}`,
    ...(retryAfterMs ? { retryAfterMs } : {}),
  };
}

function codeOf(error: TelnyxError | null): string | undefined {
  return error?.code === undefined ? undefined : String(error.code);
}

function wordsOf(error: TelnyxError | null): string | undefined {
  const words = [error?.title, error?.detail].filter((one) => typeof one === "string" && one !== "");
  return words.length === 0 ? undefined : withoutNumbers(words.join(": "));
}

function firstError({ json }: ExchangeAnswer): TelnyxError | null {
  const { errors } = Object(json) as { errors?: unknown };
  return Array.isArray(errors) ? (Object(errors[0]) as TelnyxError) : null;
}
