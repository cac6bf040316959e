// A minimal HTTP/1.1 client: one kept connection, one request at a time. It must cost less than the server, or the
// benchmark would measure itself.

import { once } from "node:events";
import { connect } from "node:net";
import { clock } from "../clock.ts";

export interface Answered {
  readonly status: number;
  readonly body: string;
  /** Milliseconds from the request's first byte to the answer's last. */
  readonly ms: number;
}

export interface Line {
  ask(request: Buffer): Promise<Answered>;
  close(): void;
}

export interface Credential {
  readonly name: "agent-secret-key" | "organization-secret-key";
  readonly key: string;
}

export function requestOf(method: string, path: string, { name, key }: Credential, body?: object): Buffer {
  const text = body === undefined ? "" : JSON.stringify(body);
  const about = text === "" ? "" : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n`;
  return Buffer.from(`${method} ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${name}: ${key}\r\n${about}\r\n${text}`);
}

export async function openLine(port: number): Promise<Line> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.setNoDelay(true);
  let received: Buffer[] = [];
  let settle: { done(answered: Answered): void; failed(error: Error): void; began: number } | null = null;
  socket.on("data", (chunk: Buffer) => {
    received.push(chunk);
    const whole = received.length === 1 ? chunk : Buffer.concat(received);
    const answer = answerIn(whole);
    if (answer === null) return;
    received = [];
    settle?.done({ ...answer, ms: clock() - settle.began });
  });
  const lost = () => settle?.failed(new Error("the connection ended before the answer"));
  socket.on("close", lost).on("error", lost);
  return {
    ask: (request) =>
      new Promise((resolve, reject) => {
        if (socket.destroyed) throw new Error("the connection has ended");
        settle = { done: resolve, failed: reject, began: clock() };
        socket.write(request);
      }),
    close: () => void socket.destroy(),
  };
}

/** Null while the answer is not whole. */
function answerIn(bytes: Buffer): Omit<Answered, "ms"> | null {
  const head = bytes.indexOf("\r\n\r\n");
  if (head < 0) return null;
  const headers = bytes.toString("latin1", 0, head).toLowerCase();
  const length = /\r\ncontent-length: *(\d+)/.exec(headers)?.[1];
  if (length === undefined) throw new Error("an answer without its length");
  const from = head + 4;
  if (bytes.length < from + Number(length)) return null;
  return { status: Number(headers.slice(9, 12)), body: bytes.toString("utf8", from, from + Number(length)) };
}
