// An OpenAI-compatible server that says what it is told to.

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { systemClock } from "../../../src/ops/clock.ts";
import type { ModelDefinition } from "../../../src/platform/agents/definition.ts";
import { readAgents } from "../../../src/platform/index.ts";
import { closeServer, type Fault, listen } from "../client/fault-server.ts";

export interface ModelRequest {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly model: string;
  readonly temperature: number;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}
export type Say = (response: ServerResponse) => void;

export const saying =
  (content: unknown, status = 200): Say =>
  (response) => {
    const body = JSON.stringify({ choices: [{ message: { role: "assistant", content } }] });
    response.writeHead(status, { "content-type": "application/json" }).end(body);
  };

export async function startModel(): Promise<{ url: string; asked: ModelRequest[]; say(next: Say): void }> {
  let say: Say = saying("Hello from the model.");
  const asked: ModelRequest[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => {
      body += String(chunk);
    });
    request.on("end", () => {
      const { authorization } = request.headers;
      asked.push({ path: request.url ?? "", authorization, ...JSON.parse(body) });
      say(response);
    });
  });
  await listen(server);
  onTestFinished(() => closeServer(server));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1/`,
    asked,
    say: (next) => {
      say = next;
    },
  };
}

// What endpoints of models say, event by event, and how they fail at it.

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
