// Places outbound calls (twilio.com/docs/voice/api/call-resource). Creating a call is not idempotent. An attempt
// without a response is looked up in the list of calls and never retried blindly.

import { type IncomingMessage, request as plain } from "node:http";
import { request as encrypted } from "node:https";
import {
  type Attempt,
  type Channel,
  type ChannelStatus,
  externalId,
  type PastAttempt,
  type SendKey,
  type SendOutcome,
  type Verdict,
} from "bridgehead/contract";
import type { VoiceConfig } from "./config.ts";
import type { Placing } from "./outbound.ts";
import { wording } from "./speech/phrases.ts";
import { beginningOf } from "./speech/speakable.ts";

export interface PlacedCalls {
  place(draft: Placing, attempt: Attempt): Promise<SendOutcome>;
  find(draft: Placing, attempt: PastAttempt, signal: AbortSignal): Promise<Verdict>;
  probe(signal: AbortSignal): Promise<ChannelStatus>;
}

/** The fields of a Call resource that this adapter reads. */
interface CallResource {
  readonly sid?: string;
  readonly direction?: string;
  readonly date_created?: string;
  readonly start_time?: string;
}

const refused: ChannelStatus = {
  state: "unauthorized",
  code: "login",
  reason: "the interface rejects the credentials",
};
const e164 = /^\+[1-9]\d{4,14}$/;

/** `AdapterDefinition.address`: returns a number in customary notation as E.164. Returns null for an address that
 *  cannot be called. */
export function callable(text: string): string | null {
  const number = text.trim().replace(/[\s()./-]/g, "");
  return e164.test(number) ? number : null;
}
/** `skewMs`: difference allowed between our clock and the provider's. `settledMs`: how long the provider may still
 *  process a request after its timeout. */
const skewMs = 5000;
const settledMs = 60_000;
const greetingLength = 800;
const remembered = 1000;

/** Returns null when the configuration has no account and number for outbound calls. */
export function placedCalls(channel: Channel, config: VoiceConfig): PlacedCalls | null {
  const { account_sid: account, number, api_key: key } = config;
  const [token] = config.auth_tokens ?? [];
  const login = key ? `${key.sid}:${key.secret}` : `${account}:${token}`;
  if (account === undefined || number === undefined || (key ?? token) === undefined) return null;
  const base = `${config.api_url.replace(/\/$/, "")}/2010-04-01/Accounts/${account}`;
  const ask = (request: Omit<PlacingRequest, "login">) => exchange({ ...request, login });
  // Maps call SIDs to send keys, to exclude the calls of other drafts. The map is empty after a restart; an unknown
  // call counts as this draft's.
  const keys = new Map<string, SendKey>();

  return {
    async place({ to, text }, attempt) {
      if (!e164.test(to)) return refusal("no-number", "that is no number to call", "recipient");
      const form = creation(channel, config, { to, from: number, text, key: attempt.key });
      const url = new URL(`${base}/Calls.json`);
      const { signal } = attempt;
      const answer = await ask({ method: "POST", url, form, signal, crossing: () => attempt.crossing() });
      const outcome = outcomeOf(answer);
      if (answer.status === 401 || answer.status === 403) channel.report(refused);
      if (outcome.kind === "sent") {
        channel.report({ state: "ready" });
        keys.set(outcome.id, attempt.key);
        for (const oldest of keys.size > remembered ? keys.keys() : []) {
          keys.delete(oldest);
          break;
        }
      }
      return outcome;
    },
    async find({ to }, attempt, signal) {
      const since = attempt.startedAt.getTime() - skewMs;
      const url = new URL(`${base}/Calls.json`);
      url.search = new URLSearchParams({
        To: to,
        From: number,
        "StartTime>": new Date(since).toISOString().slice(0, 10),
        PageSize: "200",
      }).toString();
      const answer = await ask({ method: "GET", url, signal });
      if (answer.status !== 200) return { kind: "unsure", lookAgainAfterMs: 30_000 };
      const { calls = [] } = (answer.body ?? {}) as { calls?: readonly CallResource[] };
      const ours = calls.find(
        ({ sid = "", direction, date_created, start_time }) =>
          direction?.startsWith("outbound") &&
          Date.parse(date_created ?? start_time ?? "") >= since &&
          (keys.get(sid) ?? attempt.key) === attempt.key,
      );
      if (ours?.sid !== undefined) return { kind: "sent", id: externalId(ours.sid) };
      const early = channel.clock.now() - attempt.startedAt.getTime() < settledMs;
      return early ? { kind: "unsure", lookAgainAfterMs: settledMs / 2 } : { kind: "not-sent" };
    },
    async probe(signal) {
      const answer = await ask({ method: "GET", url: new URL(`${base}.json`), signal });
      if (answer.status === 401 || answer.status === 403) return refused;
      if (answer.status === 200) return { state: "ready" };
      return { state: "degraded", code: "api", reason: `the interface answered ${answer.status}` };
    },
  };
}

/** Builds the form of the create request. The text is a parameter of the signed URL that the provider requests on
 *  answer. The process that handles that request need not be the one that placed the call. */
function creation(
  channel: Channel,
  config: VoiceConfig,
  call: { readonly to: string; readonly from: string; readonly text: string; readonly key: SendKey },
): URLSearchParams {
  const { language, max_sentences } = config;
  const words = beginningOf(call.text, language, max_sentences, wording(config, language)).join(" ");
  const url = channel.url("/call");
  url.search = `say=${Buffer.from(words.slice(0, greetingLength)).toString("base64url")}`;
  const status = channel.url("/status");
  status.search = `key=${call.key}`;
  const form = new URLSearchParams({
    To: call.to,
    From: call.from,
    Url: url.href,
    Method: "POST",
    FallbackUrl: channel.url("/fallback").href,
    StatusCallback: status.href,
    StatusCallbackMethod: "POST",
  });
  for (const event of ["initiated", "answered", "completed"]) form.append("StatusCallbackEvent", event);
  return form;
}

/** Error codes for a recipient that cannot be reached: invalid, not dialable, blocked. */
const unreachable = new Set([13223, 13224, 13225, 13226, 13227, 21211, 21214, 21216, 21217]);

function outcomeOf({ status, body, retryAfter }: PlacingAnswer): SendOutcome {
  const { sid, code } = (body ?? {}) as { sid?: unknown; code?: unknown };
  const named = `${status}${typeof code === "number" ? `/${code}` : ""}`;
  const reason = `the interface answered ${named}`;
  if (status >= 200 && status < 300) {
    return typeof sid === "string"
      ? { kind: "sent", id: externalId(sid), detail: `${status}` }
      : { kind: "unknown", reason };
  }
  if (status === 429)
    return {
      kind: "deferred",
      reason,
      ...(retryAfter === null ? {} : { retryAfterMs: retryAfter * 1000 }),
      scope: "channel",
      cause: "rate",
    };
  if (status === 401 || status === 403) return { kind: "deferred", reason, scope: "channel", cause: "login" };
  if (status >= 400 && status < 500) {
    return refusal(named, reason, unreachable.has(Number(code)) ? "recipient" : "draft");
  }
  return { kind: "unknown", reason };
}

const refusal = (code: string, reason: string, scope: "draft" | "recipient"): SendOutcome => ({
  kind: "refused",
  code,
  reason,
  scope,
});

// One HTTP request to a provider's API through Node's own client, which exposes the moment before the first byte is
// sent. An error before that moment means "not sent"; after it the outcome is unknown.

export interface PlacingRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  /** `user:password` for Basic authentication. */
  readonly login: string;
  readonly form?: URLSearchParams;
  readonly signal: AbortSignal;
  /** Awaited when the connection is established, before the first byte is sent. If it rejects, the request fails
   *  unsent. */
  readonly crossing?: () => Promise<void>;
}

export interface PlacingAnswer {
  readonly status: number;
  /** Retry-After of the response, in seconds. */
  readonly retryAfter: number | null;
  /** The parsed JSON body, or null when the body is not JSON. */
  readonly body: unknown;
}

const timeoutMs = 30_000;
const largest = 4_000_000;

/** Resolves with any status; redirects are returned and not followed. Rejects when no complete response arrives. */
function exchange({ method, url, login, form, signal, crossing }: PlacingRequest): Promise<PlacingAnswer> {
  const safe = url.protocol === "https:";
  const body = form?.toString();
  const headers = {
    authorization: `Basic ${Buffer.from(login).toString("base64")}`,
    accept: "application/json",
    ...(body === undefined
      ? {}
      : {
          "content-type": "application/x-www-form-urlencoded",
          "content-length": String(Buffer.byteLength(body)),
        }),
  };
  return new Promise((resolve, reject) => {
    // Each request opens its own connection. An idle connection may close during the write, which would be an unknown
    // outcome.
    const out = (safe ? encrypted : plain)(url, {
      method,
      headers,
      agent: false,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    out.once("error", reject);
    out.once("response", (response) => void readAnswer(response).then(resolve, reject));
    out.once("socket", (socket) =>
      socket.once(
        safe ? "secureConnect" : "connect",
        () =>
          void (crossing?.() ?? Promise.resolve()).then(
            () => out.end(body),
            (error: unknown) => out.destroy(error instanceof Error ? error : new Error(String(error))),
          ),
      ),
    );
  });
}

async function readAnswer(response: IncomingMessage): Promise<PlacingAnswer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > largest) throw new Error("reading an answer: it is too large");
    chunks.push(chunk);
  }
  const seconds = Number(response.headers["retry-after"]);
  return {
    status: response.statusCode ?? 0,
    retryAfter: Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds, 3600) : null,
    body: parsed(Buffer.concat(chunks).toString()),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // a proxy sent this response; the status is sufficient
  }
}
