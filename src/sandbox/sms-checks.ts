// Validation of the fake REST API with the codes of Twilio's error dictionary.

import { newSid, type SmsMessage } from "./sms-records.ts";

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
