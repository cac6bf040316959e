// A listener with one channel, `voice`, and clients of its sockets: the real `ws`, and bytes over TCP.

import { once } from "node:events";
import { connect, type Socket as Wire } from "node:net";
import { channelId, type Log, type Route, type Socket, type SocketRoute } from "bridgehead/contract";
import { onTestFinished } from "vitest";
import { type ClientOptions, WebSocket } from "ws";
import { type Listener, type ListenerOptions, startListener } from "../../../src/http/listener.ts";
import { systemClock } from "../../../src/ops/clock.ts";
import { silentLog } from "../resources.ts";

export interface Door {
  readonly listener: Listener;
  /** `ws://` and the address of the channel's route `/relay`. */
  readonly relay: string;
  /** The log's lines so far. */
  readonly lines: readonly { readonly message: string; readonly [field: string]: unknown }[];
  /** Opens a socket; what comes is kept from the first byte. */
  dial(path?: string, options?: ClientOptions & { protocols?: string[] }): Promise<Client>;
  /** The status that refuses an upgrade. */
  refusal(path?: string, options?: ClientOptions & { protocols?: string[] }): Promise<number>;
}

export interface Client {
  readonly ws: WebSocket;
  readonly heard: string[];
  /** Resolves with the code when the socket is closed. */
  readonly closed: Promise<number>;
}

/** A route that lets everybody in and is served by `serve`. */
export const relay = (serve: SocketRoute["serve"], changes: Partial<SocketRoute> = {}): SocketRoute => ({
  kind: "socket",
  path: "/relay",
  authorize: async () => null,
  serve,
  ...changes,
});

/** Says back what it hears. */
export async function echo(socket: Socket): Promise<void> {
  for await (const frame of socket) await socket.send(frame);
}

/** Starts a listener on a free port, without routes and without a log; `changes` replaces any of it. */
export const startTestListener = (changes: Partial<ListenerOptions>): Promise<Listener> =>
  startListener({
    listen: { host: "127.0.0.1", port: 0 },
    clock: systemClock,
    log: silentLog,
    routes: () => null,
    ready: async () => ({ ready: true }),
    metrics: async () => ({ contentType: "text/plain", body: "" }),
    ...changes,
  });

export async function open(
  routes: readonly Route[] | (() => readonly Route[]),
  changes: Partial<ListenerOptions> = {},
): Promise<Door> {
  const lines: Door["lines"][number][] = [];
  const write: Log["info"] = (fields, message) => void lines.push({ ...fields, message });
  const listener = await startTestListener({
    log: { debug: write, info: write, warn: write, error: write },
    routes: (channel) => (channel === channelId("voice") ? (typeof routes === "function" ? routes() : routes) : null),
    ...changes,
  });
  onTestFinished(() => listener.close(100));
  const base = listener.url.replace("http", "ws");
  const client = (path: string, { protocols = [], ...options }: Parameters<Door["dial"]>[1] = {}) => {
    const ws = new WebSocket(base + path, protocols, options);
    onTestFinished(() => ws.terminate());
    return ws;
  };
  return {
    listener,
    relay: `${base}/channels/voice/relay`,
    lines,
    async dial(path = "/channels/voice/relay", options = {}) {
      const ws = client(path, options);
      const heard: string[] = [];
      ws.on("message", (data) => void heard.push((data as Buffer).toString()));
      ws.on("error", () => undefined);
      const closed = new Promise<number>((resolve) => ws.once("close", resolve));
      await once(ws, "open");
      return { ws, heard, closed };
    },
    refusal(path = "/channels/voice/relay", options = {}) {
      const ws = client(path, options);
      ws.on("error", () => undefined);
      return new Promise((resolve, reject) => {
        ws.once("unexpected-response", (_request, response) => resolve(response.statusCode ?? 0));
        ws.once("open", () => reject(new Error("the upgrade was let in")));
        ws.once("close", () => reject(new Error("no answer")));
      });
    },
  };
}

/** A connection of bare bytes; `answer` is what came until the other side closed. */
export function raw(url: string, ...parts: (string | Buffer)[]): { wire: Wire; answer: Promise<string> } {
  const { hostname, port } = new URL(url);
  const wire = connect(Number(port), hostname);
  onTestFinished(() => void wire.destroy());
  const answer = new Promise<string>((resolve) => {
    let text = "";
    wire.on("data", (data) => void (text += data.toString("latin1")));
    wire.on("close", () => resolve(text));
    wire.on("error", () => resolve(text));
  });
  for (const part of parts) wire.write(part);
  return { wire, answer };
}

/** The head of a handshake; every line can be taken out (null) or changed. */
export function handshake(changes: { [header: string]: string | null } = {}, first?: string): string {
  const headers: { [header: string]: string | null } = {
    Host: "h",
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    ...changes,
  };
  const lines = Object.entries(headers).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]));
  return [first ?? "GET /channels/voice/relay HTTP/1.1", ...lines, "", ""].join("\r\n");
}

/** One frame as a client writes it, masked with zeroes; `opcode` 0 continues, 1 is text, 9 a ping. */
export function frame(payload: string | Buffer, { opcode = 1, last = true } = {}): Buffer {
  const body = Buffer.from(payload);
  const head = [(last ? 0x80 : 0) | opcode];
  if (body.length < 126) head.push(0x80 | body.length);
  else head.push(0x80 | 126, body.length >> 8, body.length & 255);
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), body]);
}
