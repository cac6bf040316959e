// Client of Twilio's REST API. The provider's own package builds the requests and parses the resources; our
// HTTP connections carry them. Only the messages module is loaded, because the whole package is a third of
// an idle daemon's memory.

import { createRequire } from "node:module";
import {
  aheadOf,
  type ChannelStatus,
  type Clock,
  type ExchangeAnswer,
  HttpConnections,
  retryAfterOf,
  type SendOutcome,
  withTimeout,
} from "bridgehead/contract";
import type { MessageListInstance } from "twilio/lib/rest/api/v2010/account/message.js";
import {
  classes,
  outcomeOf as outcomeOfClass,
  type ProviderRefusal,
  statusOf as statusOfClass,
  type TextClass,
  withoutNumbers,
} from "../outcomes.ts";
import type { SmsTiming } from "../timing.ts";
import type { TwilioSettings } from "./index.ts";

/** One API call: the signal that aborts it, and the function awaited before its first byte is sent. */
export interface ApiCall {
  readonly signal: AbortSignal;
  readonly crossing?: () => Promise<void>;
}

/** Parameters of a new text. */
export interface MessageForm {
  readonly To: string;
  readonly Body: string;
  /** Seconds after which an unsent text expires. */
  readonly ValidityPeriod: number;
  readonly From?: string;
  readonly MessagingServiceSid?: string;
  readonly MediaUrl?: readonly string[];
  readonly StatusCallback?: string;
}

/** Where the provider posts texts to a number. */
export interface NumberWebhook {
  /** Empty when none is set; behind `GET ` when the provider does not post. */
  readonly url: string;
  /** A TwiML application or a messaging service whose URL takes precedence. */
  readonly isOverridden: boolean;
}

/** A Twilio messaging service, whose webhook replaces those of its numbers. */
export interface MessagingService {
  readonly name: string;
  /** Like `NumberWebhook.url`. */
  readonly url: string;
  /** True when texts are posted to the webhook of the number. */
  readonly usesNumber: boolean;
}

export interface ApiFailure extends Error {
  readonly api: ApiError;
}

export function isApiFailure(error: unknown): error is ApiFailure {
  return error instanceof Error && "api" in error;
}

/** A request as the provider's package builds it. */
interface ApiRequest {
  /** Another API of the provider; default: the configured one. */
  readonly api?: URL;
  readonly method: string;
  readonly uri: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly params?: object;
  readonly data?: object;
}

/** Maximum number of texts that are sent at once, each over a connection of its own. */
export const sentAtOnce = 32;
/** Maximum number of connections for all other requests, so that texts never wait for them. */
const mostLookups = 32;

/** Opens no connection before the first call. */
export class TwilioClient {
  readonly #settings: TwilioSettings;
  readonly #clock: Clock;
  readonly #sending: HttpConnections;
  readonly #lookups: HttpConnections;
  readonly #base: URL;
  /** The URL of the account, without its ending. */
  readonly #account: string;
  /** During a rotation one of the logins is not yet valid, or no longer valid. The last accepted login is tried first. */
  #current = 0;
  #ahead = 0;
  /** Loaded by the first call: an idle daemon does not need it. */
  #package: TwilioPackage | undefined;

  constructor(settings: TwilioSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
    this.#sending = new HttpConnections({ ca: settings.ca, connections: sentAtOnce });
    this.#lookups = new HttpConnections({ ca: settings.ca, connections: mostLookups });
    this.#base = new URL(settings.apiUrl);
    const prefix = this.#base.pathname.replace(/\/$/, "");
    this.#account = `${this.#base.origin}${prefix}/2010-04-01/Accounts/${settings.accountSid}`;
  }

  /** By how many milliseconds the provider's clock is ahead of ours, by its last response; 0 before that, and for an allowed
   *  difference. */
  get ahead(): number {
    return Math.abs(this.#ahead) < this.#settings.timing.skew ? 0 : this.#ahead;
  }

  /** Returns the account's messages, for one request or a chain of pages. Rejects with an `ApiFailure`
   *  for an error response. */
  messages(call: ApiCall): MessageListInstance {
    return this.#loaded().list(this.#version(call), this.#settings.accountSid);
  }

  /** Creates a text and returns the body of the response. Rejects like `messages`. The package's list would also parse
   *  the dates of the response, which nothing reads. */
  async create(text: MessageForm, call: ApiCall): Promise<Readonly<Record<string, unknown>>> {
    const body: unknown = await this.#version(call).create({
      uri: `/Accounts/${this.#settings.accountSid}/Messages.json`,
      method: "post",
      data: text,
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
    });
    return Object(body) as Readonly<Record<string, unknown>>;
  }

  /** Verifies the login. Rejects like `messages` when the login is not accepted. */
  async login(signal: AbortSignal): Promise<void> {
    await this.#request({ method: "get", uri: `${this.#account}.json` }, { signal });
  }

  /** Returns the webhook of our number; null when the account has no such number. Rejects like `messages`. */
  async webhookOf(number: string, signal: AbortSignal): Promise<NumberWebhook | null> {
    const uri = `${this.#account}/IncomingPhoneNumbers.json`;
    const { body } = await this.#request({ method: "get", uri, params: { PhoneNumber: number } }, { signal });
    const list = (Object(body) as { incoming_phone_numbers?: unknown }).incoming_phone_numbers;
    const [found] = (Array.isArray(list) ? list : []) as {
      sms_url?: unknown;
      sms_method?: unknown;
      sms_application_sid?: unknown;
    }[];
    if (found === undefined) return null;
    const { sms_url: url, sms_method: method, sms_application_sid: application } = found;
    return {
      url: webhookIn(url, method),
      isOverridden: typeof application === "string" && application !== "",
    };
  }

  /** Returns the messaging service that the number belongs to; null when it belongs to none, or its API is not available to
   *  the login. */
  async serviceOf(number: string, signal: AbortSignal): Promise<MessagingService | null> {
    if (this.#settings.name !== "twilio") return null;
    const isTwilio = this.#base.hostname === "api.twilio.com";
    const api = isTwilio ? new URL("https://messaging.twilio.com") : this.#base;
    const page = async (path: string, key: string) => {
      const { body } = await this.#request({ method: "get", api, uri: `/v1/Services${path}` }, { signal });
      const list = (Object(body) as Readonly<Record<string, unknown>>)[key];
      return (Array.isArray(list) ? list : []) as Readonly<Record<string, unknown>>[];
    };
    for (const service of await page("?PageSize=50", "services")) {
      const numbers = await page(`/${String(service["sid"])}/PhoneNumbers?PageSize=1000`, "phone_numbers");
      if (!numbers.some((one) => one["phone_number"] === number)) continue;
      const { friendly_name: name, inbound_request_url: url, use_inbound_webhook_on_number: own } = service;
      return { name: String(name), url: webhookIn(url, service["inbound_method"]), usesNumber: own === true };
    }
    return null;
  }

  /** Returns the Authorization header of the last accepted login, for media. */
  authorization(): string {
    return this.#basic(this.#current);
  }

  close(): void {
    this.#sending.close();
    this.#lookups.close();
  }

  #loaded(): TwilioPackage {
    return (this.#package ??= loadPackage());
  }

  /** Returns the package's API version, which sends its requests as this call. */
  #version(call: ApiCall): ApiVersion {
    const client = { request: (wanted: ApiRequest) => this.#request(wanted, call) };
    return this.#loaded().version(client, this.#settings.apiUrl.replace(/\/$/, ""));
  }

  #basic(at: number): string {
    const { user = "", password = "" } = this.#settings.logins[at] ?? {};
    return `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  }

  async #request({ method, headers, data, ...wanted }: ApiRequest, call: ApiCall) {
    const { length } = this.#settings.logins;
    const connections = call.crossing === undefined ? this.#lookups : this.#sending;
    for (let tries = 1; ; tries++) {
      const used = this.#current;
      const answer = await withTimeout(this.#clock, call.signal, this.#settings.timing.request, (signal) =>
        connections.exchange({
          method: method.toLowerCase() === "post" ? "POST" : "GET",
          url: addressOf(wanted.api ?? this.#base, wanted),
          headers: { accept: "application/json", ...headers, authorization: this.#basic(used) },
          ...(data === undefined ? {} : { body: formOf(data) }),
          signal,
          crossing: call.crossing,
        }),
      );
      this.#ahead = aheadOf(answer, this.#clock.now());
      if (answer.status === 401 && tries < length) {
        if (this.#current === used) this.#current = (used + 1) % length;
        continue;
      }
      if (answer.status < 200 || answer.status >= 300) throw failure(answer);
      const body = answer.json ?? (JSON.parse(answer.body) as unknown); // throws when it is no JSON
      return { statusCode: answer.status, body, headers: answer.headers };
    }
  }
}

/** Returns the URL of a webhook as `NumberWebhook` has it. */
const webhookIn = (url: unknown, method: unknown): string =>
  typeof url !== "string" ? "" : method === "GET" && url !== "" ? `GET ${url}` : url;

type ApiVersion = Parameters<typeof MessageListInstance>[0];
type TwilioRequests = { request(wanted: ApiRequest): Promise<unknown> };

/** The parts of the provider's package that are used. */
interface TwilioPackage {
  version(client: TwilioRequests, api: string): ApiVersion;
  list(version: ApiVersion, accountSid: string): MessageListInstance;
}

const require = createRequire(import.meta.url);

function loadPackage(): TwilioPackage {
  const { default: Domain } = require("twilio/lib/base/Domain.js");
  const { default: Version } = require("twilio/lib/base/Version.js");
  const { MessageListInstance: list } = require("twilio/lib/rest/api/v2010/account/message.js");
  return { list, version: (client, api) => new Version(new Domain(client, api), "2010-04-01") as ApiVersion };
}

/** Resolves a page's link against our API URL, regardless of the host in the link. */
function addressOf(base: URL, { uri, params }: Pick<ApiRequest, "uri" | "params">): URL {
  const url = new URL(uri, base);
  if (url.origin !== base.origin) {
    url.protocol = base.protocol;
    url.host = base.host;
  }
  for (const [name, value] of pairs(params ?? {})) url.searchParams.append(name, value);
  return url;
}

function formOf(data: object): string {
  return new URLSearchParams(pairs(data)).toString();
}

/** Repeated values become repeated names. */
function pairs(values: object): [string, string][] {
  return Object.entries(values as Record<string, unknown>).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value])
      .filter((one) => one !== undefined)
      .map((one): [string, string] => [name, String(one)]),
  );
}

/** Parses both forms of error responses: the old form, and RFC 9457. */
function failure(answer: ExchangeAnswer): ApiFailure {
  // Of the response of a server in front of the API, the status is the only information.
  const body = Object(answer.json) as Readonly<Record<string, unknown>>;
  const words = [body["message"], body["detail"], body["title"]].find((one) => typeof one === "string");
  const message = typeof words === "string" ? words : "no words";
  const code = Number(body["code"]);
  const api: ApiError = {
    status: answer.status,
    code: Number.isInteger(code) && code > 0 ? code : null,
    message,
    retryAfterMs: retryAfterOf(answer),
  };
  return Object.assign(new Error(`the interface answered ${answer.status}`), { api });
}

// Maps Twilio's error codes to error classes. Source: twilio.com/docs/api/errors.
const classOfCode = classes({
  recipient: [21211, 21214, 21217, 21265, 21268, 21614, 21635, 30005, 30006, 63024],
  "opted-out": [21610],
  login: [20003, 20005, 20006, 20008],
  account: [20404, 21609, 30002, 30037],
  "set-up": [
    21212, 21601, 21603, 21606, 21607, 21659, 21660, 21661, 21703, 21704, 21705, 21709, 21711, 21712, 30032, 30033,
    30034, 30035, 63007,
  ],
  reach: [21215, 21408, 21605, 21612],
  content: [21602, 21617, 21620, 21623, 30007, 30450, 30610, 30640],
  rate: [20429, 63038],
  "sender-rate": [21611, 30022, 30023, 30027, 63017, 63018],
  unreached: [30001, 30003, 30008],
  expired: [30036],
  ambiguous: [20500],
});

/** The customer's last message is too old for a free-form reply (WhatsApp). Only another channel or a
 *  template can be used. */
const windowCodes: ReadonlySet<number> = new Set([63003, 63016]);

export interface ApiError {
  readonly status: number;
  readonly code: number | null;
  readonly message: string;
  /** From the Retry-After header. */
  readonly retryAfterMs: number | null;
}

/** Returns the outcome of a text whose create request failed with `error`. */
export function outcomeOf(error: ApiError, timing: SmsTiming): SendOutcome {
  const refusal = refusalOf(error);
  if (error.code !== null && windowCodes.has(error.code))
    return { kind: "refused", code: "window-closed", reason: refusal.reason };
  return outcomeOfClass(classOf(error), refusal, timing);
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

function refusalOf({ code, status, message, retryAfterMs }: ApiError): ProviderRefusal {
  const name = code === null ? `HTTP ${status}` : String(code);
  const again = retryAfterMs === null ? {} : { retryAfterMs };
  return { code: String(code ?? status), reason: `${name}: ${withoutNumbers(message)}`, ...again };
}
