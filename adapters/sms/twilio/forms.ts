// Parses what Twilio reports: an inbound text, from a webhook's form or from the list of messages, and the
// status of a sent text.

import { type DeliveryEvent, type FormFields, formField, sendKey } from "bridgehead/contract";
import type { MessageInstance } from "twilio/lib/rest/api/v2010/account/message.js";
import { canonicalNumber } from "../numbers.ts";
import type { InboundMedium, InboundText, TextStatus } from "../provider.ts";
import { classOfText } from "./client.ts";

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
  const [id, from, to] = [formField(form, "MessageSid"), formField(form, "From"), formField(form, "To")];
  if (!id || !from || !to) return null;
  const name = nameOf(formField(form, "ProfileName") ?? "");
  const optOut = wordOf(formField(form, "OptOutType"));
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
  const count = Math.min(Number(formField(form, "NumMedia")) || 0, mostMedia);
  return Array.from({ length: count }, (_, n) => n).flatMap((n): InboundMedium[] => {
    const url = formField(form, `MediaUrl${n}`);
    if (!url) return [];
    const mediaType = formField(form, `MediaContentType${n}`) || "application/octet-stream";
    return [{ ref: { url, message, mediaType } satisfies MediaRef, mediaType }];
  });
}

/** Returns the body; without one, the label of the button or the list entry that the sender selected (WhatsApp, RCS). */
const bodyOrLabel = (form: FormFields): string =>
  ["Body", "ButtonText", "ListTitle"].map((name) => formField(form, name) ?? "").find((text) => text.trim() !== "") ??
  "";

/** Adds a shared location (WhatsApp) to the body, because such a message has no text. */
function withPlace(body: string, form: FormFields): string {
  const [latitude, longitude] = [formField(form, "Latitude"), formField(form, "Longitude")];
  if (!latitude || !longitude) return body;
  const label = [formField(form, "Label"), formField(form, "Address")].filter(Boolean).join(", ");
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
  const id = formField(form, "MessageSid") || formField(form, "SmsSid");
  const status = (formField(form, "MessageStatus") || formField(form, "SmsStatus"))?.toLowerCase();
  const state = status === undefined ? undefined : states[status];
  if (!id || status === undefined || state === undefined) return null;
  const key = url.searchParams.get(keyParameter);
  const code = formField(form, "ErrorCode");
  const sender = canonicalNumber(formField(form, "From") ?? "");
  const service = formField(form, "MessagingServiceSid");
  const words = formField(form, "ErrorMessage") || formField(form, "ChannelStatusMessage");
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
