// What endpoints of models say, event by event, and how they fail at it.

import { systemClock } from "../../../src/ops/clock.ts";
import type { ModelDefinition } from "../../../src/platform/agents/definition.ts";
import { readAgents } from "../../../src/platform/index.ts";
import type { Fault } from "../client/fault-server.ts";

export const event = (data: unknown) => `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`;
export const word = (content: string | null) => event({ choices: [{ index: 0, delta: { content } }] });
export const finish = (reason = "stop") =>
  event({ choices: [{ index: 0, delta: {}, finish_reason: reason }] });
const usage = event({ choices: [], usage: { total_tokens: 21 } });
export const done = event("[DONE]");
export const hello = word("Hel") + word("lo.") + finish() + usage + done;

/** A stream of exactly this, ended properly. */
export const streaming =
  (text: string): Fault =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).end(text);
  };

/** The same, byte by byte: every piece of a character and of a line on its own. */
export const trickling =
  (text: string): Fault =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const byte of Buffer.from(text)) response.write(Buffer.of(byte));
    response.end();
  };

/** Says this and then nothing more, for ever. */
export const fallingSilent =
  (text: string): Fault =>
  (_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).write(text);
  };

/** Says this and cuts the line. */
export const cutting =
  (text: string): Fault =>
  (_request, response, socket) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(text, () => socket.destroy());
  };

/** A model at `url`, with the block's other keys. */
export function modelAt(url: string, more = ""): ModelDefinition {
  const text = `organization: { name: A }\nagents: [{ name: a, key: some-key-1, model: { url: "${url}/v1", name: tiny, ${more} } }]`;
  const [agent] = readAgents(text, "a.yaml");
  if (!agent?.model) throw new Error("no model");
  return agent.model;
}

/** The machine's clock, but that waits of less than half a minute are only noted: not for limits below a minute. */
export function impatientClock(waited: number[] = []) {
  const sleep: typeof systemClock.sleep = (ms, signal) => {
    if (ms >= 30_000) return systemClock.sleep(ms, signal);
    waited.push(ms);
    return Promise.resolve();
  };
  return { ...systemClock, sleep };
}
