// Twilio's REST interface through the provider's own package: it builds the requests and reads the resources, over lines
// of ours. Only the part for messages is loaded; the whole package is a third of an idle daemon's memory.

import { createRequire } from "node:module";
import type { MessageListInstance } from "twilio/lib/rest/api/v2010/account/message.js";
import { createLines, type ExchangeAnswer } from "../exchange.ts";
import type { ApiError } from "./errors.ts";
import type { TwilioSettings } from "./settings.ts";

/** One call: what ends it, and what is told before its first byte leaves. */
export interface Call {
  readonly signal: AbortSignal;
  readonly crossing?: () => void;
}

export interface Client {
  /** The account's messages, for one call or a chain of pages. Rejects with an `ApiFailure` when the answer is not yes. */
  messages(call: Call): MessageListInstance;
  /** Rejects like `messages` when the login is not taken. */
  login(signal: AbortSignal): Promise<void>;
  /** The login that was taken last, for media. */
  authorization(): string;
  close(): void;
}

/** An answer of the interface other than yes. */
export interface ApiFailure extends Error {
  readonly api: ApiError;
}

export function isApiFailure(error: unknown): error is ApiFailure {
  return error instanceof Error && "api" in error;
}

/** As in the provider's package. */
const timeoutMs = 30_000;

interface Wish {
  readonly method: string;
  readonly uri: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly params?: object;
  readonly data?: object;
}

/** Opens nothing by itself. */
export function createClient(settings: TwilioSettings): Client {
  const lines = createLines({ ca: settings.ca });
  const base = new URL(settings.apiUrl);
  const prefix = base.pathname.replace(/\/$/, "");
  // During a rotation one of the logins is not valid yet, or not any more; the one that was taken last is tried first.
  let current = 0;
  const basic = (at: number): string => {
    const { user = "", password = "" } = settings.logins[at] ?? {};
    return `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;
  };

  async function request(wish: Wish, call: Call) {
    for (let tries = 1; ; tries++) {
      const used = current;
      const answer = await lines.exchange({
        method: wish.method.toLowerCase() === "post" ? "POST" : "GET",
        url: addressOf(base, wish),
        headers: { accept: "application/json", ...wish.headers, authorization: basic(used) },
        ...(wish.data === undefined ? {} : { body: formOf(wish.data) }),
        signal: AbortSignal.any([call.signal, AbortSignal.timeout(timeoutMs)]),
        crossing: call.crossing,
      });
      if (answer.status === 401 && tries < settings.logins.length) {
        if (current === used) current = (used + 1) % settings.logins.length;
        continue;
      }
      if (answer.status < 200 || answer.status >= 300) throw failure(answer);
      return { statusCode: answer.status, body: JSON.parse(answer.body) as unknown, headers: answer.headers };
    }
  }

  return {
    messages: (call) => messageList(settings, (wish) => request(wish, call)),
    async login(signal) {
      const uri = `${base.origin}${prefix}/2010-04-01/Accounts/${settings.accountSid}.json`;
      await request({ method: "get", uri }, { signal });
    },
    authorization: () => basic(current),
    close: () => lines.close(),
  };
}

const require = createRequire(import.meta.url);

/** The package's list of messages over `request`. */
function messageList(
  settings: TwilioSettings,
  request: (wish: Wish) => Promise<unknown>,
): MessageListInstance {
  const { default: Domain } = require("twilio/lib/base/Domain.js");
  const { default: Version } = require("twilio/lib/base/Version.js");
  const { MessageListInstance: list } = require("twilio/lib/rest/api/v2010/account/message.js");
  const domain = new Domain({ request }, settings.apiUrl.replace(/\/$/, ""));
  return list(new Version(domain, "2010-04-01"), settings.accountSid) as MessageListInstance;
}

/** A page's link is followed on our interface only, whatever host stands in it. */
function addressOf(base: URL, wish: Wish): URL {
  const url = new URL(wish.uri, base);
  url.protocol = base.protocol;
  url.host = base.host;
  for (const [name, value] of pairs(wish.params ?? {})) url.searchParams.append(name, value);
  return url;
}

function formOf(data: object): string {
  return new URLSearchParams(pairs(data)).toString();
}

/** Repeated values are repeated names. */
function pairs(values: object): [string, string][] {
  return Object.entries(values as Record<string, unknown>).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value])
      .filter((one) => one !== undefined)
      .map((one): [string, string] => [name, String(one)]),
  );
}

/** Both forms of error bodies: the old one, and RFC 9457. */
function failure(answer: ExchangeAnswer): ApiFailure {
  let body: Readonly<Record<string, unknown>> = {};
  try {
    body = Object(JSON.parse(answer.body)) as typeof body;
  } catch {
    // Something before the interface answered; the status says what there is to know.
  }
  const words = [body["message"], body["detail"], body["title"]].find((one) => typeof one === "string");
  const message = typeof words === "string" ? words : "no words";
  const code = Number(body["code"]);
  const api: ApiError = {
    status: answer.status,
    code: Number.isInteger(code) && code > 0 ? code : null,
    message,
    retryAfterMs: retryAfter(answer.headers["retry-after"]),
  };
  return Object.assign(new Error(`the interface answered ${answer.status}`), { api });
}

/** Seconds only: the interface sends no dates. */
function retryAfter(value: string | undefined): number | null {
  const seconds = value === undefined || value.trim() === "" ? Number.NaN : Number(value);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 3600) * 1000 : null;
}
