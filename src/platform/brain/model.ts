// A model behind an OpenAI-compatible address, asked until it answers or there is no sense in it any more.

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
  /** How many it says it took; 0 when it does not say. */
  readonly tokens: number;
}

export interface Asking {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Milliseconds for all of it, below the model's own limit. */
  readonly withinMs?: number;
  /** What the answer must fit; it is not checked here. */
  readonly schema?: Question["schema"];
}

const attempts = 3;
const firstWaitMs = 250;
/** Who is asked to wait longer gives up: somebody is waiting for us, too. */
const longestWaitMs = 20_000;

const dialects: { readonly [api in ModelDefinition["api"]]: Dialect } = { chat, responses };

/** What endpoints turned out to accept, for as long as their definition lives. */
const manners = new WeakMap<ModelDefinition, Manner>();

/** The model's words. Throws when it is not reached, refuses, falls silent or says nothing readable. Part of an answer is
 *  no answer. It is asked again only while it has not said a word. */
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

/** The answer, or why there is none. */
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
