// Parses what Twilio reports: an inbound text, from a webhook's form or from the list of messages, and the
// status of a sent text.

import { type DeliveryEvent, sendKey } from "bridgehead/contract";
import type { MessageInstance } from "twilio/lib/rest/api/v2010/account/message.js";
import { canonicalNumber } from "../numbers.ts";
import type { InboundMedium, InboundText, TextStatus } from "../provider.ts";
import { classOfText } from "./client.ts";

/** A form as flat pairs. A repeated name has a list, as the provider's code expects. It has no
 *  prototype, because the names come from an untrusted request. */
export type FormFields = Readonly<Record<string, string | readonly string[]>>;

/** Keeps blank values and all repeats, because the signature covers the complete request body. */
export function formOf(body: string): FormFields {
  const form = Object.create(null) as Record<string, string | string[]>;
  for (const [name, value] of new URLSearchParams(body)) {
    const before = form[name];
    if (before === undefined) form[name] = value;
    // The request is not verified yet. A body that repeats one name thousands of times must not cost quadratic time.
    else if (Array.isArray(before)) before.push(value);
    else form[name] = [before, value];
  }
  return form;
}

/** Returns the value of a field; the first of several. */
export function field(form: FormFields, name: string): string | undefined {
  const value = form[name];
  return typeof value === "string" ? value : value?.[0];
}

/** Location of a medium, for `media.ts`. JSON. */
export type MediaRef = {
  readonly url: string;
  readonly message: string;
  /** The announced type. */
  readonly mediaType: string;
};

const mostMedia = 10;

/** Returns null when the form is not a message. The time of the text is the time of the request, because
 *  the form has none. */
export function textOfForm(form: FormFields, raw: Uint8Array, now: Date): InboundText | null {
  const [id, from, to] = [field(form, "MessageSid"), field(form, "From"), field(form, "To")];
  if (!id || !from || !to) return null;
  const name = nameOf(field(form, "ProfileName") ?? "");
  const optOut = wordOf(field(form, "OptOutType"));
  return {
    id,
    from,
    to,
    body: withPlace(bodyOrLabel(form), form),
    sentAt: now,
    media: mediaOf(form, id),
    raw,
    ...(name === "" ? {} : { name }),
    ...(optOut === null ? {} : { optOut }),
  };
}

/** Converts a message of the list. `media` is that message's own media list. */
export function textOfRecord(
  message: MessageInstance,
  media: readonly { readonly url: string; readonly mediaType: string }[],
): InboundText {
  const { sid, from, to, body, dateSent, dateCreated } = message;
  return {
    id: sid,
    from,
    to,
    body: body ?? "",
    sentAt: dateSent ?? dateCreated,
    media: media.map((one): InboundMedium => ({ ref: { ...one, message: sid }, mediaType: one.mediaType })),
    raw: new TextEncoder().encode(JSON.stringify(message)),
  };
}

/** Normalizes a profile name, which is free text of its owner. Returns one line without control and
 *  invisible characters. */
const nameOf = (name: string): string =>
  name
    .slice(0, 400)
    .replace(/[\p{Cc}\u2028\u2029]+/gu, " ")
    .replace(/(?![\u200c\u200d])\p{Cf}/gu, "")
    .trim()
    .slice(0, 100)
    .toWellFormed();

function mediaOf(form: FormFields, message: string): readonly InboundMedium[] {
  const count = Math.min(Number(field(form, "NumMedia")) || 0, mostMedia);
  return Array.from({ length: count }, (_, n) => n).flatMap((n): InboundMedium[] => {
    const url = field(form, `MediaUrl${n}`);
    if (!url) return [];
    const mediaType = field(form, `MediaContentType${n}`) || "application/octet-stream";
    return [{ ref: { url, message, mediaType } satisfies MediaRef, mediaType }];
  });
}

/** Returns the body; without one, the label of the button or the list entry that the sender selected (WhatsApp, RCS). */
const bodyOrLabel = (form: FormFields): string =>
  ["Body", "ButtonText", "ListTitle"].map((name) => field(form, name) ?? "").find((text) => text.trim() !== "") ?? "";

/** Adds a shared location (WhatsApp) to the body, because such a message has no text. */
function withPlace(body: string, form: FormFields): string {
  const [latitude, longitude] = [field(form, "Latitude"), field(form, "Longitude")];
  if (!latitude || !longitude) return body;
  const label = [field(form, "Label"), field(form, "Address")].filter(Boolean).join(", ");
  const place = `[place: ${latitude}, ${longitude}${label === "" ? "" : ` (${label})`}]`;
  return body.trim() === "" ? place : `${body}\n${place}`;
}

function wordOf(type: string | undefined): "stop" | "start" | "help" | null {
  const word = type?.trim().toLowerCase();
  return word === "stop" || word === "start" || word === "help" ? word : null;
}

/** Parameter of the callback URL that carries our send key. */
export const keyParameter = "draft";

/** All statuses with their delivery state. The core ranks the states and decides which of two applies. */
const states: Readonly<Record<string, DeliveryEvent["state"]>> = {
  accepted: "accepted",
  scheduled: "accepted",
  queued: "accepted",
  sending: "accepted",
  sent: "accepted",
  partially_delivered: "accepted",
  delivered: "delivered",
  read: "read",
  undelivered: "failed",
  failed: "failed",
  canceled: "failed",
};

/** All statuses of a text, for looking up which callbacks are stored. */
export const statuses: readonly string[] = Object.keys(states);

/** Returns null when the form is not a status of a sent text. The key comes from the URL, which is part
 *  of the signed request. */
export function statusOfForm(form: FormFields, url: URL, raw: Uint8Array): TextStatus | null {
  const id = field(form, "MessageSid") || field(form, "SmsSid");
  const status = (field(form, "MessageStatus") || field(form, "SmsStatus"))?.toLowerCase();
  const state = status === undefined ? undefined : states[status];
  if (!id || status === undefined || state === undefined) return null;
  const key = url.searchParams.get(keyParameter);
  const code = field(form, "ErrorCode");
  const sender = canonicalNumber(field(form, "From") ?? "");
  const service = field(form, "MessagingServiceSid");
  const words = field(form, "ErrorMessage") || field(form, "ChannelStatusMessage");
  return {
    id,
    key: key !== null && /^[a-z0-9]+$/.test(key) ? sendKey(key) : null,
    status,
    state,
    raw,
    ...(sender === null ? {} : { sender }),
    ...(service ? { service } : {}),
    ...(state === "failed" ? { kind: classOfText(code ? Number(code) : null) } : {}),
    ...(code ? { code } : {}),
    ...(words ? { detail: words } : {}),
  };
}
