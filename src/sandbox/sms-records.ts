// Records of the fake Twilio account: messages, media and calls, and their JSON in the REST API. Source:
// the Message, Media and Call resources of api.twilio.com/2010-04-01.

import { randomUUID } from "node:crypto";

export interface SmsMedia {
  readonly sid: string;
  readonly type: string;
  readonly bytes: Uint8Array;
  /** Redirect target instead of the fake CDN. */
  readonly location?: string;
}

export interface SmsMessage {
  readonly sid: string;
  readonly direction: "inbound" | "outbound-api" | "outbound-reply";
  readonly from: string | null;
  readonly to: string;
  readonly body: string;
  readonly service: string | null;
  readonly media: readonly SmsMedia[];
  /** Epoch milliseconds. */
  readonly createdAt: number;
  readonly statusCallback: string | null;
  status: string;
  errorCode: number | null;
}

export interface FakeCall {
  readonly sid: string;
  readonly from: string;
  readonly to: string;
  /** URL and HTTP method of its TwiML. */
  readonly url: string;
  readonly method: string;
  readonly statusCallback: string | null;
  readonly machineDetection: string | null;
  readonly createdAt: number;
  status: string;
}

/** Generates a SID in Twilio's format: two letters and 32 hexadecimal digits. */
export const newSid = (prefix: "SM" | "MM" | "ME" | "CA" | "VX" | "RE" | "DI"): string =>
  prefix + randomUUID().replaceAll("-", "");

const rfc2822 = (ms: number): string => new Date(ms).toUTCString().replace("GMT", "+0000");

export function messageJson(account: string, message: SmsMessage): Record<string, unknown> {
  const uri = `/2010-04-01/Accounts/${account}/Messages/${message.sid}`;
  const waits = ["queued", "accepted", "scheduled"].includes(message.status);
  return {
    sid: message.sid,
    account_sid: account,
    messaging_service_sid: message.service,
    api_version: "2010-04-01",
    from: message.from,
    to: message.to,
    body: message.body,
    status: message.status,
    direction: message.direction,
    num_segments: message.service !== null && waits ? "0" : "1",
    num_media: String(message.media.length),
    price: null,
    price_unit: "USD",
    error_code: message.errorCode,
    error_message: null,
    date_created: rfc2822(message.createdAt),
    date_updated: rfc2822(message.createdAt),
    date_sent: waits ? null : rfc2822(message.createdAt),
    uri: `${uri}.json`,
    subresource_uris: { media: `${uri}/Media.json` },
  };
}

/** Lists the media of a message on one page. */
export function mediaJson(account: string, message: SmsMessage): Record<string, unknown> {
  const uri = `/2010-04-01/Accounts/${account}/Messages/${message.sid}/Media`;
  const list = message.media.map(({ sid, type }) => ({
    sid,
    account_sid: account,
    parent_sid: message.sid,
    content_type: type,
    date_created: rfc2822(message.createdAt),
    date_updated: rfc2822(message.createdAt),
    uri: `${uri}/${sid}.json`,
  }));
  return { media_list: list, page: 0, page_size: 50, uri: `${uri}.json`, next_page_uri: null };
}

export function callJson(account: string, call: FakeCall): Record<string, unknown> {
  return {
    sid: call.sid,
    account_sid: account,
    api_version: "2010-04-01",
    from: call.from,
    to: call.to,
    status: call.status,
    direction: "outbound-api",
    date_created: rfc2822(call.createdAt),
    date_updated: rfc2822(call.createdAt),
    start_time: call.status === "queued" ? null : rfc2822(call.createdAt),
    end_time: null,
    duration: null,
    price: null,
    price_unit: "USD",
    uri: `/2010-04-01/Accounts/${account}/Calls/${call.sid}.json`,
  };
}

interface ListedRecords {
  readonly sid: string;
  readonly from: string | null;
  readonly to: string;
  readonly createdAt: number;
}

/** Returns one page, newest first. `DateSent`, `DateSent<`, `DateSent>` (`StartTime...` for calls) take
 *  a GMT day or an instant, inclusive, with a resolution of one second like Twilio's records. */
export function page<T extends ListedRecords>(
  all: readonly T[],
  url: URL,
  name: "messages" | "calls",
  json: (one: T) => Record<string, unknown>,
): Record<string, unknown> {
  const query = url.searchParams;
  const size = Math.min(Number(query.get("PageSize") ?? 50), 1000);
  const time = name === "messages" ? "DateSent" : "StartTime";
  const found = all.filter((one) => matches(one, query, time)).toReversed();
  const after = query.get("PageToken")?.slice(2);
  const start = after === undefined ? 0 : found.findIndex(({ sid }) => sid === after) + 1;
  const shown = found.slice(start, start + size);
  const number = Number(query.get("Page") ?? 0);
  return {
    [name]: shown.map(json),
    page: number,
    page_size: size,
    start,
    end: start + shown.length - 1,
    uri: url.pathname + url.search,
    first_page_uri: pageUri(url, { PageSize: String(size), Page: "0" }),
    previous_page_uri: null,
    next_page_uri:
      start + size < found.length
        ? pageUri(url, {
            PageSize: String(size),
            Page: String(number + 1),
            PageToken: `PA${shown.at(-1)?.sid}`,
          })
        : null,
  };
}

function pageUri(url: URL, more: Record<string, string>): string {
  const query = new URLSearchParams(url.search);
  query.delete("PageToken");
  for (const [key, value] of Object.entries(more)) query.set(key, value);
  return `${url.pathname}?${query.toString()}`;
}

function matches(one: ListedRecords, query: URLSearchParams, time: string): boolean {
  const [to, from] = [query.get("To"), query.get("From")];
  if (to !== null && one.to !== to) return false;
  if (from !== null && one.from !== from) return false;
  const at = Math.floor(one.createdAt / 1000) * 1000;
  const [day, before, since] = [query.get(time), query.get(`${time}<`), query.get(`${time}>`)];
  if (day !== null && (at < span(day).first || at > span(day).last)) return false;
  if (before !== null && at > span(before).last) return false;
  return since === null || at >= span(since).first;
}

/** A day covers all its milliseconds in GMT; an instant covers its second. */
function span(text: string): { first: number; last: number } {
  const whole = /^\d{4}-\d{2}-\d{2}$/.test(text);
  const first = Date.parse(whole ? `${text}T00:00:00Z` : text);
  return { first: Math.floor(first / 1000) * 1000, last: first + (whole ? 86_400_000 : 1000) - 1 };
}

// Validation of the fake REST API with the codes of Twilio's error dictionary.

const address = /^(?:(?:(?:whatsapp|rcs):)?\+[1-9]\d{6,14}|messenger:\d{5,20})$/;
const shortCode = /^\d{3,8}$/;

/** Returns the error code for a new message, or null when it is valid. */
export function checkMessage(form: URLSearchParams): number | null {
  const to = form.get("To") ?? "";
  const body = form.get("Body") ?? "";
  const callback = form.get("StatusCallback");
  if (to === "") return 21604;
  if (!address.test(to) && !shortCode.test(to)) return 21211;
  if (!form.get("From") && !form.get("MessagingServiceSid")) return 21603;
  if (body === "" && !form.get("MediaUrl") && !form.get("ContentSid")) return 21602;
  if (body.length > 1600) return 21617;
  return callback !== null && !(URL.canParse(callback) && /^https?:/.test(callback)) ? 21609 : null;
}

/** Returns the error code for a new call, or null when it is valid. */
export function checkCall(form: URLSearchParams): number | null {
  if (!form.get("To")) return 21201;
  if (!form.get("From")) return 21213;
  return form.get("Url") || form.get("Twiml") ? null : 21205;
}

/** Builds the message record from a valid form. `now` is epoch milliseconds. */
export function messageFrom(form: URLSearchParams, now: number): SmsMessage {
  const service = form.get("MessagingServiceSid");
  return {
    sid: newSid(form.has("MediaUrl") ? "MM" : "SM"),
    direction: "outbound-api",
    from: form.get("From"),
    to: form.get("To") ?? "",
    body: form.get("Body") ?? "",
    service,
    media: form.getAll("MediaUrl").map((location) => ({
      sid: newSid("ME"),
      type: "application/octet-stream",
      bytes: new Uint8Array(),
      location,
    })),
    createdAt: now,
    statusCallback: form.get("StatusCallback"),
    status: service === null ? "queued" : "accepted",
    errorCode: null,
  };
}
