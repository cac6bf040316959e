// Maps Twilio's error codes to error classes. Source: twilio.com/docs/api/errors.

import type { ChannelStatus, SendOutcome } from "bridgehead/contract";
import {
  classes,
  outcomeOf as outcomeOfClass,
  type Refusal,
  statusOf as statusOfClass,
  type TextClass,
  withoutNumbers,
} from "../classes.ts";

const classOfCode = classes<number>({
  recipient: [21211, 21214, 21217, 21614, 21635, 30006, 63024],
  "opted-out": [21610],
  login: [20003, 20005, 20006, 20008],
  account: [20404, 21609, 30002],
  "set-up": [21603, 21606, 21607, 21660, 21703, 21704, 21705, 30034, 63007],
  reach: [21215, 21408, 21605, 21612],
  content: [21602, 21617, 21620, 21623, 30007, 30450, 30610, 30640],
  rate: [20429],
  "sender-rate": [21611, 63017, 63018],
  unreached: [30001, 30003, 30005, 30008],
  expired: [30036],
  ambiguous: [20500],
});

/** The customer's last message is too old for a free-form reply (WhatsApp). Only another channel or a
 *  template can be used. */
const windowCodes: ReadonlySet<number> = new Set([63003, 63016]);

/** An error response of the API. */
export interface ApiError {
  readonly status: number;
  readonly code: number | null;
  readonly message: string;
  /** From the Retry-After header. */
  readonly retryAfterMs: number | null;
}

/** Returns the outcome of a text whose create request failed with `error`. */
export function outcomeOf(error: ApiError): SendOutcome {
  const refusal = refusalOf(error);
  if (error.code !== null && windowCodes.has(error.code))
    return { kind: "refused", code: "window-closed", reason: refusal.reason };
  return outcomeOfClass(classOf(error), refusal);
}

/** Returns the channel status that follows from the error; null: the channel is unaffected. */
export function statusOf(error: ApiError): ChannelStatus | null {
  return statusOfClass(classOf(error), refusalOf(error));
}

/** Returns the class of a text that failed with this error code; null for an unknown code. */
export function classOfText(code: number | null): TextClass | null {
  return (code === null ? undefined : classOfCode.get(code)) ?? null;
}

/** Returns the class of the error code, or of the HTTP status when the code is unknown. */
function classOf({ code, status }: ApiError): TextClass | null {
  const known = classOfText(code);
  if (known !== null) return known;
  if (status === 401) return "login";
  if (status === 429) return "rate";
  // A response below 400 was not sent by the API but by a server in front of it.
  if (status === 408 || status < 400 || status >= 500) return "ambiguous";
  return null;
}

function refusalOf({ code, status, message, retryAfterMs }: ApiError): Refusal {
  const name = code === null ? `HTTP ${status}` : String(code);
  const again = retryAfterMs === null ? {} : { retryAfterMs };
  return { code: String(code ?? status), reason: `${name}: ${withoutNumbers(message)}`, ...again };
}
