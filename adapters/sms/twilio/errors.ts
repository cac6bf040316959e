// What Twilio's error codes mean for a text, as a table. Source: twilio.com/docs/api/errors.

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

/** The person wrote too long ago for free words (WhatsApp): only another channel, or a template, can help. */
const windowCodes: ReadonlySet<number> = new Set([63003, 63016]);

/** The interface's answer to a request, when it was not yes. */
export interface ApiError {
  readonly status: number;
  readonly code: number | null;
  readonly message: string;
  /** From Retry-After. */
  readonly retryAfterMs: number | null;
}

/** What became of a text whose creation was answered with `error`. */
export function outcomeOf(error: ApiError): SendOutcome {
  const refusal = refusalOf(error);
  if (error.code !== null && windowCodes.has(error.code))
    return { kind: "refused", code: "window-closed", reason: refusal.reason };
  return outcomeOfClass(classOf(error), refusal);
}

/** What such an answer says about the channel; null: nothing. */
export function statusOf(error: ApiError): ChannelStatus | null {
  return statusOfClass(classOf(error), refusalOf(error));
}

/** What is wrong with a text that failed with this code; null when it is none we know. */
export function classOfText(code: number | null): TextClass | null {
  return (code === null ? undefined : classOfCode.get(code)) ?? null;
}

/** The class of the code, or of the HTTP status where the code is none we know. */
function classOf({ code, status }: ApiError): TextClass | null {
  const known = classOfText(code);
  if (known !== null) return known;
  if (status === 401) return "login";
  if (status === 429) return "rate";
  // Below 400 it is not the interface that answered, but something before it.
  if (status === 408 || status < 400 || status >= 500) return "ambiguous";
  return null;
}

function refusalOf({ code, status, message, retryAfterMs }: ApiError): Refusal {
  const name = code === null ? `HTTP ${status}` : String(code);
  const again = retryAfterMs === null ? {} : { retryAfterMs };
  return { code: String(code ?? status), reason: `${name}: ${withoutNumbers(message)}`, ...again };
}
