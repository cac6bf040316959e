// Client for a model behind an OpenAI-compatible endpoint, with retries and a total timeout.

import type { Clock } from "bridgehead/contract";
import { jitter } from "../../ops/clock.ts";
import type { ModelDefinition } from "../definition.ts";
import { call } from "./call.ts";
import { chat } from "./chat.ts";
import type { ChatMessage, Dialect, Manner, Question } from "./dialect.ts";
import { responses } from "./responses.ts";

export type { ChatMessage } from "./dialect.ts";

export interface Completion {
  readonly text: string;
  /** Tokens reported by the endpoint; 0 when it reports none. */
  readonly tokens: number;
}

export interface Asking {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Total timeout in milliseconds; shorter than the model's own limit. */
  readonly withinMs?: number;
  /** JSON Schema to request. The caller validates the answer. */
  readonly schema?: Question["schema"];
}

const attempts = 3;
const firstWaitMs = 250;
/** Fails fast when Retry-After exceeds this limit, because the API caller has a deadline of its own. */
const longestWaitMs = 20_000;

const dialects: { readonly [api in ModelDefinition["api"]]: Dialect } = { chat, responses };

/** Remembers which response mode each endpoint accepted, for the lifetime of its definition. */
const manners = new WeakMap<ModelDefinition, Manner>();

/** Returns the model's answer. Throws when the endpoint is unreachable, refuses the request, times out
 *  or returns an invalid response. A partial answer is discarded. Retries only while no text has been
 *  received. */
export async function complete(
  model: ModelDefinition,
  messages: readonly ChatMessage[],
  { clock, signal, withinMs = model.totalMs, schema = null }: Asking,
): Promise<Completion> {
  const late = new AbortController();
  const done = new AbortController();
  const limitMs = Math.min(withinMs, model.totalMs);
  void clock.sleep(limitMs, done.signal).then(() => late.abort());
  try {
    const both = AbortSignal.any([signal, late.signal]);
    const reason = await ask({ model, messages, schema }, clock, both);
    if (typeof reason !== "string") return reason;
    if (signal.aborted) throw new Error("asking the model: nobody waits for it", { cause: signal.reason });
    throw new Error(
      `asking the model: ${late.signal.aborted ? `no answer within ${limitMs / 1000} s` : reason}`,
    );
  } finally {
    done.abort();
  }
}

/** Makes one attempt. Returns the answer, or the reason for the failure. */
async function ask(question: Question, clock: Clock, signal: AbortSignal): Promise<Completion | string> {
  const { model } = question;
  let manner = manners.get(model) ?? "stream with usage";
  let reason = "";
  for (let attempt = 1; !signal.aborted; ) {
    const outcome = await call(dialects[model.api], question, manner, { clock, signal });
    if (outcome.kind === "answered") {
      manners.set(model, manner);
      return outcome;
    }
    reason = outcome.reason;
    if (outcome.kind === "refused" && outcome.less) {
      manner = outcome.less;
      continue;
    }
    const told = outcome.kind === "refused" ? outcome.afterMs : null;
    const wait = told ?? jitter(firstWaitMs * 2 ** (attempt - 1));
    if (!outcome.again || attempt++ >= attempts || wait > longestWaitMs) return reason;
    await clock.sleep(wait, signal);
  }
  return reason;
}
