// An HTTP server that misbehaves as told: each request takes the next fault of the script, the last one for ever.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { notFound } from "../../../src/wire/record.ts";

interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}
export type Fault = (request: Received, response: ServerResponse, socket: Socket) => void;

export interface FaultServer {
  readonly url: string;
  readonly received: Received[];
  /** How many connections were made so far. */
  connections(): number;
  script(...faults: readonly Fault[]): void;
  close(): Promise<void>;
}

export async function startFaultServer(): Promise<FaultServer> {
  let faults: Fault[] = [];
  const received: Received[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk: string) => {
      body += chunk;
    });
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const got = { method, path: url, headers, body };
      received.push(got);
      const fault = faults.length > 1 ? faults.shift() : faults[0];
      (fault ?? status(500))(got, response, request.socket);
    });
  });
  let connections = 0;
  server.on("connection", () => connections++);
  await listen(server);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    connections: () => connections,
    script: (...next) => {
      faults = [...next];
    },
    close: () => closeServer(server),
  };
}

export async function listen(server: Server): Promise<void> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
}

export async function closeServer(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}

/** A JSON answer. */
export const json =
  (body: unknown, code = 200, headers: { [name: string]: string } = {}): Fault =>
  (_request, response) => {
    response.writeHead(code, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };

export const status = (code: number, headers: { [name: string]: string } = {}) =>
  json({ status: code, name: "SOME_ERROR", message: "SOME_MESSAGE", details: [] }, code, headers);

/** 404 in the interface's own form. */
export const entityNotFound: Fault = json(notFound, 404);

export const text =
  (body: string, type = "text/html", code = 200): Fault =>
  (_request, response) => {
    response.writeHead(code, { "content-type": type }).end(body);
  };

/** Never answers. */
export const hang: Fault = () => {};

/** Cuts the line with a reset after the whole request was read. */
export const reset: Fault = (_request, _response, socket) => {
  socket.resetAndDestroy();
};

/** Announces more than it sends, then cuts the line. */
export const truncated =
  (body: string, code = 200): Fault =>
  (_request, response, socket) => {
    response.writeHead(code, { "content-type": "application/json", "content-length": body.length + 100 });
    response.write(body, () => socket.destroy());
  };
