// What the embedded platform's agent thinks with: a model that answers every question with the question, so that each
// answer can be told from every other. It can be held, as a slow model would.

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { closeServer, listen } from "../client/fault-server.ts";

export interface Echo {
  /** For `model.url` of an agent. */
  readonly url: string;
  /** How many questions it has been asked. */
  asked(): number;
  /** From now on nobody gets an answer, until `release`. */
  hold(): void;
  release(): void;
  close(): Promise<void>;
}

/** The answer to a question, as it stands in the reply's text. */
export const echoed = (question: string): string => `You asked: ${question}`;

export async function startEcho(): Promise<Echo> {
  let held = false;
  let count = 0;
  const waiting: (() => void)[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      count += 1;
      const { messages } = JSON.parse(body) as { messages: { content: string }[] };
      const answer = () => say(response, echoed(lastLine(messages.at(-1)?.content ?? "")));
      if (held) waiting.push(answer);
      else answer();
    });
  });
  await listen(server);
  const release = () => {
    held = false;
    for (const answer of waiting.splice(0)) answer();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    asked: () => count,
    hold: () => void (held = true),
    release,
    close: () => closeServer(server),
  };
}

function say(response: ServerResponse, content: string): void {
  const body = JSON.stringify({ choices: [{ message: { role: "assistant", content } }] });
  response.writeHead(200, { "content-type": "application/json" }).end(body);
}

/** A new conversation's question begins with the subject. */
export const lastLine = (text: string): string => text.trim().split("\n").at(-1) ?? "";
