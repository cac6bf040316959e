// What a status callback says of a text of ours.

import { type DeliveryEvent, sendKey } from "bridgehead/contract";
import { canonicalNumber } from "../numbers.ts";
import type { TextStatus } from "../provider.ts";
import { classOfText } from "./errors.ts";
import { type Form, field } from "./signature.ts";

/** Under which name the callback's address carries our key. */
export const keyParameter = "draft";

/** Every status there is, and what it means for us; which of two stands is decided by the core, which knows ranks. */
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

/** Every status a text can have, for looking up which callbacks came. */
export const statuses: readonly string[] = Object.keys(states);

/** Null: no status of a text of ours. The key comes from the address, which was signed with it. */
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
