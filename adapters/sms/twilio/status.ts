// Parses a status callback for a sent text.

import { type DeliveryEvent, sendKey } from "bridgehead/contract";
import { canonicalNumber } from "../numbers.ts";
import type { TextStatus } from "../provider.ts";
import { classOfText } from "./errors.ts";
import { type Form, field } from "./signature.ts";

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
export function statusOfForm(form: Form, url: URL, raw: Uint8Array): TextStatus | null {
  const id = field(form, "MessageSid") || field(form, "SmsSid");
  const status = (field(form, "MessageStatus") || field(form, "SmsStatus"))?.toLowerCase();
  const state = status === undefined ? undefined : states[status];
  if (!id || status === undefined || state === undefined) return null;
  const key = url.searchParams.get(keyParameter);
  const code = field(form, "ErrorCode");
  const sender = canonicalNumber(field(form, "From") ?? "");
  const words = field(form, "ErrorMessage") || field(form, "ChannelStatusMessage");
  return {
    id,
    key: key !== null && /^[a-z0-9]+$/.test(key) ? sendKey(key) : null,
    status,
    state,
    raw,
    ...(sender === null ? {} : { sender }),
    ...(state === "failed" ? { kind: classOfText(code ? Number(code) : null) } : {}),
    ...(code ? { code } : {}),
    ...(words ? { detail: words } : {}),
  };
}
