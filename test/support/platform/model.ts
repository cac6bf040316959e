// An OpenAI-compatible server that says what it is told to.

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { closeServer, listen } from "../client/fault-server.ts";

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
