// Client for a model behind an OpenAI-compatible endpoint, with retries and a total timeout.

import { type Clock, retryAfterOf } from "bridgehead/contract";
import { Agent, type Dispatcher, request } from "undici";
import { jitter } from "../../ops/clock.ts";
import type { ModelDefinition } from "../agents/definition.ts";
import { type ChatMessage, chat, type Manner, type ModelDialect, type ModelQuestion, responses } from "./dialects.ts";
import { createAssembler, type ModelResult, parsed } from "./response.ts";

export type { ChatMessage } from "./dialects.ts";

export interface Completion {
  readonly text: string;
  /** Tokens reported by the endpoint; 0 when it reports none. */
  readonly tokens: number;
}

export interface ModelOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Total timeout in milliseconds; shorter than the model's own limit. */
  readonly withinMs?: number;
  /** JSON Schema to request. The caller validates the answer. */
  readonly schema?: ModelQuestion["schema"];
}

const attempts = 3;
const firstWaitMs = 250;
/** Fails fast when Retry-After exceeds this limit, because the API caller has a deadline of its own. */
const longestWaitMs = 20_000;

const dialects: { readonly [api in ModelDefinition["api"]]: ModelDialect } = { chat, responses };

/** Remembers which response mode each endpoint accepted, for the lifetime of its definition. */
const manners = new WeakMap<ModelDefinition, Manner>();

/** The reason why a model gave no answer. `isPassing`: the endpoint or the configuration is the cause, and the same
 *  request may succeed later; otherwise the answer itself was unusable. `fix`: the remedy in terms of the keys under
 *  `model`. */
export interface ModelFailure extends Error {
  readonly modelFailure: {
    readonly model: string;
    readonly reason: string;
    readonly fix: string;
    readonly isPassing: boolean;
    /** The endpoint rejects the key, the account or the address until an operator corrects it. */
    readonly isLasting: boolean;
    /** Milliseconds from Retry-After; null without one. */
    readonly afterMs: number | null;
  };
}

export const isModelFailure = (error: unknown): error is ModelFailure =>
  error instanceof Error && "modelFailure" in error;

function failure(model: ModelDefinition, { reason, status, afterMs, isPassing }: Unanswered): ModelFailure {
  const { host } = new URL(model.url);
  const modelFailure = {
    model: `${model.name} at ${host}`,
    reason,
    fix: remedy(reason, status),
    isPassing,
    isLasting: status !== null && elsewhere.has(status),
    afterMs,
  };
  return Object.assign(new Error(`asking the model: ${reason}`), { modelFailure });
}

function remedy(reason: string, status: number | null): string {
  if (status === 401 || status === 403) return "check model.key";
  if (status === 404) return "check model.url and model.name";
  if (status === 402 || status === 429) return "check the rate limit and the credit of the account at the provider";
  if (status !== null && status >= 500) return "check the server of the model";
  if (status !== null) return "check model.url, model.name, model.api and the parameters under model";
  if (/ENOTFOUND|EAI_AGAIN/.test(reason)) return "check the host of model.url";
  if (/ECONNREFUSED/.test(reason)) return "check model.url, and whether the server runs";
  if (/CERT|TLS|SSL|altname/i.test(reason))
    return "check the certificate of the server in model.url; name a private CA in NODE_EXTRA_CA_CERTS";
  if (/silent|no answer within/.test(reason))
    return "raise model.timeout or model.total_timeout, or use a faster model";
  if (/exceeds|longer than/.test(reason)) return "instruct the agent to answer briefly";
  return "check model.url and model.api; the endpoint must be OpenAI-compatible";
}

/** Returns the model's answer. Throws a ModelFailure when the endpoint is unreachable, refuses the request, times out
 *  or returns an invalid response. A partial answer is discarded. Retries only while no text has been received. */
export async function complete(
  model: ModelDefinition,
  messages: readonly ChatMessage[],
  { clock, signal, withinMs = model.totalMs, schema = null }: ModelOptions,
): Promise<Completion> {
  const late = new AbortController();
  const done = new AbortController();
  const limitMs = Math.min(withinMs, model.totalMs);
  void clock.sleep(limitMs, done.signal).then(() => late.abort());
  try {
    const both = AbortSignal.any([signal, late.signal]);
    const result = await ask({ model, messages, schema }, clock, both);
    if ("text" in result) return result;
    if (signal.aborted) throw new Error("asking the model: the request was aborted", { cause: signal.reason });
    if (!late.signal.aborted) throw failure(model, result);
    const reason = `no answer within ${limitMs / 1000} s`;
    throw failure(model, { reason, status: null, isPassing: true, afterMs: null });
  } finally {
    done.abort();
  }
}

/** Asks a model one short question, to check its address, key and name. Returns null when it answers. */
export async function probeModel(
  given: Pick<ModelDefinition, "url" | "name" | "temperature"> & { readonly key?: string | undefined },
  clock: Clock,
  signal: AbortSignal,
): Promise<Pick<ModelFailure["modelFailure"], "reason" | "fix"> | null> {
  const model: ModelDefinition = {
    ...given,
    key: given.key ?? null,
    api: "chat",
    listedAs: given.name,
    topP: null,
    reasoningEffort: null,
    reasoningMode: null,
    outputSchema: null,
    silenceMs: probeMs,
    totalMs: probeMs,
  };
  try {
    await complete(model, [{ role: "user", content: "Answer with one word: ready" }], { clock, signal });
    return null;
  } catch (error) {
    if (isModelFailure(error)) return error.modelFailure;
    return { reason: `no answer within ${probeMs / 1000} s`, fix: "use a faster model" };
  }
}

const probeMs = 30_000;

interface Unanswered {
  readonly reason: string;
  /** Null without a response. */
  readonly status: number | null;
  readonly isPassing: boolean;
  readonly afterMs: number | null;
}

/** Statuses that concern the account or the address instead of the question. */
const elsewhere = new Set([401, 402, 403, 404]);

/** Makes up to three attempts. Returns the answer, or the reason for the failure. */
async function ask(question: ModelQuestion, clock: Clock, signal: AbortSignal): Promise<Completion | Unanswered> {
  const { model } = question;
  let manner = manners.get(model) ?? "stream with usage";
  let failed: Unanswered = { reason: "", status: null, isPassing: true, afterMs: null };
  for (let attempt = 1; !signal.aborted; ) {
    const outcome = await call(dialects[model.api], question, manner, { clock, signal });
    if (outcome.kind === "answered") {
      manners.set(model, manner);
      return outcome;
    }
    const { reason } = outcome;
    if (outcome.kind === "refused") {
      const { status, again, afterMs } = outcome;
      failed = { reason, status, isPassing: again || elsewhere.has(status), afterMs };
    } else failed = { reason, status: null, isPassing: outcome.unreachable ?? false, afterMs: null };
    if (outcome.kind === "refused" && outcome.less) {
      manner = outcome.less;
      continue;
    }
    const wait = failed.afterMs ?? jitter(firstWaitMs * 2 ** (attempt - 1));
    if (!outcome.again || attempt++ >= attempts || wait > longestWaitMs) return failed;
    await clock.sleep(wait, signal);
  }
  return failed;
}

// Makes one request to a model endpoint. Returns every failure as a value and never throws.

export type ModelOutcome = ModelResult | ModelRefusal;

const maxBytes = 32 * 1024 * 1024;
/** Milliseconds to wait for the token usage after a complete answer has arrived. */
const usageMs = 2_000;

// Timeouts are enforced here with the agent's own limits. undici's default would abort a slow response
// after five minutes.
const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });

/** Returns early with a failure when `signal` aborts. */
export async function call(
  dialect: ModelDialect,
  question: ModelQuestion,
  manner: Manner,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<ModelOutcome> {
  const { model } = question;
  const cut = new AbortController();
  // A response that is not streamed arrives after one long silence, so only the total timeout applies.
  const ms = manner === "whole" ? model.totalMs : model.silenceMs;
  let silent = false;
  const fall = () => {
    silent = true;
    cut.abort();
  };
  const silence = watchSilence(clock, ms, fall);
  const heard = createAssembler(dialect);
  let usage: ReturnType<typeof watchSilence> | undefined;
  try {
    const response = await request(addressOf(model.url, dialect.path), {
      method: "POST",
      dispatcher: agent,
      headers: {
        "content-type": "application/json",
        accept: manner === "whole" ? "application/json" : "text/event-stream, application/json",
        ...(model.key === null ? {} : { authorization: `Bearer ${model.key}` }),
      },
      body: JSON.stringify(dialect.request(question, manner)),
      signal: AbortSignal.any([signal, cut.signal]),
    });
    silence.restart();
    if (response.statusCode !== 200) return await readRefusal(response, manner, clock.now());
    const type = String(response.headers["content-type"]);
    const read = /\bjson\b/.test(type) ? heard.whole : heard.events;
    let bytes = 0;
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      silence.restart();
      bytes += chunk.byteLength;
      read(chunk);
      if (heard.over()) break;
      if (bytes > maxBytes) return { kind: "failed", reason: "its answer has no end", again: false };
      if (heard.complete()) usage ??= watchSilence(clock, usageMs, fall);
    }
    return heard.outcome(/\bhtml\b/.test(type) ? "it answered with a page of HTML" : "it cut its answer off");
  } catch (error) {
    const why = silent ? `it was silent for ${ms / 1000} s` : `the connection failed (${codeOf(error)})`;
    const outcome = heard.outcome(why);
    if (outcome.kind !== "failed") return outcome;
    return { ...outcome, again: outcome.again && !silent, unreachable: outcome.reason === why };
  } finally {
    silence.stop();
    usage?.stop();
    cut.abort();
  }
}

/** Appends the path and keeps the query string of the configured address. */
function addressOf(url: string, path: string): URL {
  const address = new URL(url);
  address.pathname = address.pathname.replace(/\/+$/, "") + path;
  return address;
}

/** Returns the error code only: messages of network errors may quote the request. */
function codeOf(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: unknown };
  return typeof code === "string" ? code : String(name);
}

// Classifies a response other than 200: whether a retry is allowed, after which delay, and in which response mode.

export interface ModelRefusal {
  readonly kind: "refused";
  readonly status: number;
  readonly reason: string;
  readonly again: boolean;
  /** Milliseconds from Retry-After; null when the header is absent. */
  readonly afterMs: number | null;
  /** A simpler response mode to retry with; null when the mode is not the cause. */
  readonly less: Manner | null;
}

const maxLength = 64 * 1024;

/** `manner` is the response mode of the request; `now` is epoch milliseconds. */
async function readRefusal(
  { statusCode: status, headers, body }: Dispatcher.ResponseData,
  manner: Manner,
  now: number,
): Promise<ModelRefusal> {
  const text = await beginningOf(body);
  const later = status === 408 || status === 425 || status === 429 || (status >= 500 && status !== 501);
  const code = codeIn(text);
  return {
    kind: "refused",
    status,
    reason: `HTTP ${status}${code ? ` (${code})` : ""}`,
    again: later,
    afterMs: retryAfterOf({ headers }, { now, longest: Number.POSITIVE_INFINITY }),
    less: later ? null : lessThan(manner, status, text),
  };
}

/** An error that mentions the stream, or that gives no reason, may be caused by the response mode. Any
 *  other error concerns the request itself and would repeat. */
function lessThan(manner: Manner, status: number, text: string): Manner | null {
  if (manner === "whole" || ![400, 415, 422, 501].includes(status)) return null;
  if (manner === "stream with usage" && /stream_options|include_usage/.test(text)) return "stream";
  return /stream/i.test(text) || text.trim() === "" || status === 501 ? "whole" : null;
}

/** Extracts an error code such as `context_length_exceeded`. Rejects digits and capitals, because a
 *  server may quote the API key. */
function codeIn(text: string): string | null {
  const body = parsed(text) as { readonly error?: { readonly code?: unknown } | null } | null | undefined;
  const code = typeof body === "object" ? body?.error?.code : undefined;
  return typeof code === "string" && /^[a-z_]{1,60}$/.test(code) ? code : null;
}

async function beginningOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > maxLength) break;
    }
  } catch {
    // The body is unreadable; the status code is sufficient.
  }
  return text;
}

// Idle timeout for a model server. The total duration says little, because a model may generate text for minutes.

/** Grace period for data that arrived while the event loop was blocked and is not read yet. */
const graceMs = 50;

/** Calls `fallen` once when no data was received for `ms` milliseconds. */
export function watchSilence(clock: Clock, ms: number, fallen: () => void) {
  const stopped = new AbortController();
  const { signal } = stopped;
  let last = clock.monotonic();
  let count = 0;
  const watch = async () => {
    while (!signal.aborted) {
      const left = last + ms - clock.monotonic();
      const before = count;
      await clock.sleep(left > 0 ? left : graceMs, signal);
      if (left <= 0 && count === before && !signal.aborted) return fallen();
    }
  };
  void watch();
  return {
    /** Restarts the timeout after data was received. */
    restart() {
      last = clock.monotonic();
      count++;
    },
    /** Stops the timeout. */
    stop: () => stopped.abort(),
  };
}
