// Fault injection for the fake SMS API: rules for the next requests, or the destination number: +1999, five digits for
// the fault, two free digits (+19992161007 is not a mobile number). A test can assign each customer a fault.

/** A fault of a request. Nothing is stored unless the description says so. */
export type SmsFault =
  /** Twilio's error response with this code; the status is 400 unless the code defines another. */
  | { readonly code: number; readonly status?: number; readonly retryAfter?: number }
  /** An error status with an unparsable body. */
  | { readonly status: number; readonly retryAfter?: number }
  /** Stored; the response is delayed by this many milliseconds. */
  | { readonly slow: number }
  /** Stored and accepted; the status callback reports the failure later. */
  | { readonly fails: number; readonly as?: "undelivered" | "failed" }
  /** No response, or an aborted connection. `-stored`: after the message was accepted. `-unread`: before
   *  the form was read, so such a rule cannot match number or text. */
  | "hang"
  | "hang-stored"
  | "cut"
  | "cut-unread"
  | "cut-stored";

export type FaultRequest = "create" | "read" | "list" | "media" | "call";

export interface FaultRule {
  /** Default `create`: a new message. */
  readonly on?: FaultRequest;
  readonly to?: string;
  readonly body?: RegExp;
  /** Number of matching requests. Default: unlimited, until `heal`. */
  readonly times?: number;
}

interface ActiveRule {
  readonly fault: SmsFault;
  readonly rule: FaultRule;
  left: number;
}

export class Faults {
  #rules: readonly ActiveRule[] = [];

  add(fault: SmsFault, rule: FaultRule = {}): void {
    this.#rules = [...this.#rules, { fault, rule, left: rule.times ?? Number.POSITIVE_INFINITY }];
  }

  heal(): void {
    this.#rules = [];
  }

  /** Returns the fault for this request and counts it. */
  due(on: FaultRequest, form?: URLSearchParams): SmsFault | null {
    const to = form?.get("To") ?? "";
    const found = this.#rules.find(
      ({ rule }) =>
        (rule.on ?? "create") === on &&
        (rule.to === undefined || rule.to === to) &&
        (rule.body === undefined || rule.body.test(form?.get("Body") ?? "")),
    );
    return found ? this.#used(found) : on === "create" || on === "call" ? fateOf(to) : null;
  }

  /** Returns whether the connection is aborted before the request is read, and counts it. */
  unread(on: FaultRequest): boolean {
    const found = this.#rules.find(({ fault, rule }) => fault === "cut-unread" && (rule.on ?? "create") === on);
    if (found) this.#used(found);
    return found !== undefined;
  }

  #used(rule: ActiveRule): SmsFault {
    rule.left -= 1;
    if (rule.left <= 0) this.#rules = this.#rules.filter((one) => one !== rule);
    return rule.fault;
  }
}

const fates: Readonly<Record<string, SmsFault>> = {
  "00001": "hang",
  "00002": "cut",
  "00003": "cut-stored",
  "00004": { slow: 2000 },
  "00005": "hang-stored",
  "20003": { code: 20003, status: 401 },
  "20429": { code: 20429, status: 429, retryAfter: 1 },
  "20500": { code: 20500, status: 500 },
};

/** Numbers that choose a fault, for the demo. Every other code works as well. */
export const numberFaults: readonly { readonly number: string; readonly effect: string }[] = [
  { number: "+19990000107", effect: "the provider does not respond" },
  { number: "+19990000207", effect: "the provider closes the connection" },
  { number: "+19990000307", effect: "the provider accepts the text and closes the connection" },
  { number: "+19990000407", effect: "the provider responds after two seconds" },
  { number: "+19992042907", effect: "429: too many requests" },
  { number: "+19992050007", effect: "500: internal server error" },
  { number: "+19992161007", effect: "error 21610: the recipient has unsubscribed" },
  { number: "+19992121107", effect: "error 21211: no such number" },
  { number: "+19993000307", effect: "accepted, then undelivered with error 30003: handset unreachable" },
];

/** Codes 3xxxx and 63xxx arrive with the status callback, all others with the response. */
function fateOf(number: string): SmsFault | null {
  const digits = /^(?:\w+:)?\+1999(\d{5})\d{2}$/.exec(number)?.[1];
  if (digits === undefined) return null;
  const fate = fates[digits];
  if (fate !== undefined) return fate;
  if (/^(3|63)/.test(digits)) return { fails: Number(digits) };
  return /^[26]/.test(digits) ? { code: Number(digits) } : null;
}

const meanings: Readonly<Record<number, string>> = {
  20003: "Authenticate",
  20404: "The requested resource was not found",
  20429: "Too Many Requests",
  20500: "Internal Server Error",
  21211: "Invalid 'To' Phone Number",
  21408: "Permission to send an SMS has not been enabled for the region indicated by the 'To' number",
  21602: "Message body is required",
  21603: "A 'From' phone number is required",
  21604: "A 'To' phone number is required",
  21606: "The 'From' phone number provided is not a valid message-capable Twilio phone number",
  21609: "The 'StatusCallback' URL is not a valid URL",
  21610: "Attempt to send to unsubscribed recipient",
  21611: "This 'From' number has exceeded the maximum number of queued messages",
  21612: "Message cannot be sent with the current combination of 'To' and/or 'From' parameters",
  21614: "'To' number is not a valid mobile number",
  21617: "The concatenated message body exceeds the 1600 character limit",
};

/** Body of an error response of the API. */
export const errorJson = (code: number, status: number): Record<string, unknown> => ({
  code,
  message: meanings[code] ?? `Error ${code}`,
  more_info: `https://www.twilio.com/docs/errors/${code}`,
  status,
});
