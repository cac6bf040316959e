// Parses an inbound text from a webhook's form or from the list of messages.

import type { MessageInstance } from "twilio/lib/rest/api/v2010/account/message.js";
import type { InboundMedium, InboundText } from "../provider.ts";
import { type Form, field } from "./signature.ts";

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
export function textOfForm(form: Form, raw: Uint8Array, now: Date): InboundText | null {
  const [id, from, to] = [field(form, "MessageSid"), field(form, "From"), field(form, "To")];
  if (!id || !from || !to) return null;
  const name = nameOf(field(form, "ProfileName") ?? "");
  const optOut = wordOf(field(form, "OptOutType"));
  return {
    id,
    from,
    to,
    body: withPlace(field(form, "Body") ?? "", form),
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

function mediaOf(form: Form, message: string): readonly InboundMedium[] {
  const count = Math.min(Number(field(form, "NumMedia")) || 0, mostMedia);
  return Array.from({ length: count }, (_, n) => n).flatMap((n): InboundMedium[] => {
    const url = field(form, `MediaUrl${n}`);
    if (!url) return [];
    const mediaType = field(form, `MediaContentType${n}`) || "application/octet-stream";
    return [{ ref: { url, message, mediaType } satisfies MediaRef, mediaType }];
  });
}

/** Adds a shared location (WhatsApp) to the body, because such a message has no text. */
function withPlace(body: string, form: Form): string {
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
