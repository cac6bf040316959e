// Makes one request to a model endpoint. Returns every failure as a value and never throws.

import type { Clock } from "bridgehead/contract";
import { Agent, request } from "undici";
import type { Dialect, Manner, Question } from "./dialect.ts";
import { createHearing, type Heard } from "./hearing.ts";
import { type Refusal, readRefusal } from "./refusal.ts";
import { type Silence, watchSilence } from "./silence.ts";

export type Outcome = Heard | Refusal;

const maxBytes = 32 * 1024 * 1024;
/** Milliseconds to wait for the token usage after a complete answer has arrived. */
const usageMs = 2_000;

// Timeouts are enforced here with the agent's own limits. undici's default would abort a slow response
// after five minutes.
const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });

/** Returns early with a failure when `signal` aborts. */
export async function call(
  dialect: Dialect,
  question: Question,
  manner: Manner,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Outcome> {
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
  const heard = createHearing(dialect);
  let usage: Silence | undefined;
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
    silence.heard();
    if (response.statusCode !== 200) return await readRefusal(response, manner, clock.now());
    const read = /\bjson\b/.test(String(response.headers["content-type"])) ? heard.whole : heard.events;
    let bytes = 0;
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      silence.heard();
      bytes += chunk.byteLength;
      read(chunk);
      if (heard.over()) break;
      if (bytes > maxBytes) return { kind: "failed", reason: "its answer has no end", again: false };
      if (heard.complete()) usage ??= watchSilence(clock, usageMs, fall);
    }
    return heard.outcome("it cut its answer off");
  } catch (error) {
    if (!silent) return heard.outcome(`it was not heard (${codeOf(error)})`);
    const outcome = heard.outcome(`it was silent for ${ms / 1000} s`);
    return outcome.kind === "failed" ? { ...outcome, again: false } : outcome;
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
