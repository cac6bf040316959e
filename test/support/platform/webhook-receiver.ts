// A webhook's receiver, over a real socket.

import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { closeServer, listen } from "../client/fault-server.ts";

export interface Delivered {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // The tests look into whatever comes.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly body: any;
}

/** A receiver that answers as it is told, 204 at first. */
export async function receiver() {
  const got: Delivered[] = [];
  let status = 204;
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => (text += String(chunk)));
    request.on("end", () => {
      got.push({ headers: request.headers, text, body: JSON.parse(text) });
      response.writeHead(status, { location: "/elsewhere" }).end();
    });
  });
  await listen(server);
  onTestFinished(() => closeServer(server));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  return { url, got, answer: (next: number) => void (status = next) };
}
